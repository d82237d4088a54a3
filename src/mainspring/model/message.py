"""Messages and deliveries, from the unstored draft to the copy that a worker holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import UUID

from mainspring.vocabulary import method_advice

Keep = Literal["all", "failures", "none"]
"""How much history is kept: every run, only failed ones, or nothing once it succeeded."""

PublishStatus = Literal["stored", "duplicate", "conflict"]
"""The result for a draft: stored, known already, or its id is known as another message."""


class Priority(IntEnum):
    """The four levels. A lower number is claimed first; no level ever starves."""

    URGENT = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


@dataclass(slots=True)
class Draft:
    """A message that is not stored yet.

    ``delay`` counts from the database's own now; ``at`` is an instant and takes precedence. ``group`` names the only
    group that receives it; otherwise the subscriptions to its topic decide. Nothing changes a draft. It is not frozen,
    because one is built for every message, and a frozen dataclass costs five times as much to build.
    """

    id: UUID
    topic: str
    payload: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] | None = None
    key: str | None = None
    group: str | None = None
    priority: Priority = Priority.NORMAL
    delay: timedelta = timedelta()
    at: datetime | None = None
    expires_in: timedelta | None = None
    expires_at: datetime | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    schedule: str | None = None
    """The schedule whose occurrence it is."""
    manual: bool = False
    """Whether it was requested outside of the schedule's rhythm."""
    join_id: UUID | None = None
    """The join of which it is a member."""


class Claim(NamedTuple):
    """The right to settle one delivery, for its holder. ``epoch`` grows with every claim.

    After a failover or a restore the database repeats ids and epochs, for other messages: so it names its message too,
    and every write under it names the holder (invariant 2).
    """

    id: int
    epoch: int
    message_id: UUID


class Progress(NamedTuple):
    """The progress that a handler last reported."""

    claim: Claim
    text: str


class Delivery(NamedTuple):
    """One group's copy of a message, held until its claim lapses.

    A named tuple, because one is built for every message on the hot path and a frozen dataclass costs eight
    times as much to build.
    """

    id: int
    epoch: int
    message_id: UUID
    group: str
    topic: str
    payload: bytes
    content_type: str
    headers: Mapping[str, str] | None
    key: str | None
    correlation_id: str | None
    causation_id: UUID | None
    priority: int
    attempt: int
    deaths: int
    due_at: datetime
    """When it was due before this claim moved that: for lateness, and the low-water mark."""
    scheduled_for: datetime
    published_at: datetime
    expired: bool
    cancel_asked: bool
    suspect: bool
    claimed_at: datetime
    """The database's own now at this claim: budgets are counted by it, never by a worker's wall clock."""
    schedule: str | None = None
    """The schedule whose occurrence it is, by its row: headers about a schedule count only with this."""

    @property
    def claim(self) -> Claim:
        """The claim under which this delivery is held."""
        return Claim(self.id, self.epoch, self.message_id)


class Held(NamedTuple):
    """A delivery under its claim, as it is stored now."""

    delivery: Delivery
    """Its ``due_at`` is when the claim lapses."""
    owner: str
    now: datetime
    """The database's own now."""


Source = Literal["message", "delayed", "schedule", "manual", "replay"]
"""What has led to a run: a message, one for later, an occurrence, a request by hand, or a revived dead letter."""

REPLAYED = 1 << 20
"""The least epoch of a delivery that was revived, or replaces a dead letter: a revival opens a new range of epochs."""
MANUAL_HEADER = "mainspring-manual"
"""On an occurrence that was requested outside of the schedule's rhythm."""


def source_of(delivery: Delivery) -> Source:
    """Return what has led to this delivery."""
    if delivery.epoch > REPLAYED:
        return "replay"
    if delivery.schedule is not None:
        return "manual" if MANUAL_HEADER in (delivery.headers or {}) else "schedule"
    return "delayed" if delivery.scheduled_for > delivery.published_at else "message"


def unstored(draft: Draft, group: str, due: datetime, now: datetime, *, id: int = 0) -> Delivery:
    """Return a draft as the first attempt of a delivery that is in no database, to be run here."""
    return Delivery(
        id,
        1,
        draft.id,
        group,
        draft.topic,
        draft.payload,
        draft.content_type,
        draft.headers,
        draft.key,
        draft.correlation_id,
        draft.causation_id,
        int(draft.priority),
        attempt=1,
        deaths=0,
        due_at=due,
        scheduled_for=due,
        published_at=now,
        expired=False,
        cancel_asked=False,
        suspect=False,
        claimed_at=now,
        schedule=draft.schedule,
    )


class Scan(NamedTuple):
    """One level to scan, from ``since`` on (None for the beginning)."""

    priority: int
    since: datetime | None


class ClaimRequest(NamedTuple):
    """The number of deliveries of a group to claim, and the levels to scan, in that order."""

    group: str
    limit: int
    scans: tuple[Scan, ...]


ALL_LEVELS: tuple[Scan, ...] = tuple(Scan(level, None) for level in Priority)
"""Every level from its beginning, most urgent first: a full scan."""


