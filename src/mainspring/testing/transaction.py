"""A storage on one connection of the caller's: every statement is part of its transaction, and none ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from mainspring.app.blocking import at_once, is_blocking
from mainspring.app.consume.injection import NonSuppressing
from mainspring.app.storages import Enlists, OperationSet
from mainspring.app.transaction.enlistment import Transactions
from mainspring.app.transaction.handles import Kind
from mainspring.brokers.contract import SendResult, WireMessage
from mainspring.model.errors import BadHandle, Misuse
from mainspring.model.limits import LimitedClaim, Limits
from mainspring.model.message import ClaimRequest, Delivery, Draft, Published
from mainspring.model.search import Filter
from mainspring.model.verdict import Release, Settlement
from mainspring.model.views import DeliveryView
from mainspring.storage.contract import BellMode, Doorbell, Ledger, Lender, Mailbox, Storage, Transfer
from mainspring.storage.operation import Gateway, Lane
from mainspring.storage.portable.dialect import SqlStorage
from mainspring.storage.script import AsyncConnection, Script, Statement, SyncConnection, run, run_async
from mainspring.testing.calls import loopless
from mainspring.testing.records import ALL, Records, Stores, in_order
from mainspring.testing.relays import record
from mainspring.timing.clock import Clock

T = TypeVar("T")
Hook = Callable[[], Awaitable[None]]


class EnlistedGateway:
    """``Gateway`` over the caller's handle, which is enlisted again for every script: its session may have moved on.

    ``prepare`` is awaited before anything is run, and ``changed`` after every write that is not the kit's. A
    blocking handle never waits, so it needs no loop.
    """

    def __init__(self, transactions: Transactions, kind: Kind, handle: object) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where an asyncio handle was last used."""
        self.prepare: Hook | None = None
        self.changed: Hook | None = None
        self._transactions = transactions
        self._kind = kind
        self._handle = handle
        self._one_at_a_time = asyncio.Lock()
        self._one_prepares = asyncio.Lock()
        self._preparing: object = None

    async def ready(self) -> None:
        """Prepare, unless this is part of it."""
        if self.prepare is None or self._preparing is _here():
            return
        async with self._one_prepares:
            self._preparing = _here()
            try:
                await self.prepare()
            finally:
                self._preparing = None

    async def run(self, script: Script[T], lane: Lane) -> T:
        """See ``Gateway.run``."""
        await self.ready()
        if self._kind.blocking:
            # It blocks wherever it is used, and Django refuses to where it sees a loop.
            with loopless():
                return run(cast("SyncConnection", self._enlisted()), script)
        self.loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            answer = await run_async(cast("AsyncConnection", self._enlisted()), script)
        if lane == "write":
            await self.notify()
        return answer

    @property
    def blocks(self) -> bool:
        """Whether it never waits."""
        return self._kind.blocking

    async def notify(self) -> None:
        """Call ``changed`` after a write."""
        if self.changed is not None:
            await self.changed()

    def _enlisted(self) -> SyncConnection | AsyncConnection:
        return self._transactions.enlist(self._kind, self._handle)


class EnlistedStorage(SqlStorage):
    """``Storage`` over a gateway that is the caller's, by a clock that is the test's."""

    def __init__(self, enlisted: Enlists, gateway: Gateway, clock: Clock) -> None:
        self.migrates_itself: bool = False
        self._clock = clock
        self.operations: OperationSet = enlisted(gateway, self)
        super().__init__(self.operations)
        self.doorbell: Doorbell = SilentBell()

    @property
    def now(self) -> datetime | None:
        """The test's clock."""
        return self._clock.now()

    @now.setter
    def now(self, instant: datetime | None) -> None:
        raise Misuse(f"the clock is the kit's, and cannot be set to {instant}: write `await kit.advance('1h')`")

    async def open(self) -> None:
        """See ``Storage.open``. It is the caller's."""

    async def close(self) -> None:
        """See ``Storage.close``. It is the caller's."""

    def lender(self, size: int) -> Lender:
        """See ``Storage.lender``. A test runs its handlers itself, in its own transaction."""
        raise Misuse(f"{size} connections were to be lent, and in a test there is one: the test's own")

    @property
    def transfer(self) -> Transfer:
        """See ``Storage.transfer``. A test's own transaction moves nowhere."""
        raise Misuse("app.testing(tx=…) runs in one transaction, which moves nowhere: move a database outside of it")

    def sibling(self) -> EnlistedStorage:
        """See ``Storage.sibling``. There is one connection, and this is it."""
        return self


