"""Enlisting in a caller's SQLAlchemy transaction: sessions and connections, blocking and asyncio, over four drivers.

Everything goes through SQLAlchemy's own execution. The driver's connection is only looked at: with asyncpg it is
outside any transaction until SQLAlchemy has run a statement.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.engine.base import RootTransaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.ext.asyncio.exc import AsyncContextNotStarted
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import PoolProxiedConnection

from mainspring.model.errors import BadHandle, MainspringError
from mainspring.storage.enlisted.errors import OwnFile, autocommitting, closed, failed, lone_savepoint, other_database
from mainspring.storage.script import Row, Statement

_KEY = "mainspring"
_FILE = "mainspring-file"


_PARAMETER = re.compile(r"\$(\d+)")
_COMMENT = re.compile(r"--[^\n]*")
_INDENT = re.compile(r"\n\s*")
_DRIVERS = {"postgresql": ("psycopg", "asyncpg"), "sqlite": ("pysqlite", "aiosqlite")}


@dataclass(slots=True)
class _Note:
    """The listeners for the commit of this transaction. Kept with the driver's connection."""

    transaction: weakref.ref[RootTransaction]
    listeners: list[Callable[[], None]] = field(default_factory=list)


class Commit:
    """Replaces ``do_commit`` of one dialect: commits, then calls the listeners.

    Every commit of every session and connection passes here, and nothing but a commit: no savepoint, no rollback.
    """

    def __init__(self, commit: Callable[[PoolProxiedConnection], None]) -> None:
        self._commit = commit

    def __call__(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Commit, then call the listeners."""
        note: _Note | None = dbapi_connection.info.pop(_KEY, None)
        transaction = None if note is None else note.transaction()
        # A note of a transaction that was rolled back counts no more.
        meant = transaction is not None and transaction.is_active
        self._commit(dbapi_connection)
        if note is not None and meant:
            for listener in note.listeners:
                listener()


def note(connection: Connection, listener: Callable[[], None]) -> None:
    """Have the listener called once, after the transaction that this connection is in has been committed."""
    transaction = connection.get_transaction()
    if transaction is None:
        return
    found: _Note | None = connection.info.get(_KEY)
    if found is None or found.transaction() is not transaction:
        found = connection.info[_KEY] = _Note(weakref.ref(transaction))
    if listener not in found.listeners:
        found.listeners.append(listener)
    _watch(connection.dialect)


def is_noted(connection: Connection) -> bool:
    """Whether a listener waits for the transaction that this connection is in."""
    found: _Note | None = connection.info.get(_KEY)
    return found is not None and found.transaction() is connection.get_transaction()


def _watch(dialect: Dialect) -> None:
    # The dialect belongs to one engine. Twice would do no harm: the second finds no note.
    if not isinstance(dialect.do_commit, Commit):
        dialect.do_commit = Commit(dialect.do_commit)  # type: ignore[method-assign]


def named(statement: Statement) -> tuple[str, dict[str, Any]]:
    """The same statement with parameters by name, and their values."""
    return _renamed(statement.sql), {f"p{place}": value for place, value in enumerate(statement.args, 1)}


@cache
def _renamed(sql: str) -> str:
    # Without comments, since a parameter named in one would count, and because psycopg remembers how to read short
    # texts only.
    bare = _INDENT.sub("\n", _COMMENT.sub("", sql)).strip()
    return _PARAMETER.sub(r"%(p\1)s", bare.replace("%", "%%"))


class EnlistedSqlalchemy:
    """``SyncConnection`` over a caller's Session, scoped session or Connection.

    Never commits. Errors of SQLAlchemy and its driver pass as they are, but for those that only we can explain.
    ``committed`` is called after the caller's own commit.
    """

    def __init__(
        self,
        handle: Session | scoped_session[Any] | Connection,
        engine: str,
        committed: Callable[[], None],
        file: OwnFile | None = None,
    ) -> None:
        self._handle = handle
        self._file = file
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
                f"tx= is a SQLAlchemy handle over the driver {dialect.driver}, which Mainspring cannot use: write "
                f"create_engine('{engine}+{_DRIVERS[engine][0]}://…')"
            )
        if not connection.in_transaction():
            connection.begin()  # as its first statement would
        _CHECKS[engine](connection)
        file = self._file
        # Looked up once for each connection of the driver.
        if file is not None and connection.info.get(_FILE) is not file:
            file.refuse_others(lambda statement: _rows(connection, statement))
            connection.info[_FILE] = file
        return connection


class EnlistedAsyncSqlalchemy:
    """``AsyncConnection`` over a caller's AsyncSession, scoped or not, or AsyncConnection."""

    def __init__(
        self,
        handle: AsyncSession | async_scoped_session[Any] | AsyncConnection,
        engine: str,
        committed: Callable[[], None],
        file: OwnFile | None = None,
    ) -> None:
        self._file = file
        self._handle = handle() if isinstance(handle, async_scoped_session) else handle
        self._engine = engine
        self._committed = committed
        self._enlisted_sync: EnlistedSqlalchemy | None = None

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it within the caller's transaction, which SQLAlchemy begins where it has not yet."""
        try:
            return await self._handle.run_sync(self._execute, statement)
        except exc.InvalidRequestError as error:
            raise unusable(error) from error

    def _execute(self, handle: Session | Connection, statement: Statement) -> Sequence[Row]:
        self._enlisted_sync = self._enlisted_sync or EnlistedSqlalchemy(
            handle, self._engine, self._committed, self._file
        )
        return self._enlisted_sync.execute(statement)


def _rows(connection: Connection, statement: Statement) -> Sequence[Row]:
    sql, args = named(statement) if connection.dialect.driver == "psycopg" else statement
    try:
        result = connection.exec_driver_sql(sql, args)
        return result.fetchall() if result.returns_rows else ()
    except exc.DBAPIError as error:
        if explanation := _explained(error.orig, connection):
            raise explanation from error
        raise


def _explained(cause: BaseException | None, connection: Connection) -> MainspringError | None:
    if cause is None:
        return None
    database = connection.engine.url.database
    if connection.dialect.name == "postgresql":
        from mainspring.storage.enlisted.errors import explained

        return explained(cause, getattr(cause, "sqlstate", None), database)
    from mainspring.storage.enlisted.sqlite import missing

    return missing(cause, database)


def _check_postgresql(connection: Connection) -> None:
    proxied = connection.connection
    if connection.dialect.driver == "asyncpg":
        from mainspring.storage.enlisted.asyncpg import refuse_other_loop

        refuse_other_loop(proxied.driver_connection)
    if getattr(proxied.dbapi_connection, "autocommit", False):
        raise _autocommitting()


def _check_sqlite(connection: Connection) -> None:
    from mainspring.storage.enlisted.sqlite import begins_before_writing, commits_by_itself

    driver = connection.connection.driver_connection
    if commits_by_itself(driver):
        raise _autocommitting()
    # An earlier enlisting in this transaction has written before the savepoint, so that a BEGIN came first.
    if connection.in_nested_transaction() and begins_before_writing(driver) and not is_noted(connection):
        raise lone_savepoint()


_CHECKS: dict[str, Callable[[Connection], None]] = {"postgresql": _check_postgresql, "sqlite": _check_sqlite}


def _autocommitting() -> BadHandle:
    return autocommitting(
        "a SQLAlchemy handle in AUTOCOMMIT", "leave isolation_level='AUTOCOMMIT' out for what must be one transaction"
    )


def unusable(error: exc.InvalidRequestError) -> BadHandle:
    """Explain why SQLAlchemy rejects a handle now, and what to do about it."""
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
