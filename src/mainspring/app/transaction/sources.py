"""The transactions of a transactional consumer: what ``transactional=`` accepts, and how one begins."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from mainspring.app.transaction.enlistment import Transactions
from mainspring.app.transaction.handles import django_alias
from mainspring.model.errors import BadHandle, BadOption
from mainspring.storage.contract import Lender

Factory = Callable[[], Any]
Begin = Callable[[], AbstractAsyncContextManager[Any]] | Callable[[], AbstractContextManager[Any]]

_ACCEPTED = (
    "True for a connection of the app's own, or a factory of sessions or connections: a sessionmaker, engine.begin, "
    "pool.acquire, or the alias of a Django database"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of transactions: a user's factory, the alias of a Django database, or else the app."""

    factory: Factory | None = None
    alias: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the app lends the connections."""
        return self.factory is None and self.alias is None

    @property
    def shown(self) -> str:
        """Its text for people."""
        if self.alias is not None:
            return f"Django {self.alias}"
        return "yes" if self.factory is None else _named(self.factory)

    def capacity(self) -> int | None:
        """Return how many transactions it gives at once, if known; None: any number."""
        return None if self.factory is None else _capacity(self.factory)

    def begin(self, transactions: Transactions, lender: Lender, *, blocking: bool) -> Begin:
        """Return what begins one, for a coroutine or a plain function's thread."""
        if self.alias is not None:
            return partial(atomic, self.alias)
        if self.factory is not None:
            return partial(begun_blocking if blocking else begun, self.factory, transactions)
        lender.check(blocking=blocking)
        return lender.lend_blocking if blocking else lender.lend

    def bound_to(self, connection: object) -> Callable[[], AbstractAsyncContextManager[Any]] | None:
        """Return what makes its sessions on a connection of a test; None where it makes none on such a connection."""
        makers = {"Connection": "sessionmaker", "AsyncConnection": "async_sessionmaker"}
        kind = type(connection)
        if kind.__module__.startswith("sqlalchemy.") and makers.get(kind.__name__) in _classes(self.factory):
            return partial(_on_connection, cast("Factory", self.factory), connection)
        return None


def read_source(given: object, name: str, *, threaded: bool) -> Source | None:
    """Read the option ``transactional`` of this handler; raise BadOption with what to write."""
    if given is None or given is False:
        return None
    if given is True:
        return Source()
    if isinstance(given, str):
        return Source(alias=_alias(given, name, threaded=threaded))
    if _is_handle(given):
        raise BadOption(
            f"transactional={_named(given)} is one connection or session, and every attempt needs its own: pass the "
            f"factory, without parentheses after it. Write {_ACCEPTED}"
        )
    if not callable(given):
        raise BadOption(f"transactional={given!r} is neither: write {_ACCEPTED}")
    if threaded and _is_async(given):
        raise BadOption(
            f"transactional={_named(given)} is asyncio's, and {name} is a plain function: make it async def"
        )
    if not threaded and _is_blocking(given):
        raise BadOption(
            f"transactional={_named(given)} blocks, and {name} is async: give it async_sessionmaker(…), or make it "
            "a plain function"
        )
    return Source(factory=given)


def _alias(alias: str, name: str, *, threaded: bool) -> str:
    if django_alias(alias) is None:
        raise BadOption(f"transactional={alias!r} is not the alias of a Django database here: write {_ACCEPTED}")
    if not threaded:
        raise BadOption(f"transactional={alias!r} blocks, as Django's transactions do: make {name} a plain function")
    return alias


def _is_handle(given: Any) -> bool:
    return hasattr(given, "commit") and hasattr(given, "rollback") and not _is_scoped(given)


def _is_scoped(given: Any) -> bool:
    return type(given).__name__ in ("scoped_session", "async_scoped_session")


def _owner(given: Any) -> Any:
    """Return a method's object: ``engine`` of ``engine.begin``."""
    return getattr(given, "__self__", given)


def _classes(given: Any) -> set[str]:
    return {each.__name__ for each in type(_owner(given)).__mro__}


def _is_async(given: Any) -> bool:
    asyncio_s = {"async_sessionmaker", "async_scoped_session", "AsyncEngine", "AsyncConnectionPool"}
    classes = _classes(given)
    return bool(classes & asyncio_s) or ("Pool" in classes and type(_owner(given)).__module__.startswith("asyncpg"))


def _is_blocking(given: Any) -> bool:
    return not _is_async(given) and bool(
        _classes(given) & {"sessionmaker", "scoped_session", "Engine", "ConnectionPool"}
    )


