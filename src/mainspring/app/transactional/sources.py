"""Where the transactions of a consumer come from: what ``transactional=`` was given, read when it is registered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from mainspring.app.storages import django_alias
from mainspring.app.transactional.beginning import atomic, begun, begun_blocking
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadOption
from mainspring.storage.contract import Lender

Factory = Callable[[], Any]
Begin = Callable[[], AbstractAsyncContextManager[Any]] | Callable[[], AbstractContextManager[Any]]

_ACCEPTED = (
    "True for a connection of the app's own, or what makes sessions or connections: a sessionmaker, engine.begin, "
    "pool.acquire, or the alias of a database of Django's"
)


@dataclass(frozen=True, slots=True)
class Source:
    """What gives the transactions: a factory of the user's, the alias of a database of Django's, or else the app."""

    factory: Factory | None = None
    alias: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the connections are lent by the app."""
        return self.factory is None and self.alias is None

    @property
    def shown(self) -> str:
        """For people: what it is."""
        if self.alias is not None:
            return f"Django {self.alias}"
        return "yes" if self.factory is None else _named(self.factory)

    def capacity(self) -> int | None:
        """How many transactions it gives at once, as far as that can be known; None: any number."""
        return None if self.factory is None else _capacity(self.factory)

    def begin(self, transactions: Transactions, lender: Lender, *, blocking: bool) -> Begin:
        """What begins one: for a coroutine, or for a plain function in its thread."""
        if self.alias is not None:
            return partial(atomic, self.alias)
        if self.factory is not None:
            return partial(begun_blocking if blocking else begun, self.factory, transactions)
        lender.check(blocking=blocking)
        return lender.lend_blocking if blocking else lender.lend


def read_source(given: object, name: str, *, threaded: bool) -> Source | None:
    """Read the option ``transactional`` of this handler; raises BadOption saying what to write."""
    if given is None or given is False:
        return None
    if given is True:
        return Source()
    if isinstance(given, str):
        return Source(alias=_alias(given, name, threaded=threaded))
    if not callable(given):
        raise BadOption(f"transactional={given!r} is neither: write {_ACCEPTED}")
    if _is_handle(given):
        raise BadOption(
            f"transactional={_named(given)} is one connection or session, and every attempt needs its own: write "
            f"{_ACCEPTED}"
        )
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
        raise BadOption(f"transactional={alias!r} is the alias of no database of Django's here: write {_ACCEPTED}")
    if not threaded:
        raise BadOption(f"transactional={alias!r} blocks, as Django's transactions do: make {name} a plain function")
    return alias


def _is_handle(given: Any) -> bool:
    return hasattr(given, "commit") and hasattr(given, "rollback") and not _is_scoped(given)


def _is_scoped(given: Any) -> bool:
    return type(given).__name__ in ("scoped_session", "async_scoped_session")


def _owner(given: Any) -> Any:
    """What a bound method is of: ``engine`` of ``engine.begin``."""
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
    """How many connections a pool of a known kind has at most."""
    owner = _owner(factory)
    if hasattr(owner, "get_max_size"):  # asyncpg's pool
        return int(owner.get_max_size())
    if isinstance(getattr(owner, "max_size", None), int):  # psycopg's pool; with 0 it has no end
        return int(owner.max_size) or None
    engine = getattr(owner, "kw", {}).get("bind") or owner
    pool: Any = getattr(getattr(engine, "sync_engine", engine), "pool", None)
    if type(pool).__name__ not in ("QueuePool", "AsyncAdaptedQueuePool"):
        return None
    most = pool.size() + pool._max_overflow  # noqa: SLF001 - it has no other name
    return None if pool._max_overflow < 0 or pool.size() == 0 else int(most)  # noqa: SLF001


def _named(given: Any) -> str:
    return str(getattr(given, "__qualname__", None) or type(given).__name__)
