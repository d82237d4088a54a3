"""The storage in memory: the SQLite dialect on one connection to a database that has no file."""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import datetime
from functools import cache
from typing import Any, NoReturn, TypeVar

from mainspring.model.errors import BadOption
from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage.contract import BellMode, Doorbell, Schema, Transfer
from mainspring.storage.operation import Lane
from mainspring.storage.portable.dialect import SqlStorage
from mainspring.storage.script import Script, Statement, run
from mainspring.storage.sqlite import SqliteOperationSet, refuse_old_sqlite
from mainspring.storage.sqlite.connection import GATE, OwnConnection, open_memory, translated
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.schema import SqliteSchema, ddl
from mainspring.storage.sqlite.transfer import SqliteTransfer
from mainspring.timing.clock import Clock

__all__ = ["MemoryStorage"]

T = TypeVar("T")
_TABLES = "mainspring"
_ADDRESS = "memory://"


class MemoryStorage(SqlStorage):
    """``Storage`` in this process. It ends with the last of its siblings; ``close`` keeps the rows for ``open``.

    Its tables are there from the beginning. No call of it waits, so a coroutine on it needs no event loop. Safe with
    any number of threads and loops: each takes a ``sibling``, and all of them take turns. Without ``now``, which
    applies to all siblings, ``clock`` decides, and without a clock the host's.
    """

    migrates_itself = True

    def __init__(self, clock: Clock | None = None, *, _gateway: MemoryGateway | None = None) -> None:
        if _gateway is None:
            refuse_old_sqlite()
            _gateway = MemoryGateway(_HandClock(clock))
        self.gateway: MemoryGateway = _gateway
        self.operations: SqliteOperationSet = SqliteOperationSet(_gateway.dialect, _gateway)
        """All operations, whose scripts ``gateway`` runs."""
        super().__init__(self.operations)
        self.schema: Schema = MemorySchema(_gateway, _gateway.dialect)
        self._bell = MemoryDoorbell(_gateway)
        self.doorbell: Doorbell = self._bell
        self.transfer: Transfer = SqliteTransfer(_gateway.dialect, _gateway, _ADDRESS)

    @property
    def now(self) -> datetime | None:
        """The hand-set clock, or None."""
        return self.gateway.clock.hand_set

    @now.setter
    def now(self, instant: datetime | None) -> None:
        self.gateway.clock.hand_set = instant

    async def open(self) -> None:
        """See ``Storage.open``. Nothing to do."""

    async def close(self) -> None:
        """See ``Storage.close``. The rows stay."""
        self._bell.hang_up()

    def lender(self, size: int) -> MemoryLender:
        """See ``Storage.lender``. It lends nothing."""
        return MemoryLender(size)

    def sibling(self) -> MemoryStorage:
        return MemoryStorage(_gateway=self.gateway)


class _HandClock:
    """``Clocked``: an instant that is set by hand, else a test's clock, else None."""

    def __init__(self, clock: Clock | None) -> None:
        self.hand_set: datetime | None = None
        self._clock = clock

    @property
    def now(self) -> datetime | None:
        if self.hand_set is not None or self._clock is None:
            return self.hand_set
        return self._clock.now()


class MemoryGateway:
    """``Gateway`` to the one connection: each script runs in its caller's thread, one at a time, as a transaction."""

    def __init__(self, clock: _HandClock) -> None:
        self._connection = _migrated()
        self._door = OwnConnection(self._connection)
        self.clock: _HandClock = clock
        self.dialect: Dialect = Dialect(_TABLES, hand_clock=clock)
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._listeners: list[_Listener] = []
        self._bell_mark: Statement = self.dialect("bell_mark")
        self._mark: tuple[int, int] = (0, 0)

    def __del__(self) -> None:
        """Close the connection, which Python warns about otherwise."""
        self._connection.close()

    async def run(self, script: Script[T], lane: Lane) -> T:
        """See ``Gateway.run``. It awaits nothing."""
        try:
            with self._turn():
                answer = self._transact(script)
                if self._listeners and lane != "read":
                    self._ring(*self._mark)
        except sqlite3.Error as error:
            raise translated(error, _ADDRESS, _TABLES) from None
        return answer

    def listen(self, listener: _Listener) -> None:
        """Call the listener after each commit that may have made something due."""
        with self._turn():
            if not self._listeners:
                self._mark = self._read_mark()
            self._listeners.append(listener)

    def ignore(self, listener: _Listener) -> None:
        """Call it no longer."""
        with self._turn():
            self._listeners.remove(listener)

    def call(self, groups: Collection[str]) -> None:
        """Call every listener for these groups."""
        if groups:
            for listener in tuple(self._listeners):
                listener.ring(groups)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        assert self._thread != threading.get_ident(), (
            "a script calls the storage that it runs on, and would wait for itself"
        )
        GATE.enter()  # before the lock: a process is not forked while a thread has it
        try:
            with self._lock:
                self._thread = threading.get_ident()
                try:
                    yield
                finally:
                    self._thread = None
        finally:
            GATE.leave()

    def _transact(self, script: Script[T]) -> T:
        connection = self._connection
        if connection.in_transaction:  # an interrupt was raised while the last script was rolled back
            connection.rollback()
        try:
            connection.execute("BEGIN")
            answer = run(self._door, script)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        return answer

    def _ring(self, last_seq: int, rings: int) -> None:
        self._mark = seq, rung = self._read_mark()
        groups: list[str] = []
        if seq != last_seq:
            groups = [group for (group,) in self._door.execute(self.dialect("bell_groups", last_seq))]
        if rung != rings:
            groups.append("")
        self.call(groups)

    def _read_mark(self) -> tuple[int, int]:
        ((seq, rings),) = self._door.execute(self._bell_mark)
        return seq or 0, rings


