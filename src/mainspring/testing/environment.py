"""The environment of a test, in memory or in a transaction of the test's own, and its way into the app."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

from mainspring.app.blocking import at_once, in_loop
from mainspring.app.broker.intake import Intake
from mainspring.app.connection import StandIn
from mainspring.app.storages import OperationSet, hand_turned
from mainspring.app.transaction.enlistment import Enlisting
from mainspring.brokers.contract import Received, SendResult, WireMessage
from mainspring.model.errors import Misuse
from mainspring.model.message import Draft, Published
from mainspring.storage.contract import Mailbox, Storage
from mainspring.storage.operation import Gateway
from mainspring.storage.script import Script
from mainspring.testing import asserts
from mainspring.testing.asserts import Expectation
from mainspring.testing.calls import Calls, Savepoint, loopless
from mainspring.testing.records import Ran, Records, Sent, Stores, recorded
from mainspring.testing.relays import record
from mainspring.testing.services import AppParts, Enough, Services
from mainspring.testing.transaction import (
    EnlistedGateway,
    EnlistedStorage,
    OnConnection,
    Own,
    OwnMailbox,
    RecordedTransactions,
    Savepoints,
    begin_sqlite,
)
from mainspring.timing.clock import HandClock

T = TypeVar("T")
Predicate = Callable[[], object] | Callable[[], Awaitable[object]]
"""A function or a coroutine function; its result is taken as a boolean."""


class InMemory:
    """``StandIn`` on memory: nothing in it ever waits, so it serves every loop and thread."""

    def __init__(self, storage: Storage, records: Records) -> None:
        self.applied: list[str] = []
        self.ready: Callable[[], Awaitable[None]] | None = None
        """Declares the consumers that were registered since the last call."""
        self.relay: Callable[[str, str, WireMessage], SendResult] = partial(record, records.relayed)
        self._storage = storage
        self._publisher = Stores(storage, records)

    @property
    def storage(self) -> Storage:
        """See ``Opened.storage``."""
        self.prepare()
        return self._storage

    @property
    def batcher(self) -> Stores:
        """See ``Opened.batcher``."""
        self.prepare()
        return self._publisher

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """See ``StandIn.wait_for``."""
        return at_once(work)

    def prepare(self) -> None:
        """Call ``ready``, if there is one."""
        if self.ready is not None:
            at_once(self.ready)


class MemoryEnlisting:
    """``Enlisting`` on memory: what the code under test would store in its transaction is stored at once, beside it."""

    def __init__(self, stand_in: InMemory, operations: OperationSet, gateway: Gateway, records: Records) -> None:
        self.operations: OperationSet = operations
        """See ``Enlisting.operations``. Its timetable notes nothing: ``stored`` does."""
        self._stand_in = stand_in
        self._gateway = gateway
        self._records = records

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """See ``Enlisting.stored``."""
        self._records.note_sent(drafts, published)

    async def run(self, _handle: object, script: Script[T], _call: str = "publish") -> T:
        """See ``Enlisting.run``."""
        self._stand_in.prepare()
        return await self._gateway.run(script, "write")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a handler of a test may take, and how many runs one instant may have."""

    patience: timedelta
    runs: int


@dataclass(frozen=True, slots=True)
class Database:
    """The storage of a test, and the ways to it."""

    storage: Storage
    stand_in: StandIn
    joins: Enlisting
    begin: Callable[[], Awaitable[object]]
    """Creates the tables, where they are missing."""
    savepoint: Savepoint = nullcontext
    blocking: bool = True
    """Whether nothing but a handler ever waits."""
    tx: object = None
    """The test's own transaction, which transactional consumers are lent; None in memory."""
    own: Own | None = None
    """Selects the test's own messages; None if all are."""


