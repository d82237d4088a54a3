"""Read-only views of the stored state, for people and programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from mainspring.model.measures import Measure, Status

State = Literal["scheduled", "ready", "running", "lapsed", "done", "dead", "cancelled", "parked"]
"""The state of a delivery, as users see it. ``lapsed``: its claim has lapsed, and no worker has taken it over."""

Kind = Literal["immediate", "delayed", "recurring"]
"""How a message came to be due: when it was published, later, or as an occurrence of a schedule."""

RunStatus = Status | Literal["lost"]
"""How a run ended. ``lost``: its claim lapsed, because its worker died, froze or lost the database."""

Source = Literal["message", "delayed", "schedule", "manual", "replay", "offline"]
"""What has led to a run, as ``model.message.Source``; or an occurrence during an outage of the database."""

Condition = Literal["active", "drain asked", "draining", "drained"]
"""Whether a worker claims: ``drain asked`` until it has confirmed, ``draining`` while it has work in hand."""

WORKER_SILENT_AFTER = timedelta(minutes=1)
"""A worker that has not reported itself for longer is shown as silent."""


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One group's copy of a message (for a parked message ``group`` is empty)."""

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
    """The progress its handler last reported, while it runs."""
    progress_at: datetime | None = None
    schedule: str | None = None
    """The schedule whose occurrence it is."""
    kind: Kind = "immediate"
    """``delayed``: with a delay, or for a time; ``recurring``: an occurrence of a schedule, or triggered by hand."""
    repeats: int = 0
    """How many dead letters of earlier occurrences of its schedule this one has replaced."""
    preview: str | None = None
    """The beginning of the payload as text, its secrets masked; None where lists do not read payloads."""
    finished_at: datetime | None = None
    """When it was done or cancelled; None in every other state."""
    node: str | None = None
    """The worker that has done it, or had it in hand when it was cancelled."""


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
    """When it was requested; None for runs from before this was stored."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How long the latest kept runs of a schedule took, done or failed."""

    runs: int
    p50: timedelta
    p95: timedelta
    p99: timedelta
    longest: timedelta


def run_times(lengths: Sequence[timedelta]) -> RunTimes | None:
    """Return the percentiles of these lengths, by nearest rank: each is the length of a run. None without any."""
    if not lengths:
        return None
    ordered = sorted(lengths)
    p50, p95, p99 = (ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 95, 99))
    return RunTimes(len(ordered), p50, p95, p99, ordered[-1])


@dataclass(frozen=True, slots=True)
class MessageView:
    """A stored message, its deliveries that are not yet done, the runs that were kept, and what is done.

    Runs and what is done are oldest first.
    """

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
    replaces: UUID | None = None
    """The dead letter that it was revived from, with another payload."""
    replaced_by: tuple[UUID, ...] = ()
    """The messages that it was revived as, each with another payload, oldest first."""
    done: tuple[DeliveryView, ...] = ()
    """Its deliveries that were handled: by which group, when and by which worker, whether or not a run was kept."""


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
    """When a worker last reported that it serves this group."""
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerLink:
    """A worker's connection to the broker of a route or an intake, as it was last reported."""

    name: str
    """The group of the route, or the source of the intake."""
    direction: Literal["out", "in"]
    connected: bool
    """Whether it is open. One that is not, and has no error, is opened with the next message."""
    error: str | None = None
    """Why it cannot be opened, without passwords."""
    down_for: float | None = None
    """For how many seconds it could not be opened; None while it can."""
    lag: int | None = None
    """How many messages wait in the broker for the intake; None if that is unknown, and for a route."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What has happened since the worker started, by event: sent, later, rejected, received, stored, repeat and
    reconnected. What has not happened is left out."""


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
    """Since when it must not claim; None if it may."""
    drained_by: str | None = None
    """The operator who asked for that; None if that was pruned with the worker, while it was silent for long."""
    drains: bool = False
    """Whether it has confirmed that it claims no more. A worker of a release without drains never does."""
    drain_reason: str | None = None
    """Why it must not claim, as the operator wrote it; None if that is not known."""
    version: int | None = None
    """The version of its app, as it has declared it; None if it has not, or has ended."""
    links: tuple[BrokerLink, ...] = ()
    """Its connections to brokers."""

    @property
    def condition(self) -> Condition:
        """Whether it has to claim, and whether it has confirmed."""
        if self.draining_at is None:
            return "active"
        return "drain asked" if not self.drains else "draining" if self.in_hand else "drained"


@dataclass(frozen=True, slots=True)
class Roster:
    """The workers."""

    now: datetime
    groups: tuple[GroupView, ...]
    workers: tuple[WorkerView, ...]

    def alive(self, silent_after: timedelta = WORKER_SILENT_AFTER) -> list[WorkerView]:
        """Return the workers that have reported themselves within ``silent_after``."""
        return [each for each in self.workers if self.now - each.beat_at <= silent_after]

    def served(self, silent_after: timedelta = WORKER_SILENT_AFTER) -> set[str]:
        """Return the groups that a live process of their app serves: a worker, or one with an open queue.

        A process of another app handles nothing of this one.
        """
        live = {(each.app, group) for each in self.alive(silent_after) for group in each.groups}
        return {each.name for each in self.groups if (each.app, each.name) in live}

    def namesakes(self, app: str, version: int, groups: Collection[str]) -> list[WorkerView]:
        """Return the live workers of that name which seem to be of another application.

        They serve none of the ``groups``, all that the code has, and are of the same ``version``: one of another
        release may well have groups that this code has not, or no longer. Without versions all are of version 0.
        """
        if not groups:
            return []
        alike = [each for each in self.alive() if each.app == app and each.version in (None, version)]
        return [each for each in alike if each.groups and set(each.groups).isdisjoint(groups)]


@dataclass(frozen=True, slots=True)
class AuditView:
    """One action of an operator."""

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
    """The version of the app: one older than the newest that declared the group adds, but removes nothing."""


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
    """Outcomes of deliveries since its last beat, each named once."""
    start_id: str = ""
    """Which start of a worker of this name it is: another one begins undrained."""
    number: int = 0
    """Counted from 1 with every start, so that a repeated beat is recognised. 0 if not counted."""
    draining: bool = False
    """Whether it claims no more, as ordered."""
    links: tuple[BrokerLink, ...] = ()
    """Its connections to brokers."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The operators' orders to a worker: the reply to its beat."""

    drain: bool = False
    """Whether to finish what it has, and claim no more."""
