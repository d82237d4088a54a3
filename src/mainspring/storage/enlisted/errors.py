"""Errors about a caller's transaction, alike for every kind of handle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mainspring.model.errors import BadHandle, DatabaseMoved, MainspringError, SchemaMissing
from mainspring.storage.migrations import flags, migrations
from mainspring.storage.script import Row, Statement

ENGINES: Final = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "memory": "memory"}
"""The databases, as they are spelled."""


_NO_TABLES = frozenset({"42P01", "3F000", "42883"})
"""Relation, schema or function: what ``mainspring migrate`` makes."""
_FAILED = "25P02"
_NOT_GRANTED = "42501"


def other_database(what: str, engine: str) -> BadHandle:
    """Reject a handle of another kind of database than the app's."""
    return BadHandle(
        f"tx is {what}, and this app is on {ENGINES[engine]}: a message can only be part of a transaction of its own "
        f"database. Pass a handle on {ENGINES[engine]}, or leave tx= out to store the message at once"
    )


_FILES = Statement("PRAGMA database_list")
"""Rows of a number, a name and a file, the main one first; without a file in memory. It reads no file."""


class OwnFile:
    """The SQLite file of an app, to compare those of a handle with."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._resolved = self._path.resolve()
        self._shown = str(self._resolved)

    def refuse_others(self, execute: Callable[[Statement], Sequence[Row]]) -> None:
        """Raise BadHandle unless the app's file is one of those that a handle has open, which executes by this.

        An attached file is as good: its tables are found by their names.
        """
        files = [file or "" for _, name, file in execute(_FILES) if name != "temp"]
        if self._shown in files or any(map(self._is, filter(None, files))):
            return
        raise BadHandle(
            f"tx= is on the SQLite file {files[0] or ':memory:'!r}, and this app is on {self._shown!r}: a message can "
            "only be part of a transaction of its own database. Connect to the app's file, or leave tx= out to store "
            "the message at once"
        )

    def _is(self, file: str) -> bool:
        # A relative path is of the directory that the process was in, or is in by now.
        return any(_is_same(Path(file), own) for own in (self._resolved, self._path))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not written yet
        return one.resolve() == other.resolve()


def autocommitting(what: str, write: str) -> BadHandle:
    """Reject a handle on which every statement commits by itself."""
    return BadHandle(f"tx= is {what}, where every statement commits by itself: {write}")


def closed(what: str) -> BadHandle:
    """Reject a handle that is closed or back in its pool."""
    return BadHandle(f"tx= is {what} that is closed, or back in its pool: publish before you let go of it")


def failed() -> BadHandle:
    """Reject a transaction that has failed."""
    return BadHandle(
        "tx= is in a transaction that has failed: an earlier statement raised, and nothing more can be stored in it. "
        "Roll back first, to a savepoint or altogether, then publish"
    )


def lone_savepoint() -> BadHandle:
    """Reject a savepoint that may commit on release: sqlite3 begins before a write, not before a savepoint."""
    return BadHandle(
        "tx= is in a savepoint, and sqlite3 may have begun no transaction around it: releasing it would commit the "
        "message for good, whatever becomes of the rest. Publish before begin_nested(), or have every transaction "
        "begin with BEGIN, as SQLAlchemy's page on SQLite says under savepoints"
    )


def explained(error: BaseException, state: str | None, database: str | None) -> MainspringError | None:
    """The error to raise instead, None to let the driver's own pass.

    It is the caller's transaction, and a retry after a serialization failure or a deadlock looks for the driver's own
    error. Only errors about Mainspring's own tables are replaced.
    """
    if state == _FAILED:
        return failed()
    text = str(error).strip().partition("\n")[0]
    if (moved := DatabaseMoved.read(text)) is not None:
        return moved
    if state == _NOT_GRANTED:
        from mainspring.storage.postgres.errors import not_granted

        where = f"the database {database or '(unknown)'!r} that tx= is connected to"
        return not_granted(f"{where} says {text} ({state})", text)
    if state not in _NO_TABLES:
        return None
    from mainspring.storage.postgres.dialect import PACKAGE  # the app imports this module, whatever its database

    return SchemaMissing(
        0,
        migrations(PACKAGE)[-1].number,
        f"the database {database or '(unknown)'!r} that tx= is connected to has no Mainspring tables ({text}): run "
        f"`mainspring migrate --url URL{flags(text)}` on it. If it is another database than the app's, connect to the "
        "app's own: a message can only be part of a transaction of its own database",
    )
