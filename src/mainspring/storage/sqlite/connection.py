"""Connections to a database file, and what the driver's errors mean."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mainspring.model.errors import DatabaseMoved, SchemaMissing, StorageError, StorageUnavailable
from mainspring.storage.migrations import migrations
from mainspring.storage.script import Row, Statement
from mainspring.storage.sqlite.dialect import PACKAGE, prefix

_logger = logging.getLogger("mainspring.storage")
BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that is writing."""
_PREPARED = 512
_PAGES_PER_CHECKPOINT = 4000
_WAL_LIMIT = 64 * 1024 * 1024
_RETRY = 0.01

_MEANINGS = {
    sqlite3.SQLITE_BUSY: f"is locked: another connection has been writing for over {BUSY_TIMEOUT:g} s",
    sqlite3.SQLITE_LOCKED: "is locked by another connection of this process",
    sqlite3.SQLITE_FULL: "has no space left: nothing of this call was stored; the next call works once there is some",
    sqlite3.SQLITE_READONLY: "is read-only: the file, its -wal and -shm and their directory must be writable",
    sqlite3.SQLITE_PERM: "is closed to this user: the file, its -wal and -shm and their directory must be writable",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is no SQLite database: is it the right file?",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: is it a file, and may this user read and write it?",
    sqlite3.SQLITE_IOERR: "could not be read or written: its disk fails, or a quota or file size limit is reached",
}


PATIENCE = 10.0
"""Seconds that a fork waits for the threads in SQLite: more than any of them waits for another process."""


