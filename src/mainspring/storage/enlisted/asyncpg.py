"""Enlisting in a caller's asyncpg transaction: statements on its connection, its COMMIT or ROLLBACK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import asyncpg

from mainspring.model.errors import BadHandle
from mainspring.storage.enlisted.errors import autocommitting, closed, explained
from mainspring.storage.script import Row, Statement

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Handle = asyncpg.Connection[Any] | PoolConnectionProxy[Any]
else:
    Handle = Any


class EnlistedAsyncpg:
    """``AsyncConnection`` over a connection that is the caller's: it neither begins nor ends anything.

    Errors of the driver pass as they are, except those that ``errors.explained`` replaces.
    """

    def __init__(self, connection: Handle) -> None:
        self._connection = connection

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction."""
        try:
            rows: Sequence[Row] = await self._connection.fetch(statement.sql, *statement.args)
        except asyncpg.PostgresError as error:
            # A failed transaction cannot be asked for the database's name.
            database = getattr(getattr(self._connection, "_params", None), "database", None)
            if explanation := explained(error, error.sqlstate, database):
                raise explanation from error
            raise
        return rows


def refuse_autocommit(connection: Handle) -> None:
    """Raise BadHandle unless what runs on this connection now will be committed, or not, by the caller."""
    try:
        gone = connection.is_closed()
    except asyncpg.InterfaceError:  # a pool's connection that has been given back
        gone = True
    if gone:
        raise closed("an asyncpg connection")
    refuse_other_loop(connection)
    if not connection.is_in_transaction():
        raise autocommitting(
            "an asyncpg connection outside a transaction",
            "write `async with connection.transaction():` around the call",
        )


def refuse_other_loop(connection: Any) -> None:
    """Raise BadHandle if the connection was opened on another event loop than the one that runs."""
    loop = getattr(connection, "_loop", None)
    if loop is not None and loop is not asyncio.get_running_loop():
        raise BadHandle("tx= is a connection of another event loop: open one on the loop that publishes")
