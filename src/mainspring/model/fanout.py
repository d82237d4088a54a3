"""Fan-out: one rhythm over many shards, each with a cursor that stores its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid5

from mainspring.model.lease import Hold
from mainspring.model.message import REPLACES_HEADER, Delivery, Draft
from mainspring.model.schedule import Note

SLICE_HEADER = "mainspring-slice"
"""On every slice: its identity, which selects the cursor to advance when its handler ends."""
SEEN_EVERY = timedelta(days=1)
"""A cursor whose shard is named again, but not due, is marked as alive no more often than this."""
EVERYTHING = ""
"""In place of a shard: a policy for all shards of a work."""
_NAMESPACE = UUID("6d61696e-7370-7269-8e67-66616e6f7574")


@dataclass(frozen=True, slots=True)
class Slice:
    """The work of one shard in one window: the argument of a fan-out's handler.

    ``window`` is the occurrence that planned it; ``last`` is the window last completed for this shard, None for the
    first. The work is what lies between the two, also if windows were left out or have failed.
    """

    topic: str
    work: str
    shard: str
    window: datetime
    last: datetime | None = None


class CursorKey(NamedTuple):
    """The key of a cursor. The topic is as stored in the database."""

    topic: str
    work: str
    shard: str


@dataclass(frozen=True, slots=True)
class FanoutPolicy:
    """How shards are planned; None leaves a field to the next layer: the work's policy, then the code's."""

    enabled: bool | None = None
    every: timedelta | None = None
    """The minimum time between two windows of a shard; zero for every window."""
    jitter: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shard named by a planner, and its stored state."""

    work: str
    shard: str
    policy: FanoutPolicy = FanoutPolicy()
    """The shard's own policy merged over that of its work."""
    completed: datetime | None = None
    """The window last completed."""
    planned: datetime | None = None
    """The window last planned."""
    unfinished: bool = False
    """Whether that window's slice is neither settled nor dead nor cancelled for its consumer."""

    @property
    def is_unfinished(self) -> bool:
        """Whether its slice is still to be done: one that has advanced its cursor may not be settled yet."""
        return (
            self.unfinished and self.planned is not None and (self.completed is None or self.completed < self.planned)
        )


@dataclass(frozen=True, slots=True)
class Planning:
    """A slice to be published: the shard, and its message."""

    work: str
    shard: str
    draft: Draft


Choose = Callable[[Sequence[Candidate]], Sequence[Planning]]
"""Selects the candidates that are due, and their slices. Pure and quick: it runs within the transaction."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some shards of one window, planned together by the holder of the lease."""

    topic: str
    window: datetime
    shards: Sequence[tuple[str, str]]
    """(work, shard), each once."""
    hold: Hold
    """The coordinator's lease: under another hold nothing is planned."""
    consumers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The group that does a work, if known: no shard waits for other groups."""
    note: Note | None = None
    """For the audit log, if requested by hand."""
    subject: str = ""
    """The subject of the note."""


@dataclass(frozen=True, slots=True)
class CursorView:
    """The progress of one shard."""

    topic: str
    work: str
    shard: str
    completed: datetime | None
    """The window last completed; None if there is none yet."""
    completed_at: datetime | None
    planned: datetime | None
    """The window last planned. If later than ``completed``, its slice is on its way, or has failed for good."""
    planned_at: datetime | None

    @property
    def is_behind(self) -> bool:
        """Whether the window last planned is not completed."""
        return self.planned is not None and (self.completed is None or self.completed < self.planned)


@dataclass(frozen=True, slots=True)
class SeekResult:
    """How many cursors were moved by hand, and how many were left where they are."""

    moved: int = 0
    unfinished: int = 0
    """Their slice is pending, running or in retry: it would run beside the next one."""
    busy: int = 0
    """Another session has locked them just now: try again."""

    def __add__(self, other: SeekResult) -> SeekResult:
        """Return both together."""
        return SeekResult(self.moved + other.moved, self.unfinished + other.unfinished, self.busy + other.busy)


@dataclass(frozen=True, slots=True)
class FanoutPolicyView:
    """A policy that was set at run time."""

    topic: str
    work: str
    shard: str | None
    """None for all shards of the work."""
    policy: FanoutPolicy
    edited_at: datetime
    edited_by: str


@dataclass(frozen=True, slots=True)
class CursorTally:
    """The cursors of one work, counted."""

    topic: str
    work: str
    shards: int
    last_window: datetime | None
    """The latest window that was planned."""
    completed: int
    """Shards that have completed it."""
    behind: int
    """Shards whose own latest window is not completed."""
    oldest: datetime | None
    """The earliest window last completed by a shard; None if no shard has completed any."""


def summed(tallies: Sequence[CursorTally]) -> CursorTally | None:
    """Sum up the works of one topic; None if there are none."""
    if not tallies:
        return None
    return CursorTally(
        tallies[0].topic,
        tallies[0].work,
        shards=sum(each.shards for each in tallies),
        last_window=max((each.last_window for each in tallies if each.last_window is not None), default=None),
        completed=sum(each.completed for each in tallies),
        behind=sum(each.behind for each in tallies),
        oldest=min((each.oldest for each in tallies if each.oldest is not None), default=None),
    )


def subject(topic: str, work: str | None, shard: str | None) -> str:
    """Return the subject of a note in the audit log: a shard, a work, or all works of a topic."""
    every_work = "*" if shard else ""
    return "|".join(each for each in (topic, work or every_work, shard) if each)


def identity(key: CursorKey, window: datetime) -> str:
    """Return the name of a slice: two of the same name are one."""
    return f"{key.topic}|{key.work}|{key.shard}|{window.astimezone(UTC).isoformat(timespec='microseconds')}"


def read_identity(text: str) -> tuple[CursorKey, datetime]:
    """Parse what ``identity`` returned. Only a shard may contain bars."""
    topic, work, rest = text.split("|", 2)
    shard, _, window = rest.rpartition("|")
    return CursorKey(topic, work, shard), datetime.fromisoformat(window)


def slice_id(name: str) -> UUID:
    """Return the message id of a slice, derived from its identity: it cannot be stored twice."""
    return uuid5(_NAMESPACE, name)


def slice_of(delivery: Delivery) -> tuple[CursorKey, datetime] | None:
    """Return the cursor that a slice advances, and its window; None for other messages, whatever their headers.

    A slice has the id derived from its name, or replaces a dead letter that had it.
    """
    headers = delivery.headers or {}
    name = headers.get(SLICE_HEADER)
    if name is None or str(slice_id(name)) not in (str(delivery.message_id), headers.get(REPLACES_HEADER)):
        return None
    return read_identity(name)