@cache
def _template() -> sqlite3.Connection:
    """A database with all tables: a copy of it takes a hundredth of the time that making them does."""
    connection = open_memory()
    atexit.register(connection.close)
    connection.executescript(ddl(_TABLES))
    return connection


_copying = threading.Lock()


def _migrated() -> sqlite3.Connection:
    GATE.enter()
    try:
        with _copying:
            # Not by deserialize(): what that makes cannot grow beyond 1 GiB.
            connection = open_memory()
            _template().backup(connection)
            return connection
    finally:
        GATE.leave()


class MemorySchema(SqliteSchema):
    """``Schema`` of a database without a file."""

    async def examine(self, _tolerances: Tolerances, _host: Callable[[], datetime]) -> list[Symptom]:
        return []


class MemoryDoorbell:
    """``Doorbell`` within a process: listeners are called after a commit, each on its own loop, armed or not.

    The mode is *watch*, never *notify*: no connection can be lost, so nothing has to be proven alive.
    """

    def __init__(self, gateway: MemoryGateway) -> None:
        self._gateway = gateway
        self._own: list[_Listener] = []

    @property
    def mode(self) -> BellMode:
        """Always *watch*."""
        return "watch"

    def listen(self, rung: Callable[[str], None]) -> None:
        listener = _Listener(rung, asyncio.get_running_loop())
        self._gateway.listen(listener)
        self._own.append(listener)

    async def arm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.arm``. Nothing to do."""

    async def disarm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.disarm``. Nothing to do."""

    async def ring(self) -> None:
        await self._gateway.run(self._ring(), "write")

    async def rouse(self) -> None:
        """See ``Doorbell.rouse``. Every commit is noticed, but limits may have kept something waiting."""
        self._gateway.call(await self._gateway.run(self._due(), "read"))

    def hang_up(self) -> None:
        """Call no listener of this storage any longer."""
        while self._own:
            self._gateway.ignore(self._own.pop())

    def _ring(self) -> Script[None]:
        yield self._gateway.dialect("bell_ring")

    def _due(self) -> Script[list[str]]:
        sql = self._gateway.dialect
        at = yield from sql.read_clock()
        return [group for (group,) in (yield sql("bell_due", at))]


class _Listener:
    """A callback and the loop it belongs to. Several rings for a group before the loop gets to it are one call."""

    def __init__(self, rung: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> None:
        self._rung = rung
        self._loop = loop
        self._lock = threading.Lock()
        self._groups: dict[str, None] = {}

    def ring(self, groups: Collection[str]) -> None:
        """Have the callback called on its loop for each group, from any thread."""
        with self._lock:
            waiting = bool(self._groups)
            self._groups.update(dict.fromkeys(groups))
            if waiting:
                return
            try:
                self._loop.call_soon_threadsafe(self._call)
            except RuntimeError:  # the loop is closed
                self._groups.clear()

    def _call(self) -> None:
        with self._lock:
            groups = list(self._groups)
            self._groups.clear()
        for group in groups:
            self._rung(group)


class MemoryLender:
    """``Lender`` that refuses: the one connection is not lent to handlers."""

    def __init__(self, size: int) -> None:
        self.size: int = size

    def lend(self) -> AbstractAsyncContextManager[Any]:
        _refuse()

    def lend_blocking(self) -> AbstractContextManager[Any]:
        _refuse()

    def check(self, *, blocking: bool) -> None:  # noqa: ARG002 - neither kind
        _refuse()

    async def close(self) -> None:
        """See ``Lender.close``."""


def _refuse() -> NoReturn:
    raise BadOption(
        "transactional=True needs a database, and memory:// has no transactions: use sqlite:/// or postgresql://, or "
        "try the handler in app.testing(tx=…), which lends it your own"
    )
