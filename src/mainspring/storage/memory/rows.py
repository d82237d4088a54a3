"""The rows of the memory storage: what a database would keep in its tables."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.message import Claim, Draft, Priority
from mainspring.model.standing import Subscription
from mainspring.model.views import Source

Place = tuple[datetime, int]
"""Where a delivery stands in its line: (due_at, seq)."""

_BEYOND_EVERY_SEQ = 2**63


@dataclass(slots=True)
class MessageRow:
    """A message as it was published; never changed afterwards."""

    draft: Draft
    published_at: datetime
    expires_at: datetime | None
    copies: int
    """How many groups it was routed to when it was published; 0 when it was parked."""

    def source(self, scheduled_for: datetime) -> Source:
        """Why there is a run of it, that was to start then."""
        if self.draft.manual:
            return "manual"
        if self.draft.schedule is not None:
            return "schedule"
        return "deferred" if scheduled_for > self.published_at else "message"


@dataclass(slots=True)
class DeclarationRow:
    """What a process has declared, and since when it has done so without a break."""

    since: datetime
    seen_at: datetime
    subscriptions: tuple[Subscription, ...]


@dataclass(slots=True)
class DeliveryRow:
    """One group's copy of a message. ``due_at`` is also the end of the claim while ``held_by`` is set."""

    seq: int
    message: MessageRow
    group: str
    priority: int
    due_at: datetime
    scheduled_for: datetime
    epoch: int = 0
    attempt: int = 0
    deaths: int = 0
    suspect: bool = False
    held_by: str | None = None
    cancel_asked: bool = False
    join_id: UUID | None = None
    """The join that counts its end."""

    @property
    def message_id(self) -> UUID:
        """The message it is a copy of."""
        return self.message.draft.id

    @property
    def accused(self) -> bool:
        """Whether it has deaths, or has one by being reaped now."""
        return self.suspect or self.deaths > 0

    def may_be_reaped(self, owner: str, *, accused: bool, aside: Collection[Claim]) -> bool:
        """Whether this owner takes it over once its claim has lapsed, by ``Mailbox.reap``."""
        if self.held_by == owner and any(claim.id == self.seq for claim in aside):
            return False
        return accused or not self.accused

    def is_of(self, claim: Claim) -> bool:
        """Whether the claim is on this message, and no other was made since."""
        return self.epoch == claim.epoch and self.message.draft.id == claim.message_id


@dataclass(slots=True)
class DeadRow:
    """A dead letter: the delivery as it was, and why it was given up."""

    delivery: DeliveryRow
    kind: str
    error: str
    buried_at: datetime
    fingerprint: str


@dataclass(slots=True)
class ParkedRow:
    """A message that waits for the first subscriber to its topic."""

    seq: int
    message: MessageRow
    due_at: datetime
    scheduled_for: datetime
    parked_at: datetime


@dataclass(slots=True)
class JointRow:
    """A join, and how its members are doing."""

    join: Join
    opened_at: datetime
    pending: int
    done: int = 0
    failed: int = 0


@dataclass(slots=True)
class LikenessRow:
    """The last message of one likeness. ``until`` is when it is looked at whether the row is still needed."""

    message_id: UUID
    published_at: datetime
    until: datetime


@dataclass(slots=True)
class EndedRow:
    """Messages a reference to which ended in one batch. ``second`` are those that were passed over once."""

    at: datetime
    second: bool
    message_ids: list[UUID]


class Line:
    """One group's deliveries in the order of claiming, so that a claim looks only at what it takes.

    Each level of unheld deliveries, and all held ones together, are a list sorted by (due_at, seq).
    """

    __slots__ = ("held", "unheld")

    def __init__(self) -> None:
        self.unheld: tuple[list[Place], ...] = tuple([] for _ in Priority)
        self.held: list[Place] = []

    def add(self, row: DeliveryRow) -> None:
        """Let the row stand where it belongs."""
        insort(self._places(row), (row.due_at, row.seq))

    def remove(self, row: DeliveryRow) -> None:
        """Take the row out of the line, before anything that orders it is changed."""
        places = self._places(row)
        del places[bisect_left(places, (row.due_at, row.seq))]

    def take(self, priority: int, since: datetime | None, now: datetime, limit: int) -> list[int]:
        """Take up to ``limit`` unheld deliveries of a level out of the line: due, not before ``since``."""
        places = self.unheld[priority]
        first = 0 if since is None else bisect_left(places, (since, 0))
        last = min(due(places, now), first + limit)
        taken = [seq for _, seq in places[first:last]]
        del places[first:last]
        return taken

    def first(self, priority: int, since: datetime | None, now: datetime, limit: int) -> list[int]:
        """The first unheld deliveries of a level, which stay: due, not before ``since``."""
        places = self.unheld[priority]
        begin = 0 if since is None else bisect_left(places, (since, 0))
        return [seq for _, seq in places[begin : min(due(places, now), begin + limit)]]

    def has_due(self, now: datetime) -> bool:
        """Whether some unheld delivery is due."""
        return any(due(places, now) for places in self.unheld)

    def next_due(self, now: datetime) -> datetime | None:
        """When the next unheld delivery will be due that is not due yet."""
        future = [places[after][0] for places in self.unheld if (after := due(places, now)) < len(places)]
        return min(future, default=None)

    def _places(self, row: DeliveryRow) -> list[Place]:
        return self.unheld[row.priority] if row.held_by is None else self.held


def due(places: list[Place], now: datetime) -> int:
    """How many of the places are due: they are the first ones."""
    return bisect_left(places, (now, _BEYOND_EVERY_SEQ))
