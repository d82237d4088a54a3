"""Connections that are put away before a fork: nothing of SQLite is open, or in use, while a process is copied."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Self

from mainspring.model.errors import StorageError

PATIENCE = 10.0
"""Seconds that a fork waits for the threads in SQLite: more than any of them waits for another process."""


class Gate:
    """Lets threads into SQLite, any number at once, and none while the process forks.

    A fork copies SQLite as it stands: a mutex that another thread holds is never given back in the child, and a file
    that is open here counts there as locked by whoever had it locked, though the system gave the child no lock. So
    before a fork everybody comes out and every line is put away. Each is opened anew when it is next used.
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
        """Come in, when nobody forks."""
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
        """Wait until everybody is out, for a while, and put every line away."""
        with self._lock:
            self._forks += 1
            if self._changed.wait_for(lambda: self._inside == 0, self._patience):
                for line in list(self._lines):
                    line.drop()

    def after_fork(self) -> None:
        """Let everybody in again."""
        with self._lock:
            self._forks -= 1
            self._changed.notify_all()

    def begin_anew(self) -> None:
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
        """Come in, when nobody forks."""
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
        """Sleep outside, where it keeps nobody from forking. The connection may be another one afterwards."""
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
    os.register_at_fork(before=GATE.before_fork, after_in_parent=GATE.after_fork, after_in_child=GATE.begin_anew)