class Environment:
    """One test's database, records and services, put in the place of the app's and taken out again.

    With await, time passes in the test's task; without, in the test's thread, on a loop of the kit.
    """

    def __init__(self, app: AppParts, clock: HandClock, records: Records, database: Database, limits: Limits) -> None:
        self.records: Records = records
        self.clock: HandClock = clock
        self.database: Database = database
        self.calls: Calls = Calls(database.savepoint, records, limits.patience)
        self.services: Services = Services(
            app, database.storage, records, clock, self.calls, limits.runs, database.tx, database.own
        )
        self.ready: Callable[[], Awaitable[None]] = self.prepare
        """Prepares, unless that was done."""
        self._app = app
        self._begun = False
        self._undo: list[Callable[[], object]] = []
        self._runner: asyncio.Runner | None = None
        self._expected: list[Expectation] = []

    def install(self) -> None:
        """Replace the database and the clock, for the whole app."""
        app, undo = self._app, self._undo
        for connection in app.connections:
            undo.append(partial(connection.replace, connection.replace(self.database.stand_in)))
        undo.append(partial(app.transactions.replace, app.transactions.replace(self.database.joins)))
        undo.append(partial(app.clock.replace, app.clock.replace(self.clock)))

    def restore(self) -> None:
        """Restore the app's own database and clock, and end the kit's threads and loop."""
        self.calls.threads.close()
        while self._undo:
            self._undo.pop()()
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def prepare(self) -> None:
        """Prepare for the next message: create the tables, declare consumers registered since the last call."""
        if not self._begun:
            await self.database.begin()
            self._begun = True
        await self.services.prepare()

    async def receive(self, intake: Intake, received: Received) -> bool:
        """Store a message as an intake does. Returns False for a repeat."""
        await self.prepare()
        id, draft = intake.reader(received)
        receipt = await self.database.storage.inbox.receive(intake.fed, intake.reader.broker.source, {id: draft})
        await self.changed()
        return bool(receipt.stored)

    async def refresh(self) -> None:
        """Bring the records up to date with what is stored."""
        await self.records.verify(self.database.storage)
        await self.records.read_stored(self.database.storage, self.services.consumers, self.database.own)

    async def changed(self) -> None:
        """Refresh after a write, but not before it has begun, nor while the services run: their end refreshes."""
        if self._begun and not self.services.running:
            await self.refresh()

    def current(self) -> Records:
        """Return the records, up to date. Those of a database that is awaited were refreshed when it changed."""
        if self.database.blocking:
            at_once(self.refresh)
        return self.records

    def sent(self) -> list[Sent]:
        """Return what was published and not undone."""
        return self.current().sent if self.records.undoable else self.records.sent

    async def run(self, span: timedelta, enough: Enough | None = None, *, blocking: bool = False) -> list[Ran]:
        """Let time pass. Plain functions run in this thread if ``blocking``, or if the connection belongs to it."""
        __tracebackhide__ = True
        self.calls.threads.here = blocking or (self.database.blocking and self.database.tx is not None)
        try:
            return await self.services.run(self.clock.now() + span, self._died, enough)
        finally:
            if not self.database.blocking:
                await self.refresh()

    async def wait_until(self, predicate: Predicate, within: timedelta, *, blocking: bool = False) -> list[Ran]:
        """Let time pass until the predicate holds."""
        __tracebackhide__ = True
        held, first = False, len(self.records.runs)

        async def holds() -> bool:
            nonlocal held
            with loopless() if blocking else nullcontext():
                answer = predicate()
            held = bool(await answer if isinstance(answer, Awaitable) else answer)
            return held

        runs = await self.run(within, holds, blocking=blocking)
        if not held and not await holds():
            records = self.current()
            raise asserts.never(predicate, within, self.clock.now(), records, records.runs[first:])
        return runs

    def blocked(self, work: Callable[[], Coroutine[Any, Any, T]], call: str) -> T:
        """Run this on a loop of the kit's, for a caller that has none."""
        __tracebackhide__ = True
        if in_loop():
            raise Misuse(f"kit.sync.{call} would block the event loop it is called on: write `await kit.{call}`")
        if not self.database.blocking:
            raise Misuse(
                f"kit.sync.{call} cannot wait for the transaction of this test, which is asyncio's: write `await "
                f"kit.{call}`, or give app.testing(tx=…) a blocking session"
            )
        if self._runner is None:
            self._runner = asyncio.Runner()
        outcome = self._runner.run(_outcome(work), context=copy_context())
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def expecting(self, expectation: Expectation) -> AbstractContextManager[list[Ran]]:
        """Take these dead letters as expected; raises Unmet when none came."""
        return _Expecting(expectation, self._expected, self)

    def _died(self, ran: Ran) -> None:
        __tracebackhide__ = True
        if not any(expectation.takes(ran) for expectation in reversed(self._expected)):
            raise asserts.dead_letter(ran)