class OwnConnection:
    """``SyncConnection`` over a connection of our own, whose rows are plain tuples."""

    __slots__ = ("_execute",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it and return its rows, empty where it has none."""
        return self._execute(*statement).fetchall()


def open_writer(path: str, *, durable: bool) -> sqlite3.Connection:
    """Open the file for writing, in WAL mode, and make it if there is none."""
    connection = _open(path)
    try:
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous(durable=durable)}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_PER_CHECKPOINT}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        # From here on the writer waits for the lock in its own way; once it has it, nothing else is waited for.
        connection.execute("PRAGMA busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: str, *, patience: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Open the file for reading only."""
    connection = _open(path, patience)
    connection.execute("PRAGMA query_only = 1")
    return connection


def open_memory() -> sqlite3.Connection:
    """Open a new database in memory, which only this connection can reach."""
    return _connect(":memory:")


def synchronous(*, durable: bool) -> str:
    """How much a commit waits for the disk."""
    # NORMAL may forget the last commits when the machine loses power, and never corrupts; FULL forgets none.
    return "FULL" if durable else "NORMAL"


def _open(path: str, patience: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    folder = Path(path).parent
    if not folder.is_dir():
        raise StorageError(f"the directory {str(folder)!r} of the database {path!r} does not exist: create it first")
    _make_private(path)
    return _connect(path, patience)


def _connect(path: str, patience: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    # One thread at a time uses it, though not always the one that opened it: close() may come from anywhere.
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False, cached_statements=_PREPARED
    )
    connection.execute("PRAGMA foreign_keys = 0")
    connection.execute("PRAGMA mmap_size = 0")
    return connection


def _make_private(path: str) -> None:
    """Make the file where there is none, for this user alone. What SQLite makes beside it has the same mode.

    It is made under another name: a descriptor of the file itself, when closed, would take this process's locks along.
    """
    try:
        target = Path(path).resolve()
    except RuntimeError:
        raise StorageError(f"{path!r} is a symbolic link that leads back to itself: remove it") from None
    if target.exists():
        return
    with suppress(OSError):  # another process has just created it, or it cannot be created: SQLite raises why
        number, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        os.close(number)
        try:
            target.hardlink_to(name)
        except FileExistsError:
            pass
        except OSError:
            _make_without_link(target)
        finally:
            Path(name).unlink()


def _make_without_link(target: Path) -> None:
    """The same on a file system that has no links, where a file may be made without a descriptor."""
    try:
        os.mknod(target, stat.S_IFREG | 0o600)
    except FileExistsError:
        pass
    except (OSError, AttributeError) as error:
        _logger.warning(
            "%s cannot be made for this user alone (%s): others may read it as the umask says; chmod o-rwx %s*",
            target,
            error,
            target,
        )


def _use_wal(connection: sqlite3.Connection) -> None:
    # Changing the mode needs the file for itself, and does not obey busy_timeout: many starters
    # of one new file meet here.
    end = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if primary(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > end:
                raise
            time.sleep(_RETRY)
            continue
        if mode != "wal":
            raise StorageError(f"SQLite cannot use write-ahead logging here (it offers {mode!r}): use a local disk")
        return


def primary(error: BaseException) -> int:
    """The primary result code of a driver error, 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def translated(error: BaseException, path: str, tables: str) -> BaseException:
    """Return the error to raise: a driver's as one of Mainspring's, any other unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    if f"no such table: {prefix(tables)}_" in str(error):
        return SchemaMissing(0, migrations(PACKAGE)[-1].number, tables=tables, what=str(error))
    if (moved := DatabaseMoved.read(str(error))) is not None:
        return moved
    code = primary(error)
    kind = StorageUnavailable if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else StorageError
    return kind(f"the database {path!r} {_MEANINGS.get(code, 'refused')} (SQLite: {error})")


class Gate:
    """Lets threads into SQLite, any number at once, and none while the process forks.

    A fork copies SQLite as it stands: a mutex that another thread holds is never given back in the child, and a file
    that is open here counts there as locked, though the system gave the child no lock. So before a fork every thread
    leaves and every line is closed. Each is reopened at its next use.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside = 0
        self._forks = 0
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._abandoned: list[Line] = []

    @property
    def spoiled(self) -> bool:
        """Whether this process was forked in the middle of something, so that SQLite cannot be used in it."""
        return bool(self._abandoned)

    def add(self, line: Line) -> None:
        """Have the line put away before every fork, for as long as there is one."""
        with self._lock:
            self._lines.add(line)

    def enter(self) -> None:
        """Enter, unless a fork is under way."""
        with self._lock:
            while self._forks:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        """Go out again."""
        with self._lock:
            self._inside -= 1
            if self._forks:
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait for a while until all threads have left, and close every line."""
        with self._lock:
            self._forks += 1
            if self._changed.wait_for(lambda: self._inside == 0, self._patience):
                for line in list(self._lines):
                    line.drop()

    def after_fork(self) -> None:
        """Let threads enter again."""
        with self._lock:
            self._forks -= 1
            self._changed.notify_all()

    def begin_again(self) -> None:
        """In the child, where none of the other threads is: what it could not put away is never touched again."""
        # Also the lock is new: a thread that the child does not have may be holding the old one.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._abandoned += [line for line in list(self._lines) if line.is_open or self._inside]
        self._inside = self._forks = 0
        self._lines = weakref.WeakSet()


GATE = Gate()
"""One for a process: so are SQLite's own locks."""


class Line:
    """One connection, used by one thread at a time, and only inside ``with line:``. It is opened when it is needed."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], gate: Gate = GATE) -> None:
        self._connect = connect
        self._gate = gate
        self._connection: sqlite3.Connection | None = None
        gate.add(self)

    def __enter__(self) -> Self:
        """Enter, unless a fork is under way."""
        self._gate.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Go out again; the connection stays open."""
        self._gate.leave()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection just now."""
        return self._connection is not None

    def connection(self) -> sqlite3.Connection:
        """The connection, opened if there is none."""
        if self._gate.spoiled:
            raise StorageError(
                f"this process was forked while another thread of its parent had been in SQLite for over {PATIENCE:g} "
                "s, and SQLite cannot be used in it: fork before the database is used, or start the process by spawn"
            )
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def rest(self, seconds: float) -> None:
        """Sleep outside, where it blocks no fork. The connection may be another one afterwards."""
        self._gate.leave()
        try:
            time.sleep(seconds)
        finally:
            self._gate.enter()

    def drop(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=GATE.before_fork, after_in_parent=GATE.after_fork, after_in_child=GATE.begin_again)
