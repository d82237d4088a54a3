"""Connections to a SQLite file that are lent to handlers."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import cast

from mainspring.storage.sqlite.awaited import AsyncSqlite, LentThread, Loan
from mainspring.storage.sqlite.lent import LentConnection, open_lent
from mainspring.storage.sqlite.lines import Line

_PATIENCE = 1.0
"""Seconds to wait for the ends of threads: one may still be undoing what nobody waited for."""


class SqliteLender:
    """``Lender`` for one file. Its transactions begin at the first effect: until then nobody waits for them.

    A plain function is lent a ``sqlite3.Connection``. A coroutine is lent an ``AsyncSqlite``, since a wait for the
    file's one lock would stop the loop, and with it whoever has the lock.
    """

    def __init__(self, path: str, size: int, *, durable: bool) -> None:
        self.size = size
        self._connect = partial(open_lent, path, durable=durable)
        self._turns = asyncio.Semaphore(size)
        self._free_threads: list[LentThread] = []
        self._at_work: set[LentThread] = set()
        self._threads = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._free: list[Line] = []
        self._closed = False

    def check(self, *, blocking: bool) -> None:
        """See ``Lender.check``. Both kinds are lent."""

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncSqlite]:
        """See ``Lender.lend``."""
        async with self._turns:
            thread = self._free_threads.pop() if self._free_threads else LentThread(self._connect)
            self._at_work.add(thread)
            loan = Loan(thread)
            try:
                try:
                    yield AsyncSqlite(loan)
                except BaseException:
                    await loan.end("ROLLBACK")
                    raise
                await loan.end("COMMIT")
            finally:
                # Perhaps it is still at the end of this one, if nobody waited for that: the next comes after it.
                self._at_work.discard(thread)
                if self._closed:
                    thread.stop()
                else:
                    self._free_threads.append(thread)

    @contextmanager
    def lend_blocking(self) -> Iterator[sqlite3.Connection]:
        """See ``Lender.lend_blocking``."""
        with self._threads:
            with self._lock:
                line = self._free.pop() if self._free else Line(self._connect)
            # No fork while somebody is at work: a copy of an open transaction is nobody's.
            with line:
                connection = cast("LentConnection", line.connection())
                try:
                    try:
                        yield connection
                    except BaseException:
                        connection.end("ROLLBACK")
                        raise
                    connection.end("COMMIT")
                finally:
                    self._give_back(line, connection)

    async def close(self) -> None:
        """See ``Lender.close``. A plain function that is at work closes its own when it gives it back."""
        self._closed = True
        ending = [each.stopped() for each in self._free_threads]
        self._free_threads.clear()
        for thread in self._at_work:
            thread.abandon()
        with self._lock:
            lines, self._free = self._free, []
        for line in lines:
            with line:
                line.drop()
        if ending:
            await asyncio.wait([asyncio.ensure_future(each) for each in ending], timeout=_PATIENCE)

    def _give_back(self, line: Line, connection: LentConnection) -> None:
        with self._lock:
            if connection.is_clean and not self._closed:
                self._free.append(line)
                return
        line.drop()
