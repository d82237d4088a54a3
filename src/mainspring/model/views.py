"""What people and programs see of the stored state: read-only values, never handed back for writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from mainspring.model.measures import Measure

State = Literal["scheduled", "ready", "running", "lapsed", "done", "dead", "cancelled", "parked"]
"""Where a delivery stands, as users see it. ``lapsed``: its holder let its claim lapse, and none has it now."""

RunStatus = Literal["done", "failed", "dead", "snoozed", "cancelled"]

Source = Literal["message", "deferred", "schedule", "manual", "offline"]
"""Why there was a run: a message, one that was asked for later, an occurrence, somebody's wish, or an occurrence while
the database was away."""

Condition = Literal["active", "drain asked", "draining", "drained"]
"""Whether a worker claims: ``drain asked`` until it has said that it heard, ``draining`` while it has work in hand."""


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One group's copy of a message (parked: nobody's copy yet, so ``group`` is empty)."""

    seq: int
    message_id: UUID
    group: str
    topic: str
    key: str | None
    state: State
    priority: int
    attempt: int
    deaths: int
    due_at: datetime
    scheduled_for: datetime
    published_at: datetime
    held_by: str | None = None
    cancel_asked: bool = False
    buried_at: datetime | None = None
    error: str | None = None
    """Why it is dead or cancelled; None in every other state."""
    progress: str | None = None
    """What its handler last said, while it runs."""
    progress_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """One attempt at one delivery."""

    id: int
    message_id: UUID
    group: str
    topic: str
    attempt: int
    status: RunStatus
    started_at: datetime
    finished_at: datetime
    node: str | None
    kind: str | None = None
    error: str | None = None
    traceback: str | None = None
    output: str | None = None
    source: Source = "message"
    schedule: str | None = None
    scheduled_for: datetime | None = None
    """When it was asked for; None for runs from before this was kept."""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A stored message, its deliveries that are not yet done, and the runs that were kept (oldest first)."""

    id: UUID
    topic: str
    key: str | None
    payload: bytes
    content_type: str
    headers: Mapping[str, str]
    correlation_id: str | None
    causation_id: UUID | None
    published_at: datetime
    expires_at: datetime | None
    deliveries: tuple[DeliveryView, ...]
    runs: tuple[RunView, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many deliveries of one group are in each state, each counted up to a cap."""

    group: str
    scheduled: int = 0
    ready: int = 0
    running: int = 0
    lapsed: int = 0
    dead: int = 0
    oldest_ready_at: datetime | None = None
    handled: int = 0
    """Successful runs since the group was declared, summed from the workers' tallies."""
    failed: int = 0
    """Failed runs since the group was declared, retried or not."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The whole state in numbers."""

    now: datetime
    groups: tuple[Counts, ...]
    parked: int
    expired_parked: int
    """Parked messages dropped unrouted after their time, ever."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A declared group."""

    name: str
    app: str
    patterns: tuple[str, ...]
    handler: str
    options: Mapping[str, str]
    declared_at: datetime
    served_at: datetime | None
    """When a worker last said that it serves this group."""
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process as it last reported itself."""

    name: str
    app: str
    host: str
    pid: int
    groups: tuple[str, ...]
    in_hand: int
    bell: str
    started_at: datetime
    beat_at: datetime
    tripped: tuple[str, ...] = ()
    """The groups whose breakers are open in it."""
    draining_at: datetime | None = None
    """Since when it is to claim no more; None: it may."""
    drained_by: str | None = None
    """Who wants that; None where it was forgotten, with the worker, while that was silent for long."""
    drains: bool = False
    """Whether it has said that it claims no more. A worker of a release that knows no drains never does."""

    @property
    def condition(self) -> Condition:
        """Whether it is to claim, and whether it knows."""
        if self.draining_at is None:
            return "active"
        return "drain asked" if not self.drains else "draining" if self.in_hand else "drained"


@dataclass(frozen=True, slots=True)
class Roster:
    """Who is there."""

    now: datetime
    groups: tuple[GroupView, ...]
    workers: tuple[WorkerView, ...]


@dataclass(frozen=True, slots=True)
class AuditView:
    """One thing an operator did."""

    id: int
    at: datetime
    by: str
    action: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """A group as its consumer declares it."""

    group: str
    app: str
    patterns: tuple[str, ...]
    handler: str
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    """The version of the app: an older one than the newest that has declared the group adds, and removes nothing."""


@dataclass(frozen=True, slots=True)
class GroupRuns:
    """What one worker has done for one group since its last beat."""

    handled: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker's report of itself."""

    worker: str
    app: str
    host: str
    pid: int
    groups: tuple[str, ...]
    in_hand: int
    bell: str
    runs: Mapping[str, GroupRuns] = field(default_factory=dict)
    tripped: tuple[str, ...] = ()
    """The groups whose breakers are open."""
    measures: tuple[Measure, ...] = ()
    """What became of deliveries since its last beat, each named once."""
    start_id: str = ""
    """Which start of a worker of this name it is: another one begins undrained."""
    number: int = 0
    """Counted from 1 with every start, so that one that is sent again is known. 0: nobody has counted."""
    draining: bool = False
    """Whether it claims no more, as it was told."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What operators want of a worker: the answer to its beat."""

    drain: bool = False
    """To finish what it has, and claim no more."""
