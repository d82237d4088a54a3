"""Beginning a transaction on whatever a factory makes: a session, a connection, or a block that gives one.

What it gives may be in a transaction already: ``engine.begin()`` begins one, and so does a block that has run a
statement. That one is committed here all the same, since the end of a block may as well be a rollback.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from typing import Any, cast

from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadHandle


@asynccontextmanager
async def begun(factory: Callable[[], Any], transactions: Transactions) -> AsyncIterator[Any]:
    """A transaction for a coroutine: committed at the end of the block, rolled back when it raises."""
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
    """The same for a plain function, in its thread."""
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


@contextmanager
def atomic(alias: str) -> Iterator[Any]:
    """A transaction of Django's, for a plain function, in its thread."""
    from django.db import close_old_connections, connections, transaction

    close_old_connections()  # as at the start of a request: one that the server has ended is opened anew
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
    """Whether it is within a ``transaction()`` of psycopg's, which commits at its end and lets nobody else."""
    return bool(getattr(handle, "_num_transactions", 0))


def _beginning(handle: Any) -> Any:
    return handle.begin() if hasattr(handle, "begin") else handle.transaction()
