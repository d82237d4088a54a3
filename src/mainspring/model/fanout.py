"""Fan-out: one rhythm over many shards, each with a cursor that says how far its work has come."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid5

from mainspring.model.headers import REPLACES_HEADER
from mainspring.model.lease import Hold
from mainspring.model.message import Delivery, Draft
from mainspring.model.schedule import Note

SLICE_HEADER = "mainspring-slice"
"""On every slice: its identity, by which the end of its handler knows the cursor to advance."""
SEEN_EVERY = timedelta(days=1)
"""A cursor whose shard is named again and again, and not due, is noted as alive no more often than this."""
EVERYTHING = ""
"""In the place of a shard: a policy for all shards of a work."""
_NAMESPACE = UUID("6d61696e-7370-7269-8e67-66616e6f7574")


@dataclass(frozen=True, slots=True)
class Slice:
    """The work of one shard in one window: what the handler of a fan-out is given.

    ``window`` is the occurrence that planned it; ``last`` is the window that was last completed for this shard, None
    for the first. What lies between the two is what it has to do, also where windows were left out or have failed.
    """

    topic: str
    work: str
    shard: str
    window: datetime
    last: datetime | None = None


class CursorKey(NamedTuple):
    """Whose cursor it is. The topic is as it stands in the database."""

    topic: str
    work: str
    shard: str


@dataclass(frozen=True, slots=True)
class FanoutPolicy:
    """How shards are planned; None leaves a field to what is beneath: that of the work, then the code's."""

    enabled: bool | None = None
    every: timedelta | None = None
    """The least time between two windows of a shard; zero: every window."""
    jitter: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shard that a planner has named, and what is stored of it."""

    work: str
    shard: str
    policy: FanoutPolicy = FanoutPolicy()
    """The shard's own over that of its work."""
    completed: datetime | None = None
    """The window that was last completed."""
    planned: datetime | None = None
    """The window that was last planned."""
    unfinished: bool = False
    """Whether its consumer has that window's slice still before it: neither settled nor dead nor cancelled."""


@dataclass(frozen=True, slots=True)
class Planning:
    """A slice to be published: the shard, and the message it becomes."""

    work: str
    shard: str
    draft: Draft


Choose = Callable[[Sequence[Candidate]], Sequence[Planning]]
"""Which of the candidates are due, and as what. Pure and quick: it runs within the transaction."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some shards of one window, planned as one by who holds the lease."""

    topic: str
    window: datetime
    shards: Sequence[tuple[str, str]]
    """(work, shard), each once."""
    hold: Hold
    """The coordinator's lease: under another hold nothing is planned."""
    consumers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The group that does a work, where it is known: other groups look on, and no shard waits for them."""
    note: Note | None = None
    """For the audit log, where somebody has asked for it by hand."""
    subject: str = ""
    """What the note is about."""


@dataclass(frozen=True, slots=True)
class CursorView:
    """How far one shard has come."""

    topic: str
    work: str
    shard: str
    completed: datetime | None
    """The window that was last completed; None: none was yet."""
    completed_at: datetime | None
    planned: datetime | None
    """The window that was last planned. Later than ``completed``: its slice is on its way, or has failed for good."""
    planned_at: datetime | None

    @property
    def is_behind(self) -> bool:
        """Whether the window that was last planned is not completed."""
        return self.planned is not None and (self.completed is None or self.completed < self.planned)


@dataclass(frozen=True, slots=True)
class FanoutPolicyView:
    """A policy that was set at run time."""

    topic: str
    work: str
    shard: str | None
    """None: for all shards of the work."""
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
    """The earliest window that some shard stands at; None: no shard has completed any."""


def summed(tallies: Sequence[CursorTally]) -> CursorTally | None:
    """The works of one topic as one; None where there is none."""
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
    """What a note in the audit log is about: a shard, a work, or all works of a topic."""
    every_work = "*" if shard else ""
    return "|".join(each for each in (topic, work or every_work, shard) if each)


def identity(key: CursorKey, window: datetime) -> str:
    """The name of a slice: two of the same name are one."""
    return f"{key.topic}|{key.work}|{key.shard}|{window.astimezone(UTC).isoformat(timespec='microseconds')}"


def read_identity(text: str) -> tuple[CursorKey, datetime]:
    """What ``identity`` has written. A shard may have bars in it, the others have none."""
    topic, work, rest = text.split("|", 2)
    shard, _, window = rest.rpartition("|")
    return CursorKey(topic, work, shard), datetime.fromisoformat(window)


def slice_id(name: str) -> UUID:
    """The message id of a slice, derived from its identity: planned again, it cannot be stored twice."""
    return uuid5(_NAMESPACE, name)


def slice_of(delivery: Delivery) -> tuple[CursorKey, datetime] | None:
    """Whose cursor a slice advances, and its window; None for what is no slice, whatever its headers say.

    A slice has the id that is derived from its name, or replaces a dead letter that had it.
    """
    headers = delivery.headers or {}
    name = headers.get(SLICE_HEADER)
    if name is None or str(slice_id(name)) not in (str(delivery.message_id), headers.get(REPLACES_HEADER)):
        return None
    return read_identity(name)


def share(id: UUID) -> float:
    """A number from 0 to 1 that is the same for the same slice on every node: its part of the jitter."""
    return int.from_bytes(hashlib.blake2b(id.bytes, digest_size=8).digest(), "big") / 2**64
