"""A storage on one connection of the caller's: every statement is part of its transaction, and none ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar, cast

from mainspring.app.background import at_once
from mainspring.app.blocking import is_blocking
from mainspring.app.handles import Kind
from mainspring.app.storages import Joined, Rooms
from mainspring.app.testing.book import Book
from mainspring.app.testing.calling import loopless
from mainspring.app.testing.stand_in import Stores
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadHandle, Misuse
from mainspring.model.message import Draft, Published
from mainspring.storage.contract import BellMode, Doorbell, Lender, Storage
from mainspring.storage.operation import Gateway, Lane
from mainspring.storage.script import AsyncConnection, Connection, Script, run, run_async
from mainspring.storage.sql import SqlStorage
from mainspring.timing.clock import Clock

T = TypeVar("T")
Told = Callable[[], Awaitable[None]]


class JoinedGateway:
    """``Gateway`` over the caller's handle, which is joined anew for every script: its session may have moved on.

    ``prepare`` is awaited before anything is run, and ``changed`` after whatever was written by others than the kit. A
    blocking handle never waits, so it needs no loop.
    """

    def __init__(self, transactions: Transactions, kind: Kind, handle: object) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where an asyncio handle was last used."""
        self.prepare: Told | None = None
        self.changed: Told | None = None
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
                return run(cast("Connection", self._joined()), script)
        self.loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            answer = await run_async(cast("AsyncConnection", self._joined()), script)
        if lane == "write":
            await self.tell()
        return answer

    @property
    def blocks(self) -> bool:
        """Whether it never waits."""
        return self._kind.blocking

    async def tell(self) -> None:
        """Something was written."""
        if self.changed is not None:
            await self.changed()

    def _joined(self) -> Connection | AsyncConnection:
        return self._transactions.join(self._kind, self._handle)


class JoinedStorage(SqlStorage):
    """``Storage`` over a gateway that is the caller's, by a clock that is the test's."""

    def __init__(self, joined: Joined, gateway: Gateway, clock: Clock) -> None:
        self.migrates_itself: bool = False
        self._clock = clock
        self.rooms: Rooms = joined(gateway, self)
        super().__init__(self.rooms)
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

    def sibling(self) -> JoinedStorage:
        """See ``Storage.sibling``. There is one connection, and this is it."""
        return self


class SilentBell:
    """``Doorbell`` where nobody sleeps."""

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


class NotedTransactions(Transactions):
    """``Joins`` for what the code under test publishes with ``tx``: on the handle it gives, and noted.

    A message that the test's own connection cannot see is in another transaction, and would be left behind there.
    """

    def __init__(self, transactions: Transactions, gateway: JoinedGateway, storage: JoinedStorage, book: Book) -> None:
        super().__init__(transactions.engine, transactions.joined, storage)
        self._gateway = gateway
        self._storage = storage
        self._book = book

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """See ``Joins.stored``."""
        self._book.note_sent(drafts, published)

    async def run(self, handle: object, script: Script[T], call: str = "publish") -> T:
        """See ``Joins.run``."""
        if is_blocking() and not self._gateway.blocks:  # in another thread, while the test's own loop goes on
            return await super().run(handle, script, call)
        await self._gateway.ready()
        first = len(self._book.sent)
        answer = await super().run(handle, script, call)
        await self._check(first)
        await self._gateway.tell()
        return answer

    async def _check(self, first: int) -> None:
        for sent in self._book.sent[first:]:
            if sent.status == "stored" and await self._storage.ledger.find(sent.id) is None:
                del self._book.sent[first:]
                raise BadHandle(
                    "tx= is another transaction than the one of app.testing(tx=…), so that the message would be left "
                    "behind: have both on one connection, as by Session(connection, "
                    "join_transaction_mode='create_savepoint')"
                )


class OnConnection:
    """``StandIn`` on the caller's connection."""

    def __init__(self, storage: Storage, gateway: JoinedGateway, book: Book, *, blocking: bool) -> None:
        self.storage: Storage = storage
        self.publisher: Stores = Stores(storage, book)
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
    """Who asks: the task, or the thread where there is none."""
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        return threading.current_thread()


async def _awaiting(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
