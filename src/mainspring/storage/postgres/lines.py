"""Connections that come back: opened when first needed, opened anew after they were lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mainspring.storage.postgres.driver import Connection, Refusal
from mainspring.storage.postgres.faults import is_lasting
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.script import Script

T = TypeVar("T")
Dial = Callable[[], Awaitable[Connection]]
"""Opens one connection."""
Read = Callable[[BaseException], Refusal | None]
"""Tells what an error means: ``Driver.refusal``."""


class Line:
    """One connection, used by one script at a time.

    It is ended, never handed on, when a script was cancelled, ran out of time or failed within a transaction:
    what the server is still doing on it is unknown, and ending it makes the server forget.
    """

    def __init__(self, dial: Dial, read: Read) -> None:
        self._dial = dial
        self._read = read
        self._connection: Connection | None = None

    async def run(self, script: Script[T]) -> T:
        """Drive the script to its answer. Raises what the driver raises."""
        connection = self._connection
        if connection is None or connection.is_closed():
            connection = self._connection = await self._dial()
        opened = False
        try:
            try:
                statement = next(script)
                while True:
                    if not opened and type(statement) is Opening:
                        await connection.execute("BEGIN")
                        opened = True
                    rows: Any = await connection.fetch(statement.sql, *statement.args)
                    statement = script.send(rows)
            except StopIteration as stop:
                answer: T = stop.value
            if opened:
                await connection.execute("COMMIT")
        except BaseException as error:
            # Where the server has answered, the two of us still agree on where we are.
            if opened or is_lasting(self._read(error)):
                self.drop()
            raise
        return answer

    def drop(self) -> None:
        """End the connection at once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """End the connection in good order."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.hang_up()


class Lines:
    """A few lines, each lent to one script at a time; the one used last is lent first, so idle ones stay idle."""

    def __init__(self, dial: Dial, read: Read, size: int) -> None:
        self._all = tuple(Line(dial, read) for _ in range(size))
        self._free = list(self._all)
        self._turns = asyncio.Semaphore(size)

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        """Wait for a line and have it alone."""
        async with self._turns:
            line = self._free.pop()
            try:
                yield line
            finally:
                self._free.append(line)

    async def close(self) -> None:
        """End them all: the idle in good order, those at work at once."""
        for line in self._all:
            if line not in self._free:
                line.drop()
        await asyncio.gather(*(line.close() for line in self._all))
