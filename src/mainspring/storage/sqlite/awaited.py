"""A transaction on a SQLite file for coroutines: every statement runs in a thread of its connection's own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Literal, TypeVar, cast

from mainspring.storage.script import Row, Statement
from mainspring.storage.sqlite.joined import JoinedSqlite
from mainspring.storage.sqlite.lent import LentConnection, undone
from mainspring.storage.sqlite.lines import Line
from mainspring.storage.sqlite.serving import Serving

T = TypeVar("T")
Parameters = Sequence[Any] | Mapping[str, Any]
_STEPS = 1_000_000
"""Of SQLite's machine, between two looks at whether somebody still waits: some hundredths of a second."""


class LentThread(Serving):
    """A connection and its thread: what is asked of it is done in that order, also what nobody waits for any more.

    A thread for each: a handler that holds the write lock must never wait for a thread in which another waits for it.
    """

    def __init__(self, connect: Callable[[], LentConnection]) -> None:
        super().__init__("mainspring-lent")
        self._connect = connect
        self._line = Line(self._watched)
        self._abandoned = False
        self._asked: SimpleQueue[tuple[Future[Any], Callable[[Line], Any]] | None] = SimpleQueue()
        self.start()

    def ask(self, work: Callable[[Line], T]) -> Future[T]:
        """Have this done with the line, after everything that was asked before."""
        answer: Future[T] = Future()
        answer.set_running_or_notify_cancel()  # who waits no longer does not cancel it
        self._asked.put((answer, work))
        return answer

    def stop(self) -> None:
        """Let it end, and the connection with it, when it has done what waits."""
        self._asked.put(None)

    async def stopped(self) -> None:
        """Let it end, and wait for that."""
        self.stop()
        await self.ended()

    def abandon(self) -> None:
        """Let nothing more of this transaction run, and what runs now end soon: nobody waits for it any more."""
        self._abandoned = True

    def refuse_abandoned(self) -> None:
        """Raise where nobody waits for it; in the thread."""
        if self._abandoned:
            raise undone("nobody waits for it any more")

    def begin_anew(self) -> None:
        """The transaction has ended: what is asked from now on is another's; in the thread."""
        self._abandoned = False

    def serve(self) -> None:
        """See ``Serving.serve``."""
        while (asked := self._asked.get()) is not None:
            answer, work = asked
            try:
                with self._line as line:
                    result = work(line)
            except BaseException as error:  # noqa: BLE001 - it is the answer
                answer.set_exception(error)
            else:
                answer.set_result(result)
                del result
            del asked, answer, work  # a thread that rests keeps nothing alive
        with self._line as line:
            line.drop()

    def _watched(self) -> LentConnection:
        connection = self._connect()
        # Not interrupt(), which ends what runs at that very moment, and that may not have begun yet.
        connection.set_progress_handler(lambda: self._abandoned, _STEPS)
        return connection


class Loan:
    """One transaction in such a thread. Who comes after its end is refused: by then another may have the connection."""

    def __init__(self, thread: LentThread) -> None:
        self._thread = thread
        self._begun_on: sqlite3.Connection | None = None
        self._over = False

    async def run(self, work: Callable[[LentConnection], T]) -> T:
        """Do the work with the connection."""
        if self._over:
            raise sqlite3.ProgrammingError("this transaction has ended: ctx.tx is for its handler, while that runs")
        return await asyncio.wrap_future(self._thread.ask(lambda line: self._within(line, work)))

    async def end(self, how: Literal["COMMIT", "ROLLBACK"]) -> None:
        """End the transaction, if it has begun. It is ended also if nobody waits for it any more."""
        self._over = True
        if how == "ROLLBACK":
            self._thread.abandon()  # who was cancelled may have left a statement behind
        await asyncio.wrap_future(self._thread.ask(lambda line: self._end(line, how)))

    def _within(self, line: Line, work: Callable[[LentConnection], T]) -> T:
        self._thread.refuse_abandoned()
        connection = self._connection(line)
        try:
            return work(connection)
        finally:
            if connection.is_clean is False:
                self._begun_on = connection

    def _end(self, line: Line, how: Literal["COMMIT", "ROLLBACK"]) -> None:
        self._thread.begin_anew()
        if not line.is_open and self._begun_on is None:
            return
        try:
            if how == "COMMIT":
                self._connection(line).end(how)
            elif line.is_open:
                cast("LentConnection", line.connection()).end(how)
        finally:
            if line.is_open and not cast("LentConnection", line.connection()).is_clean:
                line.drop()

    def _connection(self, line: Line) -> LentConnection:
        if self._begun_on is not None and (not line.is_open or line.connection() is not self._begun_on):
            raise undone("its process was forked meanwhile, and no connection may be open then")
        return cast("LentConnection", line.connection())


class Here:
    """A connection that is used where its user is: for a test, in whose thread nobody else has the lock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def run(self, work: Callable[[Any], T]) -> T:
        """Do the work with the connection."""
        return work(self._connection)


class AsyncSqlite:
    """A transaction on the app's own file, for a coroutine: every statement runs in a thread, one at a time.

    It begins at the first statement that writes, with the file's write lock, so what was read before may have changed
    since: compute in the statement (``SET n = n + 1``), or write first.
    """

    def __init__(self, runs: Loan | Here) -> None:
        self.runs = runs
        """For those who join it."""

    async def execute(self, sql: str, parameters: Parameters = ()) -> list[Any]:
        """Run one statement, and return its rows; none for a statement that has none."""
        return await self.runs.run(lambda connection: connection.execute(sql, parameters).fetchall())

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> None:
        """Run one statement with each of these."""
        await self.runs.run(lambda connection: connection.executemany(sql, parameters))


class JoinedAsyncSqlite:
    """``script.AsyncConnection`` over a transaction that was lent."""

    def __init__(self, handle: AsyncSqlite) -> None:
        self._runs = handle.runs

    async def execute(self, statement: Statement) -> Sequence[Row]:
        """Run it in the transaction, which begins where it has not yet."""
        return await self._runs.run(lambda connection: JoinedSqlite(connection).execute(statement))
