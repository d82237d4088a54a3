"""What happened in a test: every publish and every attempt, with payloads as objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import UUID

from mainspring.app.batcher import receipts
from mainspring.app.consume.consumer import Registration
from mainspring.app.message.catalogue import Catalogue
from mainspring.model.errors import Unreadable
from mainspring.model.join import Join
from mainspring.model.message import Delivery, Draft, Priority, Published, PublishStatus, Receipt, UniqueKey, public
from mainspring.model.schedule import NEVER, Decide, Due, Note, Occurrence, ScheduleAdvance, ScheduleTick
from mainspring.model.search import Filter, SearchState
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.model.views import DeliveryView
from mainspring.storage.codec import Decode
from mainspring.storage.contract import Storage, Timetable
from mainspring.timing.clock import Clock
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.testing.relays import Relayed
    from mainspring.testing.transaction import Own

Outcome = Literal["done", "failed", "dead", "snoozed", "cancelled"]
"""What became of an attempt; *failed* is retried, *dead* is not."""
_MOST = 300


@dataclass(frozen=True, slots=True, repr=False)
class Sent:
    """A message as it was published."""

    topic: str
    payload: Any
    """As the topic's own type where ``@app.message`` gave it one, else as JSON has it."""
    id: UUID
    status: PublishStatus
    group: str | None
    """The one group it was sent to; None for all subscribers."""
    key: str | None
    headers: Mapping[str, str]
    priority: Priority
    published_at: datetime
    due_at: datetime
    expires_at: datetime | None
    correlation_id: str | None
    causation_id: UUID | None
    schedule: str | None = None
    """The schedule whose occurrence it is."""

    @property
    def delay(self) -> timedelta:
        """Its delay when it was published."""
        return self.due_at - self.published_at

    def __repr__(self) -> str:
        """Show its topic, payload and due time."""
        to = f" to {self.group}" if self.group else ""
        later = f", due in {spell(self.delay)}" if self.delay else ""
        again = "" if self.status == "stored" else f", a {self.status}"
        return f"<published {self.topic}{to}: {shown(self.payload)}{later}{again}>"


@dataclass(frozen=True, slots=True, repr=False)
class Ran:
    """One attempt at one delivery."""

    group: str
    topic: str
    payload: Any
    """As the consumer's own type; bytes where they could not be read."""
    message_id: UUID
    attempt: int
    outcome: Outcome
    at: datetime
    took: timedelta
    error: str | None
    """Why it failed, died, was snoozed or cancelled."""
    exception: BaseException | None
    """What the handler raised, with its traceback."""
    output: str | None
    again_at: datetime | None
    """When it is due again, after a failure or a snooze."""
    key: str | None
    headers: Mapping[str, str]
    correlation_id: str | None
    causation_id: UUID | None
    schedule: str | None = None
    """The schedule whose occurrence it was."""
    progress: str | None = None
    """The handler's last ``ctx.progress``."""

    def __repr__(self) -> str:
        """Show its group, payload and outcome."""
        why = f": {self.error}" if self.error else ""
        again = f", again in {spell(self.again_at - self.at)}" if self.again_at else ""
        return f"<{self.outcome} {self.group}({shown(self.payload)}), attempt {self.attempt}{why}{again}>"


@dataclass(frozen=True, slots=True, repr=False)
class Pending:
    """A delivery that waits for its time."""

    group: str
    topic: str
    payload: Any
    message_id: UUID
    due_at: datetime
    due_in: timedelta
    attempt: int
    """How many attempts it has had."""
    key: str | None

    def __repr__(self) -> str:
        """Show its group, payload and due time."""
        when = f"due in {spell(self.due_in)}" if self.due_in > timedelta() else "due now"
        if self.due_at == NEVER:
            when = "waits for an earlier run of its schedule"
        tried = f", after attempt {self.attempt}" if self.attempt else ""
        return f"<pending {self.group}({shown(self.payload)}), {when}{tried}>"


