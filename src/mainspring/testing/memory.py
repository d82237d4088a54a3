"""The storage of a test in memory, and what records the messages published to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from mainspring.app.batcher import receipts
from mainspring.app.blocking import at_once
from mainspring.app.storages import OperationSet
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt, UniqueKey
from mainspring.model.schedule import Decide, Due, Note, Occurrence, ScheduleAdvance, ScheduleTick
from mainspring.storage.contract import Storage, Timetable
from mainspring.storage.operation import Gateway
from mainspring.storage.script import Script
from mainspring.testing.records import Records

T = TypeVar("T")
Ready = Callable[[], Awaitable[None]]


class Stores:
    """Stores drafts at once, and records them. Waits for nothing but the storage."""

    def __init__(self, storage: Storage, records: Records) -> None:
        self._storage = storage
        self._records = records

    async def publish(self, draft: Draft, *, fresh: bool) -> Receipt:  # noqa: ARG002 - nothing is ever sent twice here
        """See ``Publishes.publish``."""
        return (await self.publish_many([draft]))[0]

    async def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Receipt:
        """See ``Publishes.publish_unique``."""
        receipt = await self._storage.mailbox.publish_unique(draft, likeness)
        self._records.note_unique(draft, receipt)
        return receipt

    async def publish_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """See ``Publishes.publish_many``."""
        published = await self._storage.mailbox.publish(drafts)
        self._records.note_sent(drafts, published)
        return receipts(drafts, published)

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """See ``Publishes.join``."""
        published = await self._storage.mailbox.join(join, members)
        self._records.note_sent(members, published)
        return published


class InMemory:
    """``StandIn`` on memory: nothing in it ever waits, so it serves every loop and thread."""

    def __init__(self, storage: Storage, records: Records) -> None:
        self.applied: list[str] = []
        self.ready: Ready | None = None
        """Declares the consumers that were registered since the last call."""
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


def recorded(timetable: Timetable, records: Records) -> Timetable:
    """Return the timetable, with every occurrence that it publishes recorded."""
    return cast("Timetable", _RecordedTimetable(timetable, records))


class _RecordedTimetable:
    def __init__(self, timetable: Timetable, records: Records) -> None:
        self._timetable = timetable
        self._records = records

    async def tick(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> ScheduleTick:
        """See ``Timetable.tick``."""
        drafts: list[Draft] = []

        def listed(due: Due, now: datetime) -> ScheduleAdvance | None:
            move = decide(due, now)
            if move is not None:
                drafts.extend(each.draft for each in move.occurrences)
            return move

        tick = await self._timetable.tick(app, listed, limit, leave)
        # There is no other process to be faster: what was decided was stored, unless its id is another message's.
        drafts += tick.continuations
        known = {each.draft.id: each.topic for each in tick.conflicts}
        conflicts = {place: known[each.id] for place, each in enumerate(drafts) if each.id in known}
        self._records.note_sent(drafts, Published(frozenset(each.id for each in drafts).difference(known), conflicts))
        return tick

    async def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Published:
        """See ``Timetable.enter``."""
        published = await self._timetable.enter(occurrences, note)
        self._records.note_sent([each.draft for each in occurrences], published)
        return published

    def __getattr__(self, name: str) -> Any:
        """Nothing else publishes."""
        return getattr(self._timetable, name)
