"""The way to a SQLite file, shared by all the doors that this process has to it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mainspring.model.errors import StorageError
from mainspring.storage.operation import Lane
from mainspring.storage.script import Script
from mainspring.storage.sqlite.connections import open_reader, open_writer, translated
from mainspring.storage.sqlite.readers import Readers
from mainspring.storage.sqlite.units import Unit
from mainspring.storage.sqlite.writer import Writer

T = TypeVar("T")


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
        """Open a door; at the first one start the threads. Raises unless the probe reaches the file."""
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
        """Close a door; behind the last one finish what waits, and end the threads."""
        with self._lock:
            self._doors -= 1
            if self._doors or self._threads is None:
                return
            (writer, readers), self._threads = self._threads, None
            writer.stop()
            readers.stop()
        if os.getpid() == self._pid:  # a fork has no threads to wait for
            await writer.ended()
            await readers.ended()

    async def run(self, script: Script[T], lane: Lane) -> T:
        """See ``Gateway.run``."""
        unit = Unit(script, asyncio.get_running_loop(), tells=lane == "write")
        with self._lock:
            if self._threads is None:
                raise StorageError(f"the storage of {self.path!r} is not open")
            if os.getpid() != self._pid:
                raise StorageError(
                    f"the storage of {self.path!r} was opened before this process was forked: open it anew"
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
        writer = Writer(name, partial(open_writer, self.path, durable=self._durable), explain, self._tell)
        writer.start()
        return writer, Readers(name, partial(open_reader, self.path), explain)

    def _tell(self) -> None:
        for told in tuple(self.listeners):
            told()