class SilentBell:
    """``Doorbell`` where no service sleeps."""

    mode: BellMode = "poll"

    def listen(self, rung: Callable[[str], None]) -> None:
        """See ``Doorbell.listen``."""

    async def arm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.arm``."""

    async def disarm(self, groups: Collection[str]) -> None:
        """See ``Doorbell.disarm``."""

    async def ring(self) -> None:
        """See ``Doorbell.ring``."""

    async def rouse(self) -> None:
        """See ``Doorbell.rouse``."""


class Own:
    """Separates what the test's transaction has published from what others have committed, before it or during it."""

    def __init__(self, operations: OperationSet) -> None:
        self._ledger = operations.ledger
        self._earlier: object = None

    async def begin(self) -> None:
        """Record what is stored already, where the database cannot distinguish it later."""
        self._earlier = await self._ledger.earlier()

    async def of(self, views: Sequence[DeliveryView]) -> list[DeliveryView]:
        """Return those of messages that were published in the test's transaction."""
        if not views:
            return []
        ids = sorted({view.message_id for view in views})
        ours = await self._ledger.own(ids, self._earlier)
        return [view for view in views if view.message_id in ours]


class OwnMailbox:
    """``Mailbox`` of which only the test's own deliveries are claimed."""

    def __init__(self, mailbox: Mailbox, ledger: Ledger, own: Own) -> None:
        self._mailbox = mailbox
        self._ledger = ledger
        self._own = own

    async def claim(self, wants: Sequence[ClaimRequest], owner: str, hold: timedelta) -> list[Delivery]:
        """See ``Mailbox.claim``."""
        claimed: list[Delivery] = []
        for want in wants:
            if await self._mailbox.upcoming([want.group], hold) is None:
                continue  # it is paused
            _, ours = await self._ready(want)
            for view in ours[: want.limit]:
                taken = await self._mailbox.take(view.message_id, view.group, owner, hold)
                claimed += [] if taken is None else [taken]
        return claimed

    async def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> LimitedClaim:
        """See ``Mailbox.claim_limited``. Limits choose by themselves: what is not the test's own is released."""
        others, ours = await self._ready(want)
        found = await self._mailbox.claim_limited(want._replace(limit=want.limit + others), limits, after, owner, hold)
        mine = {view.seq for view in ours}
        chosen = [each for each in found.deliveries if each.id in mine][: want.limit]
        back = [Settlement(each.claim, Release()) for each in found.deliveries if each not in chosen]
        await self._mailbox.settle(sorted(back, key=lambda each: each.claim), owner)
        return found._replace(deliveries=chosen)

    async def _ready(self, want: ClaimRequest) -> tuple[int, list[DeliveryView]]:
        """Return how many of others are ready, and the test's own at the levels wanted, in order."""
        ready = (await self._ledger.browse(Filter(state="ready", group=want.group, limit=ALL, scan=ALL))).rows
        levels = {scan.priority for scan in want.scans}
        ours = sorted((view for view in await self._own.of(ready) if view.priority in levels), key=in_order)
        return len(ready) - len(ours), ours

    def __getattr__(self, name: str) -> Any:
        """Nothing else claims."""
        return getattr(self._mailbox, name)


class RecordedTransactions(Transactions):
    """``Enlisting`` for what the code under test publishes with ``tx``: on the handle it gives, and recorded.

    A message that the test's own connection cannot see is in another transaction, and would be left behind there.
    """

    def __init__(
        self, transactions: Transactions, gateway: EnlistedGateway, storage: EnlistedStorage, records: Records
    ) -> None:
        super().__init__(transactions.engine, transactions.enlisted, storage)
        self._gateway = gateway
        self._storage = storage
        self._records = records

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """See ``Enlisting.stored``."""
        self._records.note_sent(drafts, published)

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """See ``Enlisting.run``."""
        if is_blocking() and not self._gateway.blocks:  # in another thread, while the test's own loop goes on
            return await super().run(handle, script, call)
        await self._gateway.ready()
        first = len(self._records.sent)
        answer = await super().run(handle, script, call)
        await self._check(first)
        await self._gateway.notify()
        return answer

    async def _check(self, first: int) -> None:
        for sent in self._records.sent[first:]:
            if sent.status == "stored" and await self._storage.ledger.find(sent.id) is None:
                del self._records.sent[first:]
                raise BadHandle(
                    "tx= is another transaction than the one of app.testing(tx=…), so that the message would be left "
                    "behind: have both on one connection, as by Session(connection, "
                    "join_transaction_mode='create_savepoint')"
                )


