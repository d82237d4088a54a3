"""A caller's own ``sqlite3`` connection, so that publishing is part of the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from mainspring.model.errors import BadHandle, SchemaMissing
from mainspring.storage.migrate import migrations
from mainspring.storage.script import Row, Statement
from mainspring.storage.sqlite.connections import translated
from mainspring.storage.sqlite.dialect import PACKAGE


class JoinedSqlite:
    """``script.Connection`` over a caller's connection. Never commits, and leaves its settings as they are."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        refuse_autocommit(connection)
        self._connection = connection

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it in the caller's transaction and return its rows, empty where it has none."""
        connection = self._connection
        try:
            cursor = connection.cursor(sqlite3.Cursor)
        except sqlite3.ProgrammingError as error:
            raise _unusable(error) from error
        cursor.row_factory = None
        # A cursor cannot have its own, and our text is text whatever the caller makes of its own.
        factory, connection.text_factory = connection.text_factory, str
        try:
            return cursor.execute(*statement).fetchall()
        except sqlite3.Error as error:
            raise _explained(error, connection) from error
        finally:
            connection.text_factory = factory
            cursor.close()


def refuse_autocommit(connection: sqlite3.Connection) -> None:
    """Raise BadHandle unless what is written now stays uncommitted until the caller commits it."""
    try:
        connection.cursor(sqlite3.Cursor).close()
    except sqlite3.ProgrammingError as error:
        raise _unusable(error) from error
    if connection.in_transaction:
        return
    # Until 3.12 isolation_level decides alone; since then it does only where autocommit leaves it to.
    autocommit = getattr(connection, "autocommit", -1)
    if autocommit is True or (autocommit is not False and connection.isolation_level is None):
        raise BadHandle(
            "this sqlite3 connection commits every statement by itself: execute BEGIN first, or connect without "
            f"{'autocommit=True' if autocommit is True else 'isolation_level=None'}"
        )


def _unusable(error: sqlite3.ProgrammingError) -> BadHandle:
    if "thread" in str(error):
        return BadHandle(
            "this sqlite3 connection belongs to another thread: use it there, or connect with check_same_thread=False "
            "and let one thread at a time use it"
        )
    return BadHandle(f"this sqlite3 connection cannot be used: {error}")


def _explained(error: sqlite3.Error, connection: sqlite3.Connection) -> BaseException:
    file = _file(connection)
    if "no such table" not in str(error):
        return translated(error, file, "")
    missing = SchemaMissing(0, migrations(PACKAGE)[-1].number)
    # The same error, in words that fit: the app's own database may well be in order.
    text = (
        f"the database {file!r} of this sqlite3 connection has no Mainspring tables ({error}): run `mainspring "
        "migrate` or open the app once; or it is another file than the app's, and only one file can be one transaction"
    )
    missing.args = (text,)
    return missing


def _file(connection: sqlite3.Connection) -> str:
    cursor = connection.cursor(sqlite3.Cursor)
    cursor.row_factory = None
    factory, connection.text_factory = connection.text_factory, str
    try:
        rows = cursor.execute("PRAGMA database_list").fetchall()
    finally:
        connection.text_factory = factory
        cursor.close()
    return next((file for _, name, file in rows if name == "main" and file), ":memory:")
