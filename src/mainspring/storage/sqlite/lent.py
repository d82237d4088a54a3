"""A connection to a SQLite file as a handler has it: in one transaction, which only its lender ends."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, NoReturn, Self

from mainspring.storage.sqlite.connections import BUSY_TIMEOUT, synchronous

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_READS = re.compile(_SPACE + r"(?:SELECT|VALUES|EXPLAIN|PRAGMA|ATTACH|DETACH|BEGIN)\b", re.IGNORECASE | re.DOTALL)
_WITH = re.compile(_SPACE + r"WITH\b", re.IGNORECASE | re.DOTALL)
_CHANGES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_ENDS = re.compile(_SPACE + r"(?:COMMIT|END|ROLLBACK(?!\s+(?:TRANSACTION\s+)?TO\b))\b", re.IGNORECASE | re.DOTALL)


class LentCursor(sqlite3.Cursor):
    """Begins the transaction before the first statement that may write, whatever kind of statement that is.

    sqlite3 itself begins before INSERT, UPDATE, DELETE and REPLACE only. A savepoint, a table or a WITH … INSERT that
    comes first would be committed at once, by itself.
    """

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """See ``sqlite3.Cursor.execute``."""
        self._begin(sql)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        """See ``sqlite3.Cursor.executemany``."""
        self._begin(sql)
        return super().executemany(sql, parameters)

    def executescript(self, _sql: str, /) -> NoReturn:
        """Refused: it commits first."""
        raise _refusal("executescript() commits: run its statements one by one")

    def _begin(self, sql: str) -> None:
        connection = self.connection
        assert isinstance(connection, LentConnection)
        connection.refuse_undone()
        if _ENDS.match(sql):
            raise _refusal("it is committed with the verdict: return, or raise to undo it")
        if not connection.in_transaction and writes(sql):
            super().execute("BEGIN IMMEDIATE")
            connection.begun = True


class LentConnection(sqlite3.Connection):
    """The connection of a plain function, or beneath an ``AsyncSqlite``. It cannot be committed by who was lent it."""

    begun: bool = False
    """Whether it has been seen within its transaction: there is to be no second one after it."""

    def cursor(self, factory: Any = LentCursor) -> Any:
        """See ``sqlite3.Connection.cursor``. What joins the transaction has a cursor of its own kind."""
        self.refuse_undone()
        return super().cursor(factory)

    # sqlite3's own three make their cursor without asking cursor().

    def execute(self, sql: str, parameters: Any = (), /) -> LentCursor:
        """See ``sqlite3.Connection.execute``."""
        cursor: LentCursor = self.cursor()
        return cursor.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> LentCursor:
        """See ``sqlite3.Connection.executemany``."""
        cursor: LentCursor = self.cursor()
        return cursor.executemany(sql, parameters)

    def executescript(self, _sql: str, /) -> NoReturn:
        """Refused: it commits first."""
        raise _refusal("executescript() commits: run its statements one by one")

    def commit(self) -> NoReturn:
        """Refused."""
        raise _refusal("it is committed with the verdict: return")

    def rollback(self) -> NoReturn:
        """Refused."""
        raise _refusal("raise, and all of it is undone")

    def __enter__(self) -> NoReturn:
        """Refused: the end of the block would commit."""
        raise _refusal("`with ctx.tx:` would commit at its end: leave it out")

    def refuse_undone(self) -> None:
        """Raise where SQLite itself has undone the transaction: what comes now would be committed without the rest."""
        if self.in_transaction:
            self.begun = True
        elif self.begun:
            raise undone("an earlier statement failed, and SQLite has undone the whole transaction with it")

    def end(self, how: Literal["COMMIT", "ROLLBACK"]) -> None:
        """End the transaction, if it has begun; one that cannot be committed is rolled back. Raises why."""
        try:
            if how == "COMMIT":
                self.refuse_undone()
                super().commit()
        finally:
            self.begun = False
            with suppress(sqlite3.Error):  # its handler has closed it
                if self.in_transaction:
                    super().rollback()

    @property
    def is_clean(self) -> bool:
        """Whether it is open, and in no transaction."""
        try:
            return not self.in_transaction
        except sqlite3.ProgrammingError:
            return False  # its handler has closed it


def open_lent(path: str, *, durable: bool) -> LentConnection:
    """Open the file for a handler."""
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT, isolation_level="IMMEDIATE", check_same_thread=False, factory=LentConnection
    )
    connection.execute(f"PRAGMA synchronous = {synchronous(durable=durable)}")
    return connection


def writes(sql: str) -> bool:
    """Whether the statement may write, so that it must be within the transaction."""
    if _WITH.match(sql):
        return _CHANGES.search(sql) is not None
    return not _READS.match(sql)


def undone(why: str) -> sqlite3.OperationalError:
    """Say that the transaction is no more, before it was to end. Another try may well succeed."""
    error = sqlite3.OperationalError(f"the transaction of this handler is undone: {why}")
    error.sqlite_errorcode = sqlite3.SQLITE_ABORT_ROLLBACK
    error.sqlite_errorname = "SQLITE_ABORT_ROLLBACK"
    return error


def _refusal(what: str) -> sqlite3.ProgrammingError:
    return sqlite3.ProgrammingError(f"the transaction of ctx.tx ends with its handler; {what}")
