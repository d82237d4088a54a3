"""Joining a caller's own asyncpg transaction: our statements on its connection, its COMMIT or ROLLBACK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import asyncpg

from mainspring.model.errors import BadHandle, SchemaMissing
from mainspring.storage.migrate import migrations
from mainspring.storage.postgres.names import PACKAGE
from mainspring.storage.script import Row, Statement

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Handle = asyncpg.Connection[Any] | PoolConnectionProxy[Any]
else:
    Handle = Any


class JoinedAsyncpg:
    """``AsyncConnection`` over a connection that is the caller's: it neither begins nor ends anything.

    Errors of the driver pass as they are. It is the caller's transaction, and whoever retries it after a
    serialization failure or a deadlock looks for the driver's own error. Only missing tables are said in our
    words, since nobody but us knows what to do about them.
    """

    def __init__(self, connection: Handle) -> None:
        self._connection = connection

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction."""
        try:
            rows: Sequence[Row] = await self._connection.fetch(statement.sql, *statement.args)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
            raise SchemaMissing(0, migrations(PACKAGE)[-1].number) from error
        return rows


def refuse_autocommit(connection: Handle) -> None:
    """Raise BadHandle unless what runs on this connection now will be committed, or not, by the caller."""
    try:
        closed = connection.is_closed()
    except asyncpg.InterfaceError:  # a pool's connection that has been given back
        closed = True
    if closed:
        raise BadHandle("tx= is a connection that is closed, or back in its pool: publish before you let go of it")
    loop = getattr(connection, "_loop", None)
    if loop is not None and loop is not asyncio.get_running_loop():
        raise BadHandle("tx= is a connection of another event loop: open one on the loop that publishes")
    if not connection.is_in_transaction():
        raise BadHandle(
            "tx= is an asyncpg connection outside a transaction, where every statement commits by itself: "
            "write `async with connection.transaction():` around the call"
        )
