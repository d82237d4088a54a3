"""The way to a database file: one thread that writes, a few that read."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mainspring.model.errors import StorageError
from mainspring.storage.contract import PoolUse
from mainspring.storage.operation import Lane
from mainspring.storage.script import Script, run
from mainspring.storage.sqlite.connection import (
    BUSY_TIMEOUT,
    Line,
    OwnConnection,
    open_reader,
    open_writer,
    primary,
    translated,
)

_RUINOUS = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN})

Explain = Callable[[BaseException], BaseException]
"""Turns a driver's error into the one that callers see."""


_TURN = 0.02
"""Seconds after which a group commits even if more units wait: no unit waits long for others."""
_LOOK_AGAIN = 0.001
_MOST = 2
T = TypeVar("T")


class Unit:
    """A whole script, to be run at once, and the future of its caller."""

    __slots__ = ("answer", "error", "future", "loop", "notifies", "script", "waits_since")

    def __init__(self, script: Script[Any], loop: asyncio.AbstractEventLoop, *, notifies: bool) -> None:
        self.script: Script[Any] = script
        self.loop: asyncio.AbstractEventLoop = loop
        self.notifies: bool = notifies
        """Whether it may have stored work."""
        self.future: asyncio.Future[Any] = loop.create_future()
        self.answer: Any = None
        self.error: BaseException | None = None
        self.waits_since: float | None = None
        """Since when it waits for a reader, all of them being at work."""


Units = SimpleQueue[Unit | None]
"""Units in order of arrival; None is the end."""


def answer(units: Iterable[Unit], explain: Explain) -> None:
    """Resolve the futures of callers, from any thread: one wake-up per loop, however many of its callers wait."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Unit]] = {}
    for unit in units:
        if unit.error is not None:
            unit.error = explain(unit.error)
        by_loop.setdefault(unit.loop, []).append(unit)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, answered)
        except RuntimeError:  # the loop is closed: no caller is left
            continue


def ruined(connection: sqlite3.Connection, units: Iterable[Unit]) -> bool:
    """Whether the connection must be reopened after these units."""
    return connection.in_transaction or any(
        unit.error is not None and primary(unit.error) in _RUINOUS for unit in units
    )


def _resolve(units: list[Unit]) -> None:
    for unit in units:
        if unit.future.done():  # the caller was cancelled; its unit was not
            continue
        if unit.error is None:
            unit.future.set_result(unit.answer)
        else:
            unit.future.set_exception(unit.error)


class Serving(threading.Thread):
    """A daemon whose end can be awaited without another thread: at the end of a program none can be started."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._over: Future[None] = Future()
        self._over.set_running_or_notify_cancel()  # a cancelled caller does not cancel it

    def run(self) -> None:
        """Serve; in the thread."""
        try:
            self.serve()
        finally:
            self._over.set_result(None)

    def serve(self) -> None:
        """Do the work of the thread."""
        raise AssertionError(f"{type(self).__name__} serves nothing")

    async def ended(self) -> None:
        """Wait until it has ended."""
        await asyncio.wrap_future(self._over)
        self.join()  # it has nothing left to do


