"""What the contract tests do over and over: draft, declare, publish, claim, settle, turn the clock."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack
from uuid import UUID, uuid4

from mainspring.model.message import (
    ALL_LEVELS,
    Claim,
    ClaimRequest,
    Delivery,
    Draft,
    Keep,
    Priority,
    Scan,
    Settled,
)
from mainspring.model.search import Filter, SearchState
from mainspring.model.verdict import Bury, Failure, FailureKind, Settlement, Verdict
from mainspring.model.views import Counts, Declaration, DeliveryView, MessageView
from mainspring.storage.contract import Storage

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
"""When every contract test begins."""

NOW = timedelta()
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
"""The smallest step a storage's clock can make."""

HOLD = 30 * SECOND
WORKER = "worker-1"
"""Who claims, unless it is said."""
TOPIC = "orders.placed"


class DraftOptions(TypedDict, total=False):
    id: UUID
    payload: bytes
    content_type: str
    headers: Mapping[str, str] | None
    key: str | None
    group: str | None
    priority: Priority
    delay: timedelta
    at: datetime | None
    expires_in: timedelta | None
    expires_at: datetime | None
    correlation_id: str | None
    causation_id: UUID | None
    schedule: str | None
    manual: bool


def draft(topic: str = TOPIC, **options: Unpack[DraftOptions]) -> Draft:
    """A draft with an id of its own."""
    given: DraftOptions = {"id": uuid4(), "payload": b"{}", **options}
    return Draft(topic=topic, **given)


def failure(error: str = "boom", kind: FailureKind = "error", traceback: str | None = None) -> Failure:
    return Failure(kind, error, traceback)


def turn(storage: Storage, after: timedelta) -> None:
    """Set the clock to this long after noon."""
    storage.now = NOON + after


async def declare(storage: Storage, group: str, *patterns: str, app: str = "shop") -> None:
    await storage.upkeep.declare([Declaration(group, app, patterns or (TOPIC,), "shop:handler")])


async def publish(storage: Storage, *drafts: Draft) -> frozenset[UUID]:
    return (await storage.mailbox.publish(drafts)).stored


async def claim(
    storage: Storage,
    group: str = "mailer",
    limit: int = 100,
    scans: tuple[Scan, ...] = ALL_LEVELS,
    owner: str = WORKER,
) -> list[Delivery]:
    return await storage.mailbox.claim([ClaimRequest(group, limit, scans)], owner, HOLD)


async def claim_one(storage: Storage, group: str = "mailer", owner: str = WORKER) -> Delivery:
    (delivery,) = await claim(storage, group, 1, owner=owner)
    return delivery


async def hold_one(storage: Storage, group: str = "mailer", one: Draft | None = None) -> Delivery:
    """Publish one message straight to a group and claim it."""
    await publish(storage, one or draft(group=group))
    return await claim_one(storage, group)


async def reap(
    storage: Storage,
    *groups: str,
    owner: str = WORKER,
    hold: timedelta = HOLD,
    accused: bool = True,
    aside: Collection[Claim] = (),
) -> Delivery | None:
    return await storage.mailbox.reap(groups or ("mailer",), owner, hold, accused=accused, aside=aside)


async def settle(
    storage: Storage,
    which: Delivery | Claim,
    verdict: Verdict,
    keep: Keep = "failures",
    took: timedelta = NOW,
    owner: str = WORKER,
) -> Settled:
    claimed = which.claim if isinstance(which, Delivery) else which
    return await storage.mailbox.settle([Settlement(claimed, verdict, keep, took)], owner)


async def bury_one(storage: Storage, group: str = "mailer", error: str = "boom", one: Draft | None = None) -> Delivery:
    """Publish one message straight to a group, claim it and bury it."""
    delivery = await hold_one(storage, group, one)
    await settle(storage, delivery, Bury(failure(error)))
    return delivery


async def found(storage: Storage, message_id: UUID) -> MessageView:
    message = await storage.ledger.find(message_id)
    assert message is not None
    return message


async def the_copy(storage: Storage, message_id: UUID, group: str = "mailer") -> DeliveryView:
    """The one delivery of a message to a group, as the ledger shows it."""
    (view,) = [each for each in (await found(storage, message_id)).deliveries if each.group == group]
    return view


async def statuses(storage: Storage, message_id: UUID) -> list[str]:
    """How the kept runs of a message ended, oldest first."""
    return [run.status for run in (await found(storage, message_id)).runs]


async def listed(storage: Storage, state: SearchState, **narrowed: Any) -> list[UUID]:
    """The messages in a state, newest first."""
    return [view.message_id for view in (await storage.ledger.browse(Filter(state=state, **narrowed))).rows]


async def counts(storage: Storage, group: str = "mailer") -> Counts:
    for each in (await storage.ledger.tally()).groups:
        if each.group == group:
            return each
    return Counts(group)


def ids(deliveries: Sequence[Delivery]) -> list[UUID]:
    return [delivery.message_id for delivery in deliveries]


@asynccontextmanager
async def siblings(storage: Storage, number: int) -> AsyncIterator[list[Storage]]:
    """So many open doors to the same database, their clocks set alike."""
    async with AsyncExitStack() as stack:
        doors = []
        for _ in range(number):
            door = storage.sibling()
            await door.open()
            stack.push_async_callback(door.close)
            door.now = storage.now
            doors.append(door)
        yield doors
