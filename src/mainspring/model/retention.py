"""Retention: how long ended records are kept; and the results of pruning and rerouting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, get_args

Kind = Literal["done", "failures", "dead", "parked"]
"""Kinds of records that topics may keep for different times."""


Chore = Literal[
    "messages",
    "done",
    "failures",
    "dead",
    "parked",
    "workers",
    "audit",
    "schedules",
    "inbox",
    "leases",
    "progress",
    "likenesses",
    "cursors",
    "measures",
    "bells",
]
"""One kind of ended records; chores are independent."""
CHORES: tuple[Chore, ...] = get_args(Chore)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long ended records are kept. None keeps them for ever."""

    repeats: timedelta = timedelta(days=1)
    """How long after its end a message is kept: found as done, and its id known as a duplicate."""
    done: timedelta | None = timedelta(days=7)
    """Runs that succeeded or were snoozed or cancelled, if they were kept at all; and schedules of one instant."""
    failures: timedelta | None = timedelta(days=30)
    dead: timedelta | None = None
    parked: timedelta | None = timedelta(days=7)
    workers: timedelta = timedelta(hours=24)
    audit: timedelta | None = timedelta(days=365)
    inbox: timedelta | None = timedelta(days=30)
    """Inbox messages that are done, dead or failed: how long they are known as duplicates."""
    leases: timedelta | None = timedelta(days=7)
    """Leases without a holder."""
    cursors: timedelta | None = timedelta(days=400)
    """Fan-out cursors whose shards no planner has named for so long: longer than the longest rhythm, a year."""
    topics: Mapping[str, Mapping[Kind, timedelta | None]] = field(default_factory=dict, hash=False)
    """Other times by pattern and kind. Of the patterns that match a topic and name a kind, the most specific wins."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of a pruning."""

    messages: int = 0
    runs: int = 0
    dead: int = 0
    parked: int = 0
    workers: int = 0
    audit: int = 0
    schedules: int = 0
    """Schedules made at run time whose last occurrence has ended."""
    inbox: int = 0
    """Inbox messages that were deleted."""
    leases: int = 0
    """Leases without a holder that were deleted."""
    progress: int = 0
    """Progress of ended runs."""
    likenesses: int = 0
    """Unique keys of ended messages."""
    cursors: int = 0
    """Fan-out cursors whose shards are gone."""
    measures: int = 0
    """Counts of outcomes older than any window."""
    last: str | None = None
    """The last topic that a chore has scanned, if there are more; continue after it. Empty if there is more of the
    same, however little was removed."""

    @property
    def total(self) -> int:
        """The sum: with no ``last``, zero means that nothing was left to remove."""
        return sum(getattr(self, each) for each in COUNTED)

    def __add__(self, other: Pruned) -> Pruned:
        """Return the sum of both."""
        sums: dict[str, Any] = {each: getattr(self, each) + getattr(other, each) for each in COUNTED}
        return Pruned(**sums, last=other.last)


COUNTED = tuple(each.name for each in fields(Pruned) if each.name != "last")


@dataclass(frozen=True, slots=True)
class Rerouted:
    """The result of one step of rerouting."""

    routed: int = 0
    last: str | None = None
    """The last topic scanned, if there are more; continue after it."""