class OnConnection:
    """``StandIn`` on the caller's connection."""

    def __init__(self, storage: Storage, gateway: EnlistedGateway, records: Records, *, blocking: bool) -> None:
        self.storage: Storage = storage
        self.batcher: Stores = Stores(storage, records)
        self.relay: Callable[[str, str, WireMessage], SendResult] = partial(record, records.relayed)
        self.applied: list[str] = []
        self._gateway = gateway
        self._blocking = blocking

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """See ``StandIn.wait_for``. An asyncio connection is waited for on its own loop, from another thread."""
        if self._blocking:
            return at_once(work)
        loop = self._gateway.loop
        if loop is None or not loop.is_running():
            raise Misuse(
                "the transaction of this test is asyncio's, and no loop runs to wait on: await the app's own call, or "
                "give app.testing(tx=…) a blocking session"
            )
        return asyncio.run_coroutine_threadsafe(_awaiting(work), loop).result()


def _here() -> object:
    """Return the current task, or the thread where there is none."""
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        return threading.current_thread()


async def _awaiting(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


_NAME = "mainspring_handler"
_OUTER = "mainspring_testing"


class Savepoints:
    """Opens savepoints in one transaction of the caller's."""

    def __init__(self, kind: Kind, handle: Any, gateway: EnlistedGateway) -> None:
        self._kind = kind
        self._handle = handle
        self._gateway = gateway

    def __call__(self) -> AbstractAsyncContextManager[bool]:
        """Return one savepoint, rolled back if the block raises. Its value is True: it undoes what is published."""
        library = self._kind.library
        if library == "sqlalchemy":
            return _nested(self._handle)
        if library == "sqlite3":
            return _statements(self._gateway)
        if library == "django":
            from django.db import transaction

            return _managed(transaction.atomic(using=self._handle.alias), blocking=True)
        return _managed(self._handle.transaction(), blocking=self._kind.blocking)


@asynccontextmanager
async def _managed(manager: Any, *, blocking: bool) -> AsyncIterator[bool]:
    """Open a savepoint of Django, psycopg or asyncpg: a context manager, which is a savepoint within a transaction."""
    if not blocking:
        async with NonSuppressing(manager):  # psycopg suppresses its own Rollback
            yield True
        return
    with loopless():
        manager.__enter__()
    try:
        yield True
    except BaseException as error:
        with loopless():
            manager.__exit__(type(error), error, error.__traceback__)
        raise
    with loopless():
        manager.__exit__(None, None, None)


@asynccontextmanager
async def _nested(handle: Any) -> AsyncIterator[bool]:
    """Open a savepoint of SQLAlchemy; not as a context manager, in which a handler must not commit its session."""
    from sqlalchemy.exc import InvalidRequestError

    nested = await _if_awaitable(handle.begin_nested())
    try:
        yield True
    except BaseException:
        with suppress(InvalidRequestError):  # ended already
            await _if_awaitable(nested.rollback())
        raise
    if nested.is_active:  # a handler that committed its session has ended it
        await _if_awaitable(nested.commit())


@asynccontextmanager
async def _statements(gateway: EnlistedGateway) -> AsyncIterator[bool]:
    """Open a savepoint by SQL statements."""
    await gateway.run(_statement(f"SAVEPOINT {_NAME}"), "settle")
    try:
        yield True
    except BaseException:
        await gateway.run(_statement(f"ROLLBACK TO {_NAME}"), "settle")
        raise
    finally:
        await gateway.run(_statement(f"RELEASE {_NAME}"), "settle")


async def begin_sqlite(gateway: EnlistedGateway) -> None:
    """Keep SQLite in a transaction: sqlite3 begins one before it writes rows, but not before it creates tables.

    It is never released: outside of any other it would commit. It goes with the caller's transaction.
    """
    await gateway.run(_statement(f"SAVEPOINT {_OUTER}"), "settle")


def _statement(sql: str) -> Script[None]:
    yield Statement(sql)


async def _if_awaitable(answer: Any) -> Any:
    return await answer if hasattr(answer, "__await__") else answer
