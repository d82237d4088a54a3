"""What stands in for the database during a test on memory: the storage, and what publishes to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from mainspring.app.background import at_once
from mainspring.app.receipts import receipts
from mainspring.app.testing.book import Book
from mainspring.model.inbox import Admission, Entering, Fate, InboxKey
from mainspring.model.join import Join
from mainspring.model.message import Cancelled, Draft, Published, Receipt, Settled
from mainspring.model.schedule import Note, Occurrence, Rewrite, Schedule, Timesheet
from mainspring.model.unique import Likeness
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Keyed, Storage
from mainspring.storage.script import Script
from mainspring.storage.sql import Now

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

    async def publish_unique(self, draft: Draft, likeness: Likeness) -> Receipt:
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

    def __init__(self, stand_in: InMemory, book: Book) -> None:
        self._stand_in = stand_in
        self._book = book

    def scripts(self) -> Beside:
        """See ``Joins.scripts``."""
        return self

    def publish(self, drafts: Sequence[Draft], _now: Now) -> Script[Published]:
        """See ``Posting.publish``."""
        published = at_once(lambda: self._stand_in.storage.mailbox.publish(drafts))
        self._book.note_sent(drafts, published)
        return published
        yield  # type: ignore[unreachable]  # a script that has nothing to say

    def publish_unique(self, draft: Draft, likeness: Likeness, _now: Now) -> Script[Receipt]:
        """See ``Posting.publish_unique``."""
        return at_once(lambda: self._stand_in.publisher.publish_unique(draft, likeness))
        yield  # type: ignore[unreachable]

    def join(self, join: Join, members: Sequence[Draft], _now: Now) -> Script[Published]:
        """See ``Posting.join``."""
        return at_once(lambda: self._stand_in.publisher.join(join, members))
        yield  # type: ignore[unreachable]

    def pending(self, limits: Mapping[str, int], _now: Now) -> Script[Mapping[str, int]]:
        """See ``Posting.pending``."""
        return at_once(lambda: self._stand_in.storage.ledger.pending(limits))
        yield  # type: ignore[unreachable]

    def cancel(self, which: UUID | Keyed, reason: str, _now: Now) -> Script[Cancelled]:
        """See ``Posting.cancel``."""
        return at_once(lambda: self._stand_in.storage.mailbox.cancel(which, reason))
        yield  # type: ignore[unreachable]

    def settle(self, settlements: Sequence[Settlement], owner: str, _now: Now) -> Script[Settled]:
        """See ``Posting.settle``."""
        return at_once(lambda: self._stand_in.storage.mailbox.settle(settlements, owner))
        yield  # type: ignore[unreachable]

    def timetable(self) -> Beside:
        """See ``Joins.timetable``."""
        return self

    def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None, _now: Now
    ) -> Script[list[Schedule | None]]:
        """See ``Planning.rewrite``."""
        return at_once(lambda: self._stand_in.storage.timetable.rewrite(names, how, note))
        yield  # type: ignore[unreachable]

    def enter(self, occurrences: Sequence[Occurrence], note: Note, _now: Now) -> Script[Published]:
        """See ``Planning.enter``."""
        return at_once(lambda: self._stand_in.storage.timetable.enter(occurrences, note))
        yield  # type: ignore[unreachable]

    def read(self, names: Collection[str] | None, app: str | None, _now: Now) -> Script[Timesheet]:
        """See ``Planning.read``."""
        return at_once(lambda: self._stand_in.storage.timetable.read(names, app))
        yield  # type: ignore[unreachable]

    def inbox(self) -> Beside:
        """See ``Joins.inbox``."""
        return self

    def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None, _now: Now
    ) -> Script[Admission]:
        """See ``Admitting.admit``."""
        inbox = self._stand_in.storage.inbox
        return at_once(lambda: inbox.admit(key, hash, status, retry_after))
        yield  # type: ignore[unreachable]

    def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None, _now: Now
    ) -> Script[bool]:
        """See ``Admitting.mark``."""
        return at_once(lambda: self._stand_in.storage.inbox.mark(key, attempt, fate, error, admitted_at))
        yield  # type: ignore[unreachable]

    def leases(self) -> Beside:
        """See ``Joins.leases``."""
        return self

    def confirm(self, name: str, epoch: int, holder: str, _now: Now) -> Script[bool]:
        """See ``Confirming.confirm``."""
        return at_once(lambda: self._stand_in.storage.leases.confirm(name, epoch, holder))
        yield  # type: ignore[unreachable]

    async def run(self, _handle: object, script: Script[T], _call: str = "publish") -> T:
        """See ``Joins.run``."""
        return _answer(script)


def _answer(script: Script[T]) -> T:
    try:
        statement = next(script)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise AssertionError(f"a script on memory asked for {statement!r}")