class Writer(Serving):
    """Runs units in order of arrival until it is stopped, and then the rest of them.

    All units that wait are one transaction: begun with the write lock, each unit in a savepoint of its own, one
    commit for all, and no caller gets a result before it. A unit that fails is undone alone; a commit that fails fails
    them all. ``written`` is called after a commit that may have brought something to do.
    """

    def __init__(
        self, name: str, connect: Callable[[], sqlite3.Connection], explain: Explain, written: Callable[[], None]
    ) -> None:
        super().__init__(name)
        self._line = Line(connect)
        self._explain = explain
        self._written = written
        self._queue: Units = SimpleQueue()

    def put(self, unit: Unit) -> None:
        """Have the unit run. Called from any thread, never after ``stop``."""
        self._queue.put(unit)

    def stop(self) -> None:
        """Let the thread end when it has done what waits."""
        self._queue.put(None)

    def serve(self) -> None:
        waiting: deque[Unit] = deque()
        ending = False
        while waiting or not ending:
            ending = (not ending and self._take(waiting)) or ending
            if waiting:
                with self._line:
                    group = self._commit(waiting)
                answer(group, self._explain)
                if any(unit.notifies and unit.error is None for unit in group):
                    self._written()
        with self._line:
            self._line.drop()

    def _take(self, waiting: deque[Unit]) -> bool:
        """Move what has arrived, waiting for something if there is nothing. True: the end has arrived."""
        try:
            unit = self._queue.get(block=not waiting)
            while unit is not None:
                waiting.append(unit)
                unit = self._queue.get_nowait()
        except Empty:
            return False
        return True

    def _commit(self, waiting: deque[Unit]) -> list[Unit]:
        """Run what waits, for a turn, and commit it. Returns the units whose fate is known."""
        group: list[Unit] = []
        try:
            connection = self._begin()
        except BaseException as error:  # noqa: BLE001
            group.extend(waiting)
            waiting.clear()
            _fail(group, error)
        else:
            try:
                _run_for_a_turn(connection, waiting, group)
                connection.execute("COMMIT")
            except BaseException as error:  # noqa: BLE001
                # The transaction is lost, and every unit in it: none has been answered yet.
                _fail(group, error)
                with suppress(sqlite3.Error):
                    connection.rollback()
        if self._line.is_open and ruined(self._line.connection(), group):
            self._line.drop()
        return group

    def _begin(self) -> sqlite3.Connection:
        """Take the write lock, waiting while another process has it. Returns the connection that has it now.

        Never a deferred BEGIN: raising a read to a write fails at once when another connection has written since. And
        never SQLite's own waiting: it soon sleeps 100 ms at a time, and so misses the moments between the commits of
        a process that writes without pause. Two that publish 500 at a time: the longest wait is 0.8 s instead of
        3.6 s, the p99 0.7 s instead of 2 s, the throughput the same.
        """
        until = time.monotonic() + BUSY_TIMEOUT
        while True:
            connection = self._line.connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                self._line.rest(_LOOK_AGAIN * (0.5 + random.random()))
            else:
                return connection


def _run_for_a_turn(connection: sqlite3.Connection, waiting: deque[Unit], group: list[Unit]) -> None:
    until = time.monotonic() + _TURN
    own = OwnConnection(connection)
    alone = len(waiting) == 1
    while waiting:
        unit = waiting.popleft()
        group.append(unit)
        if alone:
            unit.answer = run(own, unit.script)
        else:
            _run_in_savepoint(connection, own, unit)
        if time.monotonic() >= until:
            break


def _run_in_savepoint(connection: sqlite3.Connection, own: OwnConnection, unit: Unit) -> None:
    """Run a unit in a savepoint. Raises only when the transaction around it is lost as well."""
    connection.execute("SAVEPOINT unit")
    try:
        unit.answer = run(own, unit.script)
    except BaseException as error:
        unit.error = error
        # A full disk, among others, makes SQLite roll back everything by itself.
        if not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO unit")
    connection.execute("RELEASE unit")


def _fail(units: list[Unit], error: BaseException) -> None:
    for unit in units:
        unit.error = unit.error or error


