"""What happened in a test: every publish and every attempt, with payloads as objects."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.app.catalogue import Catalogue
from mainspring.app.registration import Registration
from mainspring.app.testing.own import Own
from mainspring.app.testing.values import DeadLetter, Pending, Ran, Sent
from mainspring.model.browsing import Filter, Sought
from mainspring.model.errors import Unreadable
from mainspring.model.headers import public
from mainspring.model.message import Delivery, Draft, Published, PublishStatus, Receipt
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.model.views import DeliveryView
from mainspring.storage.codec import Decode
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

ALL = 1_000_000_000
"""More than a test has: everything is listed."""


@dataclass(frozen=True, slots=True)
class Known:
    """The stored side of a message, as bytes."""

    payload: bytes
    content_type: str


class Book:
    """Notes what is published and what is run, and reads what is stored. Safe with threads."""

    def __init__(self, catalogue: Catalogue, clock: Clock, *, undoable: bool = False) -> None:
        self.undoable: bool = undoable
        """Whether who published something may undo it."""
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
        """Drafts were published, and this became of them."""
        now = self._clock.now()
        for draft, status in zip(drafts, published.statuses(drafts), strict=True):
            self._known.setdefault(draft.id, Known(draft.payload, draft.content_type))
            self.sent.append(self._sent(draft, now, status))

    def note_unique(self, draft: Draft, receipt: Receipt) -> None:
        """A draft was published that was to be one of its kind: what was not stored is not there."""
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
        """An attempt has ended."""
        ran = self._ran(consumer, delivery, verdict, took, exception, progress)
        self.runs.append(ran)
        return ran

    async def verify(self, storage: Storage) -> None:
        """Forget what was published in a savepoint that has been gone back to since."""
        if not self.undoable:
            return
        there = [each for each in self.sent if each.id in self._kept or await storage.ledger.find(each.id)]
        if len(there) < len(self.sent):
            self.sent[:] = there

    async def keep(self, storage: Storage) -> None:
        """Before anything is pruned: what is there now was published, whatever becomes of it."""
        await self.verify(storage)
        self._kept.update(each.id for each in self.sent)

    async def look(self, storage: Storage, consumers: dict[str, Registration], own: Own | None) -> None:
        """Read what waits and what is dead, all of it or what is the test's own."""

        async def stored(state: Sought) -> Sequence[DeliveryView]:
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

    def _ran(
        self,
        consumer: Registration,
        delivery: Delivery,
        verdict: Verdict,
        took: timedelta,
        exception: BaseException | None,
        progress: str | None = None,
    ) -> Ran:
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
        return Ran(
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
            schedule=self._schedule(delivery),
            progress=progress,
        )

    def _schedule(self, delivery: Delivery) -> str | None:
        return delivery.schedule

    async def _pending(self, view: DeliveryView, storage: Storage, consumers: dict[str, Registration]) -> Pending:
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

    async def _dead(self, view: DeliveryView, storage: Storage, consumers: dict[str, Registration]) -> DeadLetter:
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

    async def _payload(self, view: DeliveryView, storage: Storage, consumers: dict[str, Registration]) -> Any:
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
    """The order in which deliveries run: by due time, the urgent before the rest, then as they were published."""
    return view.due_at, view.priority, view.seq