@dataclass(frozen=True, slots=True)
class Published:
    """The result for a batch of drafts: the ids stored now. The others were known already."""

    stored: frozenset[UUID]
    conflicts: Mapping[int, str] = field(default_factory=dict)
    """By place in the batch, for drafts whose ids are known as other messages: the topics of these."""

    def conflicting(self, drafts: Sequence[Draft]) -> tuple[Conflict, ...]:
        """Return the drafts of the batch whose ids are those of other messages."""
        return tuple(Conflict(drafts[place], topic) for place, topic in sorted(self.conflicts.items()))

    def statuses(self, drafts: Sequence[Draft]) -> list[PublishStatus]:
        """Return the status of each draft of the batch."""
        found: list[PublishStatus] = ["stored"] * len(drafts)
        for place, _ in repeated(drafts, self.stored):
            found[place] = "conflict" if place in self.conflicts else "duplicate"
        return found


@dataclass(frozen=True, slots=True)
class Conflict:
    """A draft that was not stored, since its id is known as another message."""

    draft: Draft
    topic: str
    """The other message's topic."""

    def __str__(self) -> str:
        """Format it for people."""
        other = " with another payload" if self.topic == self.draft.topic else ""
        return (
            f"message {self.draft.id} on {self.draft.topic} is not stored: its id is known as a message on "
            f"{self.topic}{other}"
        )


def repeated(drafts: Sequence[Draft], stored: Collection[UUID]) -> list[tuple[int, Draft]]:
    """Return the drafts whose ids are known already, if only from an earlier one of the batch; each with its place."""
    if len(stored) == len(drafts):
        return []
    first, found = set(stored), []
    for place, draft in enumerate(drafts):
        if draft.id in first:
            first.remove(draft.id)
        else:
            found.append((place, draft))
    return found


@dataclass(frozen=True, slots=True)
class Extended:
    """The result of a heartbeat. All other claims were extended."""

    lost: frozenset[Claim] = frozenset()
    """Held by another holder, or ended: stop."""
    busy: frozenset[Claim] = frozenset()
    """Their rows are locked just now: retry, nothing is known."""
    asked: frozenset[Claim] = frozenset()
    """Extended, but their cancellation was requested."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a batch of verdicts. All other claims were written."""

    lost: frozenset[Claim] = frozenset()
    """Claimed by another holder since: nothing was written."""
    gone: frozenset[Claim] = frozenset()
    """Nothing left to settle: an earlier copy of this same settle was written."""
    busy: frozenset[Claim] = frozenset()
    """Their rows are locked just now: nothing was written, settle them again."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The result of a cancel: how many will never start, and how many running ones were asked to stop."""

    cancelled: int
    asked: int


@dataclass(frozen=True, slots=True)
class ReleasedClaims:
    """The result of releasing the lapsed claims of a group."""

    released: int = 0
    """Released: they are due now, for any holder."""
    left: int = 0
    """Left for a reap to take over: suspects, those that lapsed twice in a row, and those that were cancelled."""
    busy: int = 0
    """Their rows are locked just now, perhaps because their holders settle them: retry."""


Lapse = tuple[datetime, int]
"""When a claim lapsed, and the id of its delivery: the order in which lapsed claims are examined."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of ``publish``."""

    id: UUID
    status: Literal["stored", "duplicate", "conflict", "replaced", "sent"]
    """*duplicate*: its id is known as the same message; *conflict*: as one with another topic or payload. Neither is
    stored. *sent*: brokers have confirmed it, and it is not stored either (``direct=True``)."""

    # Hidden from type checkers: they would believe that every name is there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if (advice := method_advice(["Receipt"], name, "receipt")) is not None:
                raise AttributeError(f"there is no receipt.{name}: {advice}", name=None, obj=self)
            return object.__getattribute__(self, name)


Keeps = Literal["first", "last"]
"""Which of two is kept: the earlier one, or the new one in its place."""
Scope = Literal["pending", "running"] | timedelta
"""Which earlier one counts: no copy has started, some copy has not ended, or it is not older than this."""

REPLACED = "replaced"
"""Why a message replaced by a later one was cancelled."""
LEAST = timedelta(hours=1)
"""The minimum time a unique key is stored, and the interval at which one still needed is checked again."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """The hashed key of a message, and what happens to a second one."""

    hash: bytes
    scope: Scope = "running"
    keep: Keeps = "first"

    @property
    def window(self) -> timedelta | None:
        """How long an earlier one counts, whatever its state; None if the state decides."""
        return self.scope if isinstance(self.scope, timedelta) else None

    @property
    def remembered(self) -> timedelta:
        """How long it has to be stored."""
        return max(LEAST, self.window or LEAST)


RESERVED = "mainspring-"
"""The prefix of reserved headers, in any case: rejected from publishers, never shown (invariant 30)."""
REPLACES_HEADER = "mainspring-replaces"
"""On the replacement of a dead letter: the id of the message that was first replaced."""


def is_reserved(name: str) -> bool:
    """Return whether a header is reserved for the library."""
    return name[: len(RESERVED)].lower() == RESERVED


def public(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the publisher's headers."""
    return {name: value for name, value in headers.items() if not is_reserved(name)} if headers else {}


def reserved(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the library's headers."""
    return {name: value for name, value in (headers or {}).items() if is_reserved(name)}
