"""How long what is over is kept, what was removed of it, and what was routed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, get_args

Kind = Literal["done", "failures", "dead", "parked"]
"""What may be kept for another time on single topics."""


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
"""One kind of what is over; they do not need each other."""
CHORES: tuple[Chore, ...] = get_args(Chore)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what is over is kept. None keeps it for ever."""

    repeats: timedelta = timedelta(hours=1)
    """How long after its end a message's id is still refused as a duplicate."""
    done: timedelta | None = timedelta(days=7)
    """Runs that succeeded or were snoozed or cancelled, where they were kept at all; and schedules of one time."""
    failures: timedelta | None = timedelta(days=30)
    dead: timedelta | None = None
    parked: timedelta | None = timedelta(days=7)
    workers: timedelta = timedelta(hours=24)
    audit: timedelta | None = timedelta(days=365)
    inbox: timedelta | None = timedelta(days=30)
    """Messages of the inbox that are done, dead or failed: how long the same one is known as a duplicate."""
    leases: timedelta | None = timedelta(days=7)
    """Leases that have no holder any more."""
    cursors: timedelta | None = timedelta(days=400)
    """Cursors of fan-out whose shards no planner has named for so long: longer than the longest rhythm, a year."""
    topics: Mapping[str, Mapping[Kind, timedelta | None]] = field(default_factory=dict, hash=False)
    """Other times by pattern and kind. Of the patterns that match a topic and name a kind, the most specific counts."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a pruning removed."""

    messages: int = 0
    runs: int = 0
    dead: int = 0
    parked: int = 0
    workers: int = 0
    audit: int = 0
    schedules: int = 0
    """Schedules made at run time whose last occurrence is over."""
    inbox: int = 0
    """Messages that the inbox has forgotten."""
    leases: int = 0
    """Leases that had no holder for long."""
    progress: int = 0
    """What handlers have said of runs that are over."""
    likenesses: int = 0
    """What ``unique`` has remembered of messages that are over."""
    cursors: int = 0
    """Cursors of fan-out whose shards are gone."""
    measures: int = 0
    """Counts of what became of deliveries, of times that are not asked for any more."""
    last: str | None = None
    """The topic up to which one chore has come, where there are more of them than it looks at; go on after it. Empty:
    there is more of the same, however little was removed."""

    @property
    def total(self) -> int:
        """All of it together: with no ``last``, zero means there was nothing left to remove."""
        return sum(getattr(self, each) for each in COUNTED)

    def __add__(self, other: Pruned) -> Pruned:
        """Both together."""
        sums: dict[str, Any] = {each: getattr(self, each) + getattr(other, each) for each in COUNTED}
        return Pruned(**sums, last=other.last)


COUNTED = tuple(each.name for each in fields(Pruned) if each.name != "last")


@dataclass(frozen=True, slots=True)
class Rerouted:
    """What came of a stretch of rerouting."""

    routed: int = 0
    last: str | None = None
    """The topic up to which it has come, where there are more; go on after it."""
