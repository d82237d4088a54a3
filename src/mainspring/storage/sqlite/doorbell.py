"""The doorbell of SQLite: a file notifies no process, so it is watched."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Collection
from datetime import timedelta

from mainspring.model.errors import StorageError
from mainspring.storage.contract import BellMode
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.connection import Line, open_reader
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.gateway import SqliteGateway

EVERY = timedelta(milliseconds=20)


class SqliteDoorbell:
    """``Doorbell`` over a file: checks every ``every`` for a commit of any process, and what it changed.

    It rings for new deliveries, revivals, resumed groups and what was handed back due; never for claims, settles
    and beats, so that workers do not wake each other, or themselves, for nothing. Publishing through this very
    storage is noticed at once.
    """

    def __init__(self, gateway: SqliteGateway, sql: Dialect, every: timedelta = EVERY) -> None:
        self.every = every
        self._gateway = gateway
        self._sql = sql
        self._watches: list[_Watch] = []

    @property
    def mode(self) -> BellMode:
        """Always *watch*."""
        return "watch"

    def listen(self, rung: Callable[[str], None]) -> None:
        """See ``Doorbell.listen``. It watches until the storage is closed."""
        mark = self._sql("bell_mark").sql
        watch = _Watch(self._gateway.path, mark, rung, self.every.total_seconds())
        self._watches.append(watch)
        self._gateway.listeners.append(watch.notify)

    async def arm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.arm``. Nothing to do: publishers do not ring, they are watched."""

    async def disarm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.disarm``. Nothing to do: a poll costs microseconds."""

    async def ring(self) -> None:
        await self._gateway.run(self._ring(), "write")

    async def rouse(self) -> None:
        """See ``Doorbell.rouse``. Nothing to do: a commit is what is watched for."""

    def hang_up(self) -> None:
        """Watch no more."""
        for watch in self._watches:
            self._gateway.listeners.remove(watch.notify)
            watch.stop()
        self._watches.clear()

    def _ring(self) -> Script[None]:
        yield self._sql("bell_ring")


class _Watch:
    """One listener's look at the file, on its own loop and connection."""

    def __init__(self, path: str, mark_sql: str, rung: Callable[[str], None], every: float) -> None:
        # It never waits: it runs on the event loop, and looks again soon.
        self._line = Line(lambda: open_reader(path, patience=0))
        self._mark_sql = mark_sql
        self._rung = rung
        self._every = every
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._notified = False
        self._stopped = False
        self._version: int | None = None
        self._mark: Row | None = None
        self._changed()
        self._timer = self._loop.call_later(every, self._tick)

    def notify(self) -> None:
        """Look now, after a commit of this process. Called from any thread."""
        with self._lock:
            if self._notified:
                return
            self._notified = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:  # the loop is closed: there is no listener left
            return

    def stop(self) -> None:
        """Look no more. Called from any thread."""
        self._stopped = True
        if _running_loop() is self._loop:
            self._close()
            return
        try:
            self._loop.call_soon_threadsafe(self._close)
        except RuntimeError:  # the loop is closed, and with it everything that could be looking
            self._close()

    def _tick(self) -> None:
        self._look()
        if not self._stopped:
            self._timer = self._loop.call_later(self._every, self._tick)

    def _look(self) -> None:
        with self._lock:
            self._notified = False
        if not self._stopped and self._changed():
            self._rung("")

    def _changed(self) -> bool:
        """Whether something may have become due since the last look."""
        try:
            with self._line as line:
                if not line.is_open:
                    self._version = None  # it counts for one connection
                connection = line.connection()
                # It changes with every commit of other connections, this process's writer included, and costs
                # microseconds.
                (version,) = connection.execute("PRAGMA data_version").fetchone()
                if version == self._version:
                    return False
                mark = connection.execute(self._mark_sql).fetchone()
        except (sqlite3.Error, StorageError):
            # No tables yet, or the file cannot be read just now: the workers poll, and report the error.
            return False
        self._version, before, self._mark = version, self._mark, mark
        return bool(mark != before)

    def _close(self) -> None:
        self._timer.cancel()
        with self._line as line:
            line.drop()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
