"""Connections lent to handlers: in the thread of a plain function, or in a thread of their own for a coroutine."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Literal, NoReturn, Self, TypeVar, cast

from mainspring.storage.sqlite.connection import BUSY_TIMEOUT, Line, synchronous
from mainspring.storage.sqlite.gateway import Serving

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_READS = re.compile(_SPACE + r"(?:SELECT|VALUES|EXPLAIN|PRAGMA|ATTACH|DETACH|BEGIN)\b", re.IGNORECASE | re.DOTALL)
_WITH = re.compile(_SPACE + r"WITH\b", re.IGNORECASE | re.DOTALL)
_CHANGES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_ENDS = re.compile(_SPACE + r"(?:COMMIT|END|ROLLBACK(?!\s+(?:TRANSACTION\s+)?TO\b))\b", re.IGNORECASE | re.DOTALL)


T = TypeVar("T")
Parameters = Sequence[Any] | Mapping[str, Any]
_STEPS = 1_000_000
"""Steps of SQLite's machine between two checks whether the caller still waits: some hundredths of a second."""
_PATIENCE = 1.0
"""Seconds to wait for the ends of threads: one may still be rolling back an abandoned transaction."""


class LentCursor(sqlite3.Cursor):
    """Begins the transaction before the first statement that may write, whatever kind of statement that is.

    sqlite3 itself begins before INSERT, UPDATE, DELETE and REPLACE only. A savepoint, a table or a WITH … INSERT that
    comes first would be committed at once, by itself.
    """

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """See ``sqlite3.Cursor.execute``."""
        self._begin(sql)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        """See ``sqlite3.Cursor.executemany``."""
        self._begin(sql)
        return super().executemany(sql, parameters)

    def executescript(self, _sql: str, /) -> NoReturn:
        """Refused: it commits first."""
        raise _refusal("executescript() commits: run its statements one by one")

    def _begin(self, sql: str) -> None:
        connection = self.connection
        assert isinstance(connection, LentConnection)
        connection.refuse_undone()
        if _ENDS.match(sql):
            raise _refusal("it is committed with the verdict: return, or raise to undo it")
        if not connection.in_transaction and writes(sql):
            super().execute("BEGIN IMMEDIATE")
            connection.begun = True


class LentConnection(sqlite3.Connection):
    """The connection of a plain function, or beneath an ``AsyncSqlite``. Its borrower cannot commit it."""

    begun: bool = False
    """Whether it has been seen within its transaction: there is to be no second one after it."""

    def cursor(self, factory: Any = LentCursor) -> Any:
        """See ``sqlite3.Connection.cursor``. What joins the transaction has a cursor of its own kind."""
        self.refuse_undone()
        return super().cursor(factory)

    # sqlite3's own three make their cursor without asking cursor().

    def execute(self, sql: str, parameters: Any = (), /) -> LentCursor:
        """See ``sqlite3.Connection.execute``."""
        cursor: LentCursor = self.cursor()
        return cursor.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> LentCursor:
        """See ``sqlite3.Connection.executemany``."""
        cursor: LentCursor = self.cursor()
        return cursor.executemany(sql, parameters)

    def executescript(self, _sql: str, /) -> NoReturn:
        """Refused: it commits first."""
        raise _refusal("executescript() commits: run its statements one by one")

    def commit(self) -> NoReturn:
        """Refused."""
        raise _refusal("it is committed with the verdict: return")

    def rollback(self) -> NoReturn:
        """Refused."""
        raise _refusal("raise, and all of it is undone")

    def __enter__(self) -> NoReturn:
        """Refused: the end of the block would commit."""
        raise _refusal("`with ctx.tx:` would commit at its end: leave it out")

    def refuse_undone(self) -> None:
        """Raise where SQLite itself has undone the transaction: what comes now would be committed without the rest."""
        if self.in_transaction:
            self.begun = True
        elif self.begun:
            raise undone("an earlier statement failed, and SQLite has undone the whole transaction with it")

    def end(self, how: Literal["COMMIT", "ROLLBACK"]) -> None:
        """End the transaction, if it has begun; one that cannot be committed is rolled back. Raises why."""
        try:
            if how == "COMMIT":
                self.refuse_undone()
                super().commit()
        finally:
            self.begun = False
            with suppress(sqlite3.Error):  # its handler has closed it
                if self.in_transaction:
                    super().rollback()

    @property
    def is_clean(self) -> bool:
        """Whether it is open, and in no transaction."""
        try:
            return not self.in_transaction
        except sqlite3.ProgrammingError:
            return False  # its handler has closed it


