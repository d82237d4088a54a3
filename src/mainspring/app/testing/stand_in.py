"""What stands in for the database during a test on memory: the storage, and what publishes to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mainspring.app.background import at_once
from mainspring.app.receipts import receipts
from mainspring.app.storages import Rooms
from mainspring.app.testing.book import Book
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt
from mainspring.model.unique import UniqueKey
from mainspring.storage.contract import Storage
from mainspring.storage.operation import Gateway
from mainspring.storage.script import Script

T = TypeVar("T")
Ready = Callable[[], Awaitable[None]]


class Stores:
    """Stores drafts at once, and notes them. Waits for nothing but the storage."""

    def __init__(self, storage: Storage, book: Book) -> None:
        self._storage = storage
        self._book = book

    async def publish(self, draft: Draft, *, fresh: bool) -> Receipt:  # noqa: ARG002 - nothing is ever sent twice here
        """See ``Publishes.publish``."""
        return (await self.publish_many([draft]))[0]

    async def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Receipt:
        """See ``Publishes.publish_unique``."""
        receipt = await self._storage.mailbox.publish_unique(draft, likeness)
        self._book.note_unique(draft, receipt)
        return receipt

    async def publish_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """See ``Publishes.publish_many``."""
        published = await self._storage.mailbox.publish(drafts)
        self._book.note_sent(drafts, published)
        return receipts(drafts, published)

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """See ``Publishes.join``."""
        published = await self._storage.mailbox.join(join, members)
        self._book.note_sent(members, published)
        return published


class InMemory:
    """``StandIn`` on memory: nothing in it ever waits, so it serves every loop and thread."""

    def __init__(self, storage: Storage, book: Book) -> None:
        self.applied: list[str] = []
        self.ready: Ready | None = None
        """Declares the consumers that were registered since the last call."""
        self._storage = storage
        self._publisher = Stores(storage, book)

    @property
    def storage(self) -> Storage:
        """See ``Inside.storage``."""
        self.prepare()
        return self._storage

    @property
    def publisher(self) -> Stores:
        """See ``Inside.publisher``."""
        self.prepare()
        return self._publisher

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """See ``StandIn.wait_for``."""
        return at_once(work)

    def prepare(self) -> None:
        """Do what ``ready`` does, if there is one."""
        if self.ready is not None:
            at_once(self.ready)


class Beside:
    """``Joins`` on memory: what the code under test would store in its transaction is stored at once, beside it."""

    def __init__(self, stand_in: InMemory, rooms: Rooms, gateway: Gateway, book: Book) -> None:
        self.rooms: Rooms = rooms
        """See ``Joins.rooms``. Its timetable notes nothing: ``stored`` does."""
        self._stand_in = stand_in
        self._gateway = gateway
        self._book = book

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """See ``Joins.stored``."""
        self._book.note_sent(drafts, published)

    async def run(self, _handle: object, script: Script[T], _call: str = "publish") -> T:
        """See ``Joins.run``."""
        self._stand_in.prepare()
        return await self._gateway.run(script, "write")