def _capacity(factory: Any) -> int | None:
    """Return the maximum size of a pool of a known kind."""
    owner = _owner(factory)
    if hasattr(owner, "get_max_size"):  # asyncpg's pool
        return int(owner.get_max_size())
    if isinstance(getattr(owner, "max_size", None), int):  # psycopg's pool; 0 is no limit
        return int(owner.max_size) or None
    engine = getattr(owner, "kw", {}).get("bind") or owner
    pool: Any = getattr(getattr(engine, "sync_engine", engine), "pool", None)
    if type(pool).__name__ not in ("QueuePool", "AsyncAdaptedQueuePool"):
        return None
    most = pool.size() + pool._max_overflow  # noqa: SLF001 - it has no other name
    return None if pool._max_overflow < 0 or pool.size() == 0 else int(most)  # noqa: SLF001


def _named(given: Any) -> str:
    return str(getattr(given, "__qualname__", None) or type(given).__name__)


@asynccontextmanager
async def begun(factory: Callable[[], Any], transactions: Transactions) -> AsyncIterator[Any]:
    """Begin a transaction for a coroutine: commit at the end of the block, roll back if it raises."""
    async with AsyncExitStack() as stack:
        made = factory()
        if not hasattr(made, "__aenter__"):
            raise BadHandle(f"{_gave(factory, made)}: an async handler needs a session or connection of asyncio's")
        handle = await stack.enter_async_context(made)
        kind, handle = transactions.recognised(handle)
        if kind.blocking:
            raise BadHandle(f"{_gave(factory, handle)}, which blocks: make the handler a plain function")
        if not _is_begun(handle):
            await stack.enter_async_context(_beginning(handle))
            yield handle
        else:
            yield handle
            if hasattr(handle, "commit") and not _is_in_a_block(handle):
                await cast("Any", handle).commit()


@contextmanager
def begun_blocking(factory: Callable[[], Any], transactions: Transactions) -> Iterator[Any]:
    """Begin one for a plain function, in its thread."""
    with ExitStack() as stack:
        made = factory()
        if isinstance(made, sqlite3.Connection):
            stack.enter_context(closing(made))
        elif not hasattr(made, "__enter__"):
            raise BadHandle(f"{_gave(factory, made)}: a plain function needs a session or connection that blocks")
        handle = stack.enter_context(made)
        kind, handle = transactions.recognised(handle)
        if not kind.blocking:
            raise BadHandle(f"{_gave(factory, handle)}, which is asyncio's: make the handler an async def")
        if not _is_begun(handle):
            stack.enter_context(_beginning(handle))
            yield handle
        else:
            yield handle
            if not _is_in_a_block(handle):
                cast("Any", handle).commit()


@asynccontextmanager
async def _on_connection(sessions: Callable[..., Any], connection: object) -> AsyncIterator[Any]:
    """Make one session of SQLAlchemy's on a connection in a transaction: what it commits is a savepoint there."""
    session = sessions(bind=connection, join_transaction_mode="create_savepoint")
    try:
        yield session
        await _if_awaitable(session.commit())
    finally:
        await _if_awaitable(session.close())


async def _if_awaitable(answer: Any) -> None:
    if hasattr(answer, "__await__"):
        await answer


@contextmanager
def atomic(alias: str) -> Iterator[Any]:
    """Begin a Django transaction for a plain function, in its thread."""
    from django.db import close_old_connections, connections, transaction

    close_old_connections()  # as at the start of a request: one that the server has closed is reopened
    try:
        with transaction.atomic(using=alias):
            yield connections[alias]
    finally:
        close_old_connections()


def _gave(factory: Callable[[], Any], made: object) -> str:
    kind = type(made)
    name = getattr(factory, "__name__", type(factory).__name__)
    return f"transactional={name} made {kind.__module__}.{kind.__qualname__}"


def _is_begun(handle: Any) -> bool:
    if hasattr(handle, "in_transaction"):  # SQLAlchemy has a method, sqlite3 begins by itself
        return bool(handle.in_transaction()) if callable(handle.in_transaction) else True
    if hasattr(handle, "is_in_transaction"):
        return bool(handle.is_in_transaction())  # asyncpg
    return bool(handle.info.transaction_status)  # psycopg


def _is_in_a_block(handle: Any) -> bool:
    """Return whether it is within a ``transaction()`` of psycopg, which alone may commit it."""
    return bool(getattr(handle, "_num_transactions", 0))


def _beginning(handle: Any) -> Any:
    return handle.begin() if hasattr(handle, "begin") else handle.transaction()
