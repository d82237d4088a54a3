"""What stands in for the database during a test on memory: the storage, and what publishes to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from mainspring.app.background import at_once
from mainspring.app.receipts import receipts
from mainspring.app.storages import Rooms
from mainspring.app.testing.book import Book
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt, Settled
from mainspring.model.unique import UniqueKey
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Storage, Timetable
from mainspring.storage.operation import Nowhere, Operation, bound
from mainspring.storage.script import Row, Script, Statement, run

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
        """Makes known whoever was registered meanwhile."""
        self._storage = storage
        self._publisher = Stores(storage, book)

    @property
    def storage(self) -> Storage:
        """See ``Inside.storage``."""
        self._prepare()
        return self._storage

    @property
    def publisher(self) -> Stores:
        """See ``Inside.publisher``."""
        self._prepare()
        return self._publisher

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """See ``StandIn.wait_for``."""
        return at_once(work)

    def _prepare(self) -> None:
        if self.ready is not None:
            at_once(self.ready)


class Beside:
    """``Joins`` on memory: whatever the transaction is, what it would store is stored at once, beside it."""

    def __init__(self, stand_in: InMemory, timetable: Timetable, book: Book) -> None:
        self._stand_in = stand_in
        self._timetable = timetable
        self._book = book

    @property
    def rooms(self) -> Rooms:
        """See ``Joins.rooms``. Its timetable notes nothing: ``stored`` does."""
        return cast("Rooms", _MemoryRooms(self._stand_in.storage, self._timetable))

    def stored(self, drafts: Sequence[Draft], published: Published) -> None:
        """See ``Joins.stored``."""
        self._book.note_sent(drafts, published)

    async def run(self, _handle: object, script: Script[T], _call: str = "publish") -> T:
        """See ``Joins.run``."""
        return run(_Nothing(), script)


class _MemoryRooms:
    """The rooms of memory, each operation of which has its script: one that is done at once, without a statement."""

    def __init__(self, storage: Storage, timetable: Timetable) -> None:
        self.mailbox = _Scripted(_Mailbox(storage))
        self.timetable = _Scripted(timetable)
        self.inbox = _Scripted(storage.inbox)
        self.leases = _Scripted(storage.leases)


class _Scripted:
    def __init__(self, room: object) -> None:
        self._room = room

    def __getattr__(self, name: str) -> Operation[..., Any]:
        return bound(partial(_at_once, getattr(self._room, name)), Nowhere(), "write")


class _Mailbox:
    """``Mailbox`` of memory, with what that of a SQL database can do besides in a transaction."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage.mailbox, name)

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        return await self._storage.ledger.pending(limits)

    async def settle(self, settlements: Sequence[Settlement], owner: str, *, waits: bool) -> Settled:  # noqa: ARG002 - no row is ever locked
        return await self._storage.mailbox.settle(settlements, owner)


def _at_once(operation: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Script[Any]:
    return at_once(lambda: operation(*args, **kwargs))
    yield  # type: ignore[unreachable]  # a script that asks for nothing


class _Nothing:
    def execute(self, statement: Statement) -> Sequence[Row]:
        raise AssertionError(f"a script on memory asked for {statement!r}")
