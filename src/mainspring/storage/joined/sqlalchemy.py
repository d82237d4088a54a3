"""Joining a caller's SQLAlchemy transaction: sessions and connections, blocking and asyncio, over four drivers.

Everything goes through SQLAlchemy's own execution. The driver's connection is only looked at: with asyncpg it is
outside any transaction until SQLAlchemy has run a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.ext.asyncio.exc import AsyncContextNotStarted
from sqlalchemy.orm import Session, scoped_session

from mainspring.model.errors import BadHandle, MainspringError
from mainspring.storage.joined.commits import is_noted, note
from mainspring.storage.joined.spelling import named
from mainspring.storage.refusals import autocommitting, closed, failed, lone_savepoint, other_database
from mainspring.storage.script import Row, Statement

_DRIVERS = {"postgresql": ("psycopg", "asyncpg"), "sqlite": ("pysqlite", "aiosqlite")}


class JoinedSqlalchemy:
    """``script.Connection`` over a caller's Session, scoped session or Connection.

    Never commits. Errors of SQLAlchemy and its driver pass as they are, but for those that only we can explain.
    ``committed`` is called after the caller's own commit.
    """

    def __init__(
        self, handle: Session | scoped_session[Any] | Connection, engine: str, committed: Callable[[], None]
    ) -> None:
        self._handle = handle
        self._engine = engine
        self._committed = committed
        self._connection: Connection | None = None

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction, which SQLAlchemy begins where it has not yet."""
        try:
            connection = self._connection or self._enlisted()
            rows = _rows(connection, statement)
        except exc.InvalidRequestError as error:
            raise unusable(error) from error
        if self._connection is None:
            self._connection = connection
            note(connection, self._committed)
        return rows

    def _enlisted(self) -> Connection:
        connection = self._handle if isinstance(self._handle, Connection) else self._handle.connection()
        dialect, engine = connection.dialect, self._engine
        if dialect.name != engine:
            raise other_database(f"a SQLAlchemy handle on {dialect.name}", engine)
        if dialect.driver not in _DRIVERS[engine]:
            raise BadHandle(
                f"tx= is a SQLAlchemy handle over the driver {dialect.driver}, which Mainspring cannot join: write "
                f"create_engine('{engine}+{_DRIVERS[engine][0]}://…')"
            )
        if not connection.in_transaction():
            connection.begin()  # as its first statement would
        _CHECKS[engine](connection)
        return connection


class JoinedAsyncSqlalchemy:
    """``script.AsyncConnection`` over a caller's AsyncSession, scoped or not, or AsyncConnection."""

    def __init__(
        self,
        handle: AsyncSession | async_scoped_session[Any] | AsyncConnection,
        engine: str,
        committed: Callable[[], None],
    ) -> None:
        self._handle = handle() if isinstance(handle, async_scoped_session) else handle
        self._engine = engine
        self._committed = committed
        self._joined: JoinedSqlalchemy | None = None

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction, which SQLAlchemy begins where it has not yet."""
        try:
            return await self._handle.run_sync(self._execute, statement)
        except exc.InvalidRequestError as error:
            raise unusable(error) from error

    def _execute(self, handle: Session | Connection, statement: Statement) -> Sequence[Row]:
        self._joined = self._joined or JoinedSqlalchemy(handle, self._engine, self._committed)
        return self._joined.execute(statement)


def _rows(connection: Connection, statement: Statement) -> Sequence[Row]:
    sql, args = named(statement) if connection.dialect.driver == "psycopg" else statement
    try:
        result = connection.exec_driver_sql(sql, args)
        return result.fetchall() if result.returns_rows else ()
    except exc.DBAPIError as error:
        if told := _explained(error.orig, connection):
            raise told from error
        raise


def _explained(cause: BaseException | None, connection: Connection) -> MainspringError | None:
    if cause is None:
        return None
    database = connection.engine.url.database
    if connection.dialect.name == "postgresql":
        from mainspring.storage.postgres.joining import explained

        return explained(cause, getattr(cause, "sqlstate", None), database)
    from mainspring.storage.sqlite.joined import missing

    return missing(cause, database)


def _check_postgresql(connection: Connection) -> None:
    proxied = connection.connection
    if connection.dialect.driver == "asyncpg":
        from mainspring.storage.postgres.joined import refuse_other_loop

        refuse_other_loop(proxied.driver_connection)
    if getattr(proxied.dbapi_connection, "autocommit", False):
        raise _autocommitting()


def _check_sqlite(connection: Connection) -> None:
    from mainspring.storage.sqlite.joined import begins_before_writing, commits_by_itself

    driver = connection.connection.driver_connection
    if commits_by_itself(driver):
        raise _autocommitting()
    # What was joined before in this transaction was written before the savepoint, so that a BEGIN came first.
    if connection.in_nested_transaction() and begins_before_writing(driver) and not is_noted(connection):
        raise lone_savepoint()


_CHECKS: dict[str, Callable[[Connection], None]] = {"postgresql": _check_postgresql, "sqlite": _check_sqlite}


def _autocommitting() -> BadHandle:
    return autocommitting(
        "a SQLAlchemy handle in AUTOCOMMIT", "leave isolation_level='AUTOCOMMIT' out for what must be one transaction"
    )


def unusable(error: exc.InvalidRequestError) -> BadHandle:
    """What SQLAlchemy says of a handle that cannot be used now, and what to do about it."""
    if isinstance(error, exc.PendingRollbackError):
        return failed()
    if isinstance(error, exc.ResourceClosedError):
        return closed("a SQLAlchemy connection")
    if isinstance(error, exc.UnboundExecutionError):
        return BadHandle(
            "tx= is a session with no single database: name the one that Mainspring's tables are in, by "
            "tx=session.connection(bind_arguments={'mapper': Order})"
        )
    if isinstance(error, exc.MissingGreenlet):
        return BadHandle(
            "tx= is the blocking side of an asyncio session: write `await app.publish(…, tx=session)` with the "
            "AsyncSession, or call this within session.run_sync(…)"
        )
    if isinstance(error, AsyncContextNotStarted):
        return BadHandle("tx= is not connected yet: write `async with engine.begin() as connection:` around the call")
    return BadHandle(f"tx= is a SQLAlchemy handle that cannot be used now: {str(error).partition(chr(10))[0]}")
