"""The one thread that writes: it takes all that waits, and commits it together."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from mainspring.storage.script import run
from mainspring.storage.sqlite.connections import BUSY_TIMEOUT, Door, primary
from mainspring.storage.sqlite.lines import Line
from mainspring.storage.sqlite.serving import Serving
from mainspring.storage.sqlite.units import Explain, Unit, Units, answer, ruined

_TURN = 0.02
"""Seconds after which a group commits even if more units wait: nobody waits long for others' work."""

_LOOK_AGAIN = 0.001


class Writer(Serving):
    """Runs units in order of arrival until told to stop, and then the rest of them.

    All units that wait are one transaction: begun with the write lock, each unit in a savepoint of its own, one
    commit for all, and nobody is answered before it. A unit that fails is undone alone; a commit that fails fails
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
        """See ``Serving.serve``."""
        waiting: deque[Unit] = deque()
        ending = False
        while waiting or not ending:
            ending = (not ending and self._take(waiting)) or ending
            if waiting:
                with self._line:
                    group = self._commit(waiting)
                answer(group, self._explain)
                if any(unit.tells and unit.error is None for unit in group):
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

        Never a deferred BEGIN: raising a read to a write fails at once when somebody else has written since. And
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
    door = Door(connection)
    alone = len(waiting) == 1
    while waiting:
        unit = waiting.popleft()
        group.append(unit)
        if alone:
            unit.answer = run(door, unit.script)
        else:
            _run_apart(connection, door, unit)
        if time.monotonic() >= until:
            break


def _run_apart(connection: sqlite3.Connection, door: Door, unit: Unit) -> None:
    """Run a unit in a savepoint. Raises only when the transaction around it is lost as well."""
    connection.execute("SAVEPOINT unit")
    try:
        unit.answer = run(door, unit.script)
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