class Readers:
    """Threads with a connection each, started when they are needed."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection], explain: Explain) -> None:
        self._name = name
        self._connect = connect
        self._explain = explain
        self._queue: Units = SimpleQueue()
        self._lock = threading.Lock()
        self._unanswered = 0
        self._waits = 0
        self._waited = 0.0
        self._threads: list[_Reader] = []

    @property
    def use(self) -> PoolUse:
        """How many there may be and are at work, and how callers waited."""
        return PoolUse(_MOST, min(self._unanswered, _MOST), self._waits, self._waited)

    def put(self, unit: Unit) -> None:
        """Have the unit run. Called from any thread, never after ``stop``."""
        with self._lock:
            self._unanswered += 1
            if self._unanswered > _MOST:
                unit.waits_since = time.monotonic()
            if len(self._threads) < min(self._unanswered, _MOST):
                thread = _Reader(self._name, self._queue, self._connect, self._begun, self._answer)
                self._threads.append(thread)
                thread.start()
        self._queue.put(unit)

    def stop(self) -> None:
        """Let the threads end when they have done what waits."""
        for _ in self._threads:
            self._queue.put(None)

    async def ended(self) -> None:
        """Wait for the threads to end."""
        for thread in self._threads:
            await thread.ended()

    def _begun(self, unit: Unit) -> None:
        if unit.waits_since is not None:
            with self._lock:
                self._waits += 1
                self._waited += time.monotonic() - unit.waits_since

    def _answer(self, unit: Unit) -> None:
        with self._lock:
            self._unanswered -= 1
        answer((unit,), self._explain)


class _Reader(Serving):
    """One of the threads."""

    def __init__(
        self,
        name: str,
        queue: Units,
        connect: Callable[[], sqlite3.Connection],
        begun: Callable[[Unit], None],
        answer: Callable[[Unit], None],
    ) -> None:
        super().__init__(name)
        self._queue = queue
        self._line = Line(connect)
        self._begun = begun
        self._answer = answer

    def serve(self) -> None:
        while (unit := self._queue.get()) is not None:
            self._begun(unit)
            with self._line as line:
                try:
                    _run(line.connection(), unit)
                except BaseException as error:  # noqa: BLE001
                    unit.error = error
                if line.is_open and ruined(line.connection(), (unit,)):
                    line.drop()
            self._answer(unit)
        with self._line as line:
            line.drop()


def _run(connection: sqlite3.Connection, unit: Unit) -> None:
    # A transaction, so that a script of several statements sees one state.
    connection.execute("BEGIN")
    try:
        unit.answer = run(OwnConnection(connection), unit.script)
    finally:
        connection.rollback()


class SqliteGateway:
    """Runs scripts on a file, from any number of threads and event loops.

    Whatever may write goes through the one writer, which commits in groups; reads have their own connections and
    never wait for it. A caller that has gone away changes nothing: its unit is run all the same.
    """

    def __init__(self, path: str, *, tables: str, durable: bool) -> None:
        self.path = path
        self.listeners: list[Callable[[], None]] = []
        """Called in the writer's thread after a commit that may have brought something to do."""
        self._tables = tables
        self._durable = durable
        self._lock = threading.Lock()
        self._doors = 0
        self._pid = 0
        self._threads: tuple[Writer, Readers] | None = None

    async def open(self, probe: Script[object]) -> None:
        """Count one more user; the first starts the threads. Raises unless the probe reaches the file."""
        with self._lock:
            self._doors += 1
            if self._threads is None:
                self._pid = os.getpid()
                self._threads = self._start()
        try:
            await self.run(probe, "claim")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Count one user less; the last finishes what waits, and ends the threads."""
        with self._lock:
            self._doors -= 1
            if self._doors or self._threads is None:
                return
            (writer, readers), self._threads = self._threads, None
            readers.stop()
        if os.getpid() == self._pid:  # a fork has no threads to wait for
            # The writer last: of two that close at once, neither takes the log into the file.
            try:
                await readers.ended()
            finally:
                writer.stop()
            await writer.ended()

    @property
    def pool(self) -> PoolUse:
        """See ``Storage.pool``."""
        threads = self._threads
        return PoolUse(_MOST) if threads is None else threads[1].use

    async def run(self, script: Script[T], lane: Lane) -> T:
        unit = Unit(script, asyncio.get_running_loop(), notifies=lane == "write")
        with self._lock:
            if self._threads is None:
                raise StorageError(f"the storage of {self.path!r} is not open")
            if os.getpid() != self._pid:
                raise StorageError(
                    f"the storage of {self.path!r} was opened before this process was forked: open it again"
                )
            writer, readers = self._threads
            if lane == "read":
                readers.put(unit)
            else:
                writer.put(unit)
        answer: T = await unit.future
        return answer

    def _start(self) -> tuple[Writer, Readers]:
        def explain(error: BaseException) -> BaseException:
            return translated(error, self.path, self._tables)

        name = f"mainspring {self.path}"
        writer = Writer(name, partial(open_writer, self.path, durable=self._durable), explain, self._notify)
        writer.start()
        return writer, Readers(name, partial(open_reader, self.path), explain)

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()
