"""A few threads that read, beside the writer and never waiting for it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue

from mainspring.storage.script import run
from mainspring.storage.sqlite.connections import Door
from mainspring.storage.sqlite.lines import Line
from mainspring.storage.sqlite.serving import Serving
from mainspring.storage.sqlite.units import Explain, Unit, Units, answer, ruined

_MOST = 2


class Readers:
    """Threads with a connection each, started when they are needed."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection], explain: Explain) -> None:
        self._name = name
        self._connect = connect
        self._explain = explain
        self._queue: Units = SimpleQueue()
        self._lock = threading.Lock()
        self._unanswered = 0
        self._threads: list[_Reader] = []

    def put(self, unit: Unit) -> None:
        """Have the unit run. Called from any thread, never after ``stop``."""
        with self._lock:
            self._unanswered += 1
            if len(self._threads) < min(self._unanswered, _MOST):
                thread = _Reader(self._name, self._queue, self._connect, self._answer)
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
        answer: Callable[[Unit], None],
    ) -> None:
        super().__init__(name)
        self._queue = queue
        self._line = Line(connect)
        self._answer = answer

    def serve(self) -> None:
        """See ``Serving.serve``."""
        while (unit := self._queue.get()) is not None:
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
        unit.answer = run(Door(connection), unit.script)
    finally:
        connection.rollback()
