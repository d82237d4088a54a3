"""What happened in a test: every publish and every attempt, with payloads as objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from mainspring.app.consume.registration import Registration
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.storages import OperationSet
from mainspring.model.errors import Unreadable
from mainspring.model.message import Delivery, Draft, Priority, Published, PublishStatus, Receipt, public
from mainspring.model.schedule import NEVER
from mainspring.model.search import Filter, SearchState
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.model.views import DeliveryView
from mainspring.storage.codec import Decode
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock
from mainspring.timing.duration import spell

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


class Own:
    """Separates what the test's transaction has published from what others have committed, before it or during it."""

    def __init__(self, operations: OperationSet) -> None:
        self._ledger = operations.ledger
        self._earlier: object = None

    async def begin(self) -> None:
        """Note what is there already, where the database does not know it later."""
        self._earlier = await self._ledger.earlier()

    async def of(self, views: Sequence[DeliveryView]) -> list[DeliveryView]:
        """Return those of messages that were published in the test's transaction."""
        if not views:
            return []
        ids = sorted({view.message_id for view in views})
        ours = await self._ledger.own(ids, self._earlier)
        return [view for view in views if view.message_id in ours]


ALL = 1_000_000_000
"""More than a test has: everything is listed."""


@dataclass(frozen=True, slots=True)
class Known:
    """The stored side of a message, as bytes."""

    payload: bytes
    content_type: str


class Records:
    """Records what is published and what is run, and reads what is stored. Safe with threads."""

    def __init__(self, catalogue: Catalogue, clock: Clock, *, undoable: bool = False) -> None:
        self.undoable: bool = undoable
        """Whether a publish may be undone."""
        self.sent: list[Sent] = []
        self.runs: list[Ran] = []
        self.pending: list[Pending] = []
        self.dead: list[DeadLetter] = []
        self.parked: list[DeliveryView] = []
        self._catalogue = catalogue
        self._clock = clock
        self._known: dict[UUID, Known] = {}
        self._readers: dict[Any, Decode] = {}
        self._kept: set[UUID] = set()

    def note_sent(self, drafts: Sequence[Draft], published: Published) -> None:
        """Record published drafts, and their status."""
        now = self._clock.now()
        for draft, status in zip(drafts, published.statuses(drafts), strict=True):
            self._known.setdefault(draft.id, Known(draft.payload, draft.content_type))
            self.sent.append(self._sent(draft, now, status))

    def note_unique(self, draft: Draft, receipt: Receipt) -> None:
        """Record a draft that was published as unique, if it was stored."""
        if receipt.id == draft.id:
            self.note_sent([draft], Published(frozenset((draft.id,))))

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
        there = [each for each in self.sent if each.id in self._kept or await storage.ledger.find(each.id)]
        if len(there) < len(self.sent):
            self.sent[:] = there

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
        known = self._known.get(view.message_id)
        if known is None:
            found = await storage.ledger.find(view.message_id)
            if found is None:
                return None
            known = self._known[view.message_id] = Known(found.payload, found.content_type)
        consumer = consumers.get(view.group)
        if consumer is None:
            return self._read(known.payload, known.content_type, self._catalogue.type_of(view.topic))
        return self._as(consumer, known.payload, known.content_type)

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
