"""Enlisting in a caller's psycopg transaction, blocking or asyncio: its COMMIT or ROLLBACK.

``RawCursor`` takes ``$1``, so the statements are those of every other driver. No session state is used or left: what
the connection says about preparing statements is followed, as a pooler in between may need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.postgres import register_default_adapters, register_default_types
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types import TypesRegistry
from psycopg.types.array import register_all_arrays

from mainspring.storage.enlisted.errors import autocommitting, closed, explained, failed
from mainspring.storage.script import Row, Statement

Handle = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def _as_shipped() -> AdaptersMap:
    types = TypesRegistry()
    register_default_types(types)
    shipped = AdaptersMap(types=types)
    register_default_adapters(shipped)
    register_all_arrays(shipped)  # after all that they may be arrays of
    return shipped


_SHIPPED = _as_shipped()
"""The adapters that psycopg ships. A caller's connection may have others."""


class _Cursor(psycopg.RawCursor[Row]):
    """A cursor that leaves the caller's own ways to send and read values alone."""

    @property
    def adapters(self) -> AdaptersMap:
        return _SHIPPED


class _AsyncCursor(psycopg.AsyncRawCursor[Row]):
    """See ``_Cursor``."""

    @property
    def adapters(self) -> AdaptersMap:
        return _SHIPPED


class EnlistedPsycopg:
    """``Connection`` over a caller's psycopg connection. Never commits.

    Errors of the driver pass as they are, except those that ``errors.explained`` replaces.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        refuse_autocommit(connection)
        self._connection = connection

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction, which psycopg begins where it has not yet."""
        cursor = _Cursor(self._connection, row_factory=tuple_row)
        try:
            cursor.execute(statement.sql.encode(), statement.args)
            return cursor.fetchall() if _answers(self._connection, cursor) else []
        except psycopg.Error as error:
            if _is_silent(cursor):
                return []
            _explain(error, self._connection)


class EnlistedAsyncPsycopg:
    """``AsyncConnection`` over a caller's psycopg connection; see ``EnlistedPsycopg``."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        refuse_autocommit(connection)
        self._connection = connection

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction, which psycopg begins where it has not yet."""
        cursor = _AsyncCursor(self._connection, row_factory=tuple_row)
        try:
            await cursor.execute(statement.sql.encode(), statement.args)
            return await cursor.fetchall() if _answers(self._connection, cursor) else []
        except psycopg.Error as error:
            if _is_silent(cursor):
                return []
            _explain(error, self._connection)


def refuse_autocommit(connection: Handle) -> None:
    """Raise BadHandle unless what runs on this connection now will be committed, or not, by the caller."""
    if connection.closed:
        raise closed("a psycopg connection")
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise failed()
    if connection.autocommit and status == TransactionStatus.IDLE:
        word = "async with" if isinstance(connection, psycopg.AsyncConnection) else "with"
        raise autocommitting(
            "a psycopg connection with autocommit=True outside a transaction",
            f"write `{word} connection.transaction():` around the call",
        )


def _answers(connection: Handle, cursor: psycopg.RawCursor[Any] | psycopg.AsyncRawCursor[Any]) -> bool:
    # In a pipeline the result, and whether there is one, is only known after a fetch.
    return cursor.description is not None or connection.info.pipeline_status != PipelineStatus.OFF


def _is_silent(cursor: psycopg.RawCursor[Any] | psycopg.AsyncRawCursor[Any]) -> bool:
    """Whether the statement has run and has no rows to ask for, which a pipeline takes for an error."""
    return cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.COMMAND_OK


def _explain(error: psycopg.Error, connection: Handle) -> NoReturn:
    if explanation := explained(error, error.sqlstate, None if connection.closed else connection.info.dbname):
        raise explanation from error
    raise error
