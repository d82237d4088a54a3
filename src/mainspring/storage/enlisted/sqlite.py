"""Enlisting in a transaction on a caller's own ``sqlite3`` connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from mainspring.model.errors import BadHandle, DatabaseMoved, SchemaMissing, StorageError
from mainspring.storage.enlisted.errors import OwnFile, closed
from mainspring.storage.migrations import flags, migrations
from mainspring.storage.script import Row, Statement
from mainspring.storage.sqlite.connection import translated
from mainspring.storage.sqlite.dialect import PACKAGE, named
from mainspring.storage.sqlite.lender import AsyncSqlite

_LEGACY = -1
"""The value of ``autocommit`` in Python 3.12 where ``isolation_level`` decides."""


class EnlistedSqlite:
    """``SyncConnection`` over a caller's connection. Never commits, and leaves its settings as they are."""

    def __init__(self, connection: sqlite3.Connection, file: OwnFile | None = None) -> None:
        self._cursor = refuse_autocommit(connection)
        if file is not None:
            file.refuse_others(self.execute)

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it in the caller's transaction and return its rows, empty where it has none."""
        try:
            return rows(self._cursor, statement)
        except sqlite3.ProgrammingError as error:
            raise _unusable(error) from error
        except sqlite3.Error as error:
            file = _file(self._cursor)
            raise missing(error, file) or translated(error, file, "") from error


class EnlistedAsyncSqlite:
    """``AsyncConnection`` over a transaction that was lent."""

    def __init__(self, handle: AsyncSqlite) -> None:
        self._runs = handle.runs

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it in the transaction, which begins where it has not yet."""
        return await self._runs.run(lambda connection: EnlistedSqlite(connection).execute(statement))


def opened(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor whose rows are plain tuples, whatever the connection makes of its own."""
    cursor = connection.cursor(sqlite3.Cursor)
    cursor.row_factory = None
    return cursor


def rows(cursor: sqlite3.Cursor, statement: Statement) -> Sequence[Row]:
    """The statement's rows. Our text is text, whatever the connection makes of its own."""
    connection = cursor.connection
    factory = connection.text_factory
    if factory is str:
        return cursor.execute(*statement).fetchall()
    connection.text_factory = str  # a cursor cannot have its own
    try:
        return cursor.execute(*statement).fetchall()
    finally:
        connection.text_factory = factory


def refuse_autocommit(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """Raise BadHandle unless what is written now stays uncommitted until the caller commits it; a cursor if so."""
    try:
        cursor = opened(connection)
    except sqlite3.ProgrammingError as error:
        raise _unusable(error) from error
    if setting := commits_by_itself(connection):
        raise BadHandle(
            "this sqlite3 connection commits every statement by itself: execute BEGIN first, or connect without "
            f"{setting}"
        )
    return cursor


def commits_by_itself(connection: Any) -> str | None:
    """The setting that makes it so, None where the caller decides. Also for connections that are like sqlite3's."""
    if connection.in_transaction:
        return None
    # Until 3.12 isolation_level decides alone; since then it does only where autocommit leaves it to.
    autocommit = getattr(connection, "autocommit", _LEGACY)
    if autocommit is True:
        return "autocommit=True"
    return "isolation_level=None" if autocommit is not False and connection.isolation_level is None else None


def begins_before_writing(connection: Any) -> bool:
    """Whether it begins only before it writes, so that a savepoint may come to be the whole transaction."""
    return getattr(connection, "autocommit", _LEGACY) == _LEGACY and connection.isolation_level is not None


def missing(error: BaseException, file: str | None) -> StorageError | None:
    """Say which file it is that has no tables, or whose content moves; None where the error is another."""
    if (moved := DatabaseMoved.read(str(error))) is not None:
        return moved
    if "no such table" not in str(error):
        return None
    # The app's own database may well be in order.
    return SchemaMissing(
        0,
        migrations(PACKAGE)[-1].number,
        f"the database {file or ':memory:'!r} that tx= is connected to has no Mainspring tables ({error}): run "
        f"`mainspring migrate --url URL{flags(named(str(error)))}` or open the app once. If it is another file than "
        "the app's, connect to the app's own: only one file can be one transaction",
    )


def _unusable(error: sqlite3.ProgrammingError) -> BadHandle:
    if "thread" in str(error):
        return BadHandle(
            "this sqlite3 connection belongs to another thread: use it there, or connect with check_same_thread=False "
            "and let one thread at a time use it"
        )
    if "closed" in str(error):
        return closed("a sqlite3 connection")
    return BadHandle(f"this sqlite3 connection cannot be used ({error}): open a new one and pass that")


def _file(cursor: sqlite3.Cursor) -> str:
    found = rows(cursor, Statement("PRAGMA database_list"))
    return next((file for _, name, file in found if name == "main" and file), ":memory:")
