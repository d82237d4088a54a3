"""What the tests of the app's parts share: deliveries, runs, and a storage that fails when told to."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from mainspring.app.blocking import Background, Work, at_once
from mainspring.app.message.envelope import JoinOptions, PublishOptions
from mainspring.model.join import JoinReceipt
from mainspring.model.message import Delivery, Draft, Published, Receipt
from mainspring.runtime.handler import Handler, Run
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.clock import HandClock

T = TypeVar("T")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MESSAGE = UUID("01890000-0000-7000-8000-000000000001")
CAUSE = UUID("01890000-0000-7000-8000-000000000002")


def delivery(payload: bytes = b"{}", **changes: Any) -> Delivery:
    """A delivery as a claim returns it."""
    return Delivery(
        id=1,
        epoch=3,
        message_id=MESSAGE,
        group="receipts",
        topic="orders.placed",
        payload=payload,
        content_type="application/json",
        headers=None,
        key=None,
        correlation_id=None,
        causation_id=None,
        priority=2,
        attempt=1,
        deaths=0,
        due_at=NOON,
        scheduled_for=NOON,
        published_at=NOON,
        expired=False,
        cancel_asked=False,
        suspect=False,
        claimed_at=NOON,
    )._replace(**changes)


def running(held: Delivery) -> Run:
    """A run of it that nobody has asked to stop."""
    return Run(held, Handler(held.group, lambda _delivery, _run: None, NO_RETRY), held_until=30.0)


class Desk:
    """Stands in for an app: remembers what handlers and consumers publish."""

    def __init__(self) -> None:
        self.clock = HandClock(NOON)
        self.forwarded: list[tuple[object, object, PublishOptions, UUID]] = []
        self.sent: list[tuple[str, object, PublishOptions]] = []
        self.joined: list[tuple[object, JoinOptions, UUID | None]] = []
        self.blocking = (self, OnTheSpot())

    async def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        self.forwarded.append((message, payload, options, causation_id))
        return Receipt(MESSAGE, "stored")

    async def fan_in(self, members: Any, options: JoinOptions, causation_id: UUID | None = None) -> JoinReceipt:
        self.joined.append((members, options, causation_id))
        return JoinReceipt(MESSAGE, ())

    async def send(self, consumer: Any, payload: object, options: PublishOptions) -> Receipt:
        self.sent.append((consumer.group, payload, options))
        return Receipt(MESSAGE, "stored")


class OnTheSpot(Background):
    """Stands in for the background loop: what never waits is driven where it is asked for."""

    def __init__(self) -> None: ...

    def run(self, work: Work[T], call: str, instead: str) -> T:
        return at_once(work)


class Moody(MemoryStorage):
    """Memory storage whose mailbox raises what it is told to, before or after it has stored."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Draft]] = []
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.poison: dict[str, Exception] = {}
        self._publish = self.mailbox.publish
        self.mailbox.publish = self._moody  # type: ignore[method-assign]

    async def _moody(self, drafts: Sequence[Draft]) -> Published:
        self.batches.append(list(drafts))
        if self.before:
            raise self.before.pop(0)
        for draft in drafts:
            if draft.topic in self.poison:
                raise self.poison[draft.topic]
        published = await self._publish(drafts)
        if self.after:
            raise self.after.pop(0)
        return published


class Patience:
    """A sleep that turns the clock instead."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.naps: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.naps.append(seconds)
        self._clock.advance(timedelta(seconds=seconds))