class _Raised(NamedTuple):
    """What was raised on the loop: raised again outside, so that no frame of asyncio is in the traceback."""

    error: Exception


async def _outcome(work: Callable[[], Coroutine[Any, Any, T]]) -> T | _Raised:
    __tracebackhide__ = True
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - raised by the caller
        return _Raised(error)


class _Expecting(AbstractContextManager[list[Ran]]):
    """The block in which dead letters are expected.

    A class, since the frames of a generator and of contextlib would be in the traceback of a test.
    """

    def __init__(self, expectation: Expectation, expected: list[Expectation], environment: Environment) -> None:
        self._expectation = expectation
        self._expected = expected
        self._environment = environment
        self._first = 0

    def __enter__(self) -> list[Ran]:
        self._first = len(self._environment.records.runs)
        self._expected.append(self._expectation)
        return self._expectation.seen

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._expected.remove(self._expectation)
        if kind is None and not self._expectation.seen:
            raise asserts.nothing_died(str(self._expectation), self._environment.current(), self._first)


def in_memory(app: AppParts, clock: HandClock, limits: Limits) -> Environment:
    """Create an environment in memory, whatever the app's database is."""
    records = Records(app.catalogue, clock)
    storage = hand_turned(clock)
    stand_in = InMemory(storage, records)
    enlisting = MemoryEnlisting(stand_in, storage.operations, storage.gateway, records)
    storage.timetable = recorded(storage.timetable, records)
    database = Database(storage, stand_in, enlisting, storage.schema.migrate)
    environment = Environment(app, clock, records, database, limits)
    stand_in.ready = environment.prepare
    return environment


def in_transaction(app: AppParts, clock: HandClock, limits: Limits, tx: object, *, committed: bool) -> Environment:
    """Create an environment on the caller's connection, all of it in the transaction that the caller rolls back.

    What others have committed is left alone, unless it is to be run as ``committed``.
    """
    records = Records(app.catalogue, clock, undoable=True)
    transactions = app.transactions
    kind, handle = transactions.recognised(tx)
    gateway = EnlistedGateway(transactions, kind, handle)
    storage = EnlistedStorage(transactions.enlisted, gateway, clock)
    storage.timetable = recorded(storage.timetable, records)
    own = None if committed else Own(storage.operations)
    if own is not None:
        storage.mailbox = cast("Mailbox", OwnMailbox(storage.mailbox, storage.ledger, own))

    async def begin() -> None:
        if transactions.engine == "sqlite":
            await begin_sqlite(gateway)
        await storage.schema.migrate()
        if own is not None:
            await own.begin()

    database = Database(
        storage,
        OnConnection(storage, gateway, records, blocking=kind.blocking),
        RecordedTransactions(transactions, gateway, storage, records),
        begin,
        Savepoints(kind, handle, gateway),
        blocking=kind.blocking,
        tx=handle,
        own=own,
    )
    environment = Environment(app, clock, records, database, limits)
    gateway.prepare, environment.ready = environment.prepare, gateway.ready
    if not kind.blocking:
        gateway.changed = environment.changed
    return environment