def open_lent(path: str, *, durable: bool) -> LentConnection:
    """Open the file for a handler."""
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT, isolation_level="IMMEDIATE", check_same_thread=False, factory=LentConnection
    )
    connection.execute(f"PRAGMA synchronous = {synchronous(durable=durable)}")
    return connection


def writes(sql: str) -> bool:
    """Whether the statement may write, so that it must be within the transaction."""
    if _WITH.match(sql):
        return _CHANGES.search(sql) is not None
    return not _READS.match(sql)


def undone(why: str) -> sqlite3.OperationalError:
    """Say that the transaction is no more, before it was to end. Another try may well succeed."""
    error = sqlite3.OperationalError(f"the transaction of this handler is undone: {why}")
    error.sqlite_errorcode = sqlite3.SQLITE_ABORT_ROLLBACK
    error.sqlite_errorname = "SQLITE_ABORT_ROLLBACK"
    return error


def _refusal(what: str) -> sqlite3.ProgrammingError:
    return sqlite3.ProgrammingError(f"the transaction of ctx.tx ends with its handler; {what}")


class LentThread(Serving):
    """A connection and its thread: calls run in order, also those that were abandoned.

    One thread each: a handler that holds the write lock must never wait for a thread in which another waits for it.
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
        answer.set_running_or_notify_cancel()  # a cancelled caller does not cancel it
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
        """Run nothing more of this transaction, and end soon what runs now: its caller is gone."""
        self._abandoned = True

    def refuse_abandoned(self) -> None:
        """Raise where the caller is gone; in the thread."""
        if self._abandoned:
            raise undone("its caller was cancelled")

    def begin(self) -> None:
        """Begin another transaction: the last one has ended; in the thread."""
        self._abandoned = False

    def serve(self) -> None:
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
    """One transaction in such a thread. Calls after its end raise: by then another may have the connection."""

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
        """End the transaction, if it has begun, also if the caller was cancelled."""
        self._over = True
        if how == "ROLLBACK":
            self._thread.abandon()  # a cancelled caller may have left a statement behind
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
        self._thread.begin()
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
            raise undone("its process was forked, and no connection may be open then")
        return cast("LentConnection", line.connection())


class InPlace:
    """A connection that is used in the caller's thread: for a test, where no other thread has the lock."""

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

    def __init__(self, runs: Loan | InPlace) -> None:
        self.runs = runs
        """What runs the statements, for enlisting."""

    async def execute(self, sql: str, parameters: Parameters = ()) -> list[Any]:
        """Run one statement, and return its rows; none for a statement that has none."""
        return await self.runs.run(lambda connection: connection.execute(sql, parameters).fetchall())

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> None:
        """Run one statement with each of these."""
        await self.runs.run(lambda connection: connection.executemany(sql, parameters))


class SqliteLender:
    """``Lender`` for one file. Its transactions begin at the first effect: until then they block no other.

    A plain function is lent a ``sqlite3.Connection``. A coroutine is lent an ``AsyncSqlite``, since a wait for the
    file's one lock would stop the loop, and with it the holder of the lock.
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
                # Perhaps it is still ending this one, if the caller was cancelled: the next comes after it.
                self._at_work.discard(thread)
                if self._closed:
                    thread.stop()
                else:
                    self._free_threads.append(thread)

    @contextmanager
    def lend_blocking(self) -> Iterator[sqlite3.Connection]:
        with self._threads:
            with self._lock:
                line = self._free.pop() if self._free else Line(self._connect)
            # No fork while a transaction is open: its copy in the child would have no owner.
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