@dataclass(frozen=True, slots=True, repr=False)
class DeadLetter:
    """A delivery that was given up."""

    group: str
    topic: str
    payload: Any
    message_id: UUID
    attempt: int
    """How many attempts it had."""
    buried_at: datetime
    error: str
    exception: BaseException | None
    """What the handler raised at last, with its traceback; None where it died before this test."""
    key: str | None

    def __repr__(self) -> str:
        """Show its group, payload and error."""
        return f"<dead {self.group}({shown(self.payload)}) after attempt {self.attempt}: {self.error}>"


def shown(payload: object) -> str:
    """Return the payload for a line of text."""
    text = repr(payload)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


ALL = 1_000_000_000
"""More than a test has: everything is listed."""


class Records:
    """Records what is published and what is run, and reads what is stored. Safe with threads."""

    def __init__(self, catalogue: Catalogue, clock: Clock, *, undoable: bool = False) -> None:
        self.undoable: bool = undoable
        """Whether a publish may be undone."""
        self.sent: list[Sent] = []
        self.runs: list[Ran] = []
        self.relayed: list[Relayed] = []
        self.pending: list[Pending] = []
        self.dead: list[DeadLetter] = []
        self.parked: list[DeliveryView] = []
        self._catalogue = catalogue
        self._clock = clock
        self._payloads: dict[UUID, tuple[bytes, str]] = {}
        """The stored payloads, and their content types."""
        self._readers: dict[Any, Decode] = {}
        self._kept: set[UUID] = set()

    def note_sent(self, drafts: Sequence[Draft], published: Published) -> None:
        """Record published drafts, and their status."""
        now = self._clock.now()
        for draft, status in zip(drafts, published.statuses(drafts), strict=True):
            self._payloads.setdefault(draft.id, (draft.payload, draft.content_type))
            self.sent.append(self._sent(draft, now, status))

    def note_run(
        self,
        consumer: Registration,
        delivery: Delivery,
        verdict: Verdict,
        took: timedelta,
        exception: BaseException | None,
        progress: str | None = None,
    ) -> Ran:
        """Record an attempt that has ended."""
        now = self._clock.now()
        error: str | None = None
        output: str | None = None
        again_at: datetime | None = None
        match verdict:
            case Done(output):
                outcome: Any = "done"
            case Retry(delay, failure):
                outcome, error, again_at = "failed", failure.error, now + delay
            case Bury(failure):
                outcome, error = "dead", failure.error
            case Snooze(timedelta() as delay, error):
                outcome, again_at = "snoozed", now + delay
            case Cancel(error):
                outcome = "cancelled"
            case Snooze() | Release():
                raise AssertionError(f"nothing in a test ends with {verdict!r}")
        ran = Ran(
            group=consumer.group,
            topic=delivery.topic,
            payload=self._as(consumer, delivery.payload, delivery.content_type),
            message_id=delivery.message_id,
            attempt=delivery.attempt,
            outcome=outcome,
            at=now,
            took=took,
            error=error,
            exception=exception,
            output=output,
            again_at=again_at,
            key=delivery.key,
            headers=public(delivery.headers),
            correlation_id=delivery.correlation_id,
            causation_id=delivery.causation_id,
            schedule=delivery.schedule,
            progress=progress,
        )
        self.runs.append(ran)
        return ran

    async def verify(self, storage: Storage) -> None:
        """Forget what was published in a savepoint that was rolled back since."""
        if not self.undoable:
            return
        stored = [each for each in self.sent if each.id in self._kept or await storage.ledger.find(each.id)]
        if len(stored) < len(self.sent):
            self.sent[:] = stored

    async def keep(self, storage: Storage) -> None:
        """Keep what is stored now, before it is pruned."""
        await self.verify(storage)
        self._kept.update(each.id for each in self.sent)

    async def read_stored(self, storage: Storage, consumers: Mapping[str, Registration], own: Own | None) -> None:
        """Read what waits and what is dead, all of it or what is the test's own."""

        async def stored(state: SearchState) -> Sequence[DeliveryView]:
            rows = (await storage.ledger.browse(Filter(state=state, limit=ALL, scan=ALL))).rows
            return rows if own is None else await own.of(rows)

        live, dead, parked = await stored("live"), await stored("dead"), await stored("parked")
        waiting = sorted(live, key=in_order)
        self.pending = [await self._pending(each, storage, consumers) for each in waiting]
        self.dead = [await self._dead(each, storage, consumers) for each in reversed(dead)]
        self.parked = list(reversed(parked))

    def _sent(self, draft: Draft, now: datetime, status: PublishStatus) -> Sent:
        due_at = max(now, draft.at or now + draft.delay)
        expires_at = draft.expires_at or (None if draft.expires_in is None else now + draft.expires_in)
        topic = draft.topic
        return Sent(
            topic=topic,
            payload=self._read(draft.payload, draft.content_type, self._catalogue.type_of(topic)),
            id=draft.id,
            status=status,
            group=draft.group,
            key=draft.key,
            headers=public(draft.headers),
            priority=draft.priority,
            published_at=now,
            due_at=due_at,
            expires_at=expires_at,
            correlation_id=draft.correlation_id,
            causation_id=draft.causation_id,
            schedule=draft.schedule,
        )

    async def _pending(self, view: DeliveryView, storage: Storage, consumers: Mapping[str, Registration]) -> Pending:
        return Pending(
            group=view.group,
            topic=view.topic,
            payload=await self._payload(view, storage, consumers),
            message_id=view.message_id,
            due_at=view.due_at,
            due_in=max(view.due_at - self._clock.now(), timedelta()),
            attempt=view.attempt,
            key=view.key,
        )

    async def _dead(self, view: DeliveryView, storage: Storage, consumers: Mapping[str, Registration]) -> DeadLetter:
        group = view.group
        exception = next(
            (
                ran.exception
                for ran in reversed(self.runs)
                if (ran.message_id, ran.group, ran.outcome) == (view.message_id, group, "dead")
            ),
            None,
        )
        return DeadLetter(
            group=group,
            topic=view.topic,
            payload=await self._payload(view, storage, consumers),
            message_id=view.message_id,
            attempt=view.attempt,
            buried_at=view.buried_at or self._clock.now(),
            error=view.error or "",
            exception=exception,
            key=view.key,
        )

    async def _payload(self, view: DeliveryView, storage: Storage, consumers: Mapping[str, Registration]) -> Any:
        stored = self._payloads.get(view.message_id)
        if stored is None:
            found = await storage.ledger.find(view.message_id)
            if found is None:
                return None
            stored = self._payloads[view.message_id] = found.payload, found.content_type
        consumer = consumers.get(view.group)
        if consumer is None:
            return self._read(*stored, self._catalogue.type_of(view.topic))
        return self._as(consumer, *stored)

    def _as(self, consumer: Registration, payload: bytes, content_type: str) -> Any:
        if consumer.decode is not None:
            with suppress(Unreadable):
                return consumer.decode(payload, content_type)
        return self._read(payload, content_type, None)

    def _read(self, payload: bytes, content_type: str, kind: Any) -> Any:
        for annotation in (kind, Any):
            if annotation is not None:
                if annotation not in self._readers:
                    self._readers[annotation] = self._catalogue.decoder(annotation)
                with suppress(Unreadable):
                    return self._readers[annotation](payload, content_type)
        return payload


def in_order(view: DeliveryView) -> tuple[datetime, int, int]:
    """Return the order in which deliveries run: by due time, then priority, then as they were published."""
    return view.due_at, view.priority, view.seq


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
        if receipt.id == draft.id:  # else another was found
            self._records.note_sent([draft], Published(frozenset((draft.id,))))
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
