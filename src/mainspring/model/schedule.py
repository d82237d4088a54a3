"""Schedules as they are stored, and how a due one is advanced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.message import Conflict, Draft

Misfire = Literal["latest", "skip", "all"]
"""What happens to occurrences that were not fired in time."""
Overlap = Literal["skip", "queue", "allow", "cancel"]
"""What happens to an occurrence while an earlier run is unfinished."""
Mode = Literal["direct", "publish"]
"""To one consumer's group, or to every group of a topic."""
DeadLetters = Literal["latest", "all"]
"""Which dead letters of a schedule are kept for each group: the latest, which counts the earlier ones, or all."""
Origin = Literal["code", "api"]
"""How it was created: by a decorator that is declared at every start, or by one call."""
Layer = Mapping[str, Any]
"""Fields of a plan as JSON values; absent ones are left to the layer beneath."""

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The due time of a delivery that waits for an earlier run of its schedule to end."""
REPLACED = "replaced by the next occurrence of its schedule"
PAUSED = "its schedule was paused"
DELETED = "its schedule was deleted"
REMOVED = "its schedule was removed from the code"
"""The reasons why an occurrence was cancelled, as stored with its run."""
QUEUE_EMPTY = "queue empty"
"""A schedule's ``only_if``: its group has nothing ready or running."""
MISFIRE_AFTER = timedelta(minutes=1)
"""How late an occurrence may be, where neither its schedule nor its app says so, before it counts as missed."""
UNSERVED_AFTER = timedelta(minutes=5)
"""A group that no worker has served for so long blocks no occurrence."""
ONCE = "at "
"""How the rhythm of a schedule that runs once begins."""
SCHEDULE_HEADER = "mainspring-schedule"
RHYTHM_HEADER = "mainspring-rhythm"
NEXT_HEADER = "mainspring-next"
START_HEADER = "mainspring-start"
RETRY_HEADER = "mainspring-retry"
TIMEOUT_HEADER = "mainspring-timeout"
DEAD_HEADER = "mainspring-dead"
"""Facts about the schedule, sent with the message: those of a message that no schedule has published are ignored."""
OWN_RETRY = "consumer"
"""A schedule's retry policy: that of the consumer that receives it, whatever schedules have by default."""
UNLIMITED = "none"
"""A schedule's timeout: none at all."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One row of the timetable.

    Its plan has three layers, field by field: ``edits`` made at run time take precedence over ``overrides`` from
    configuration, and those over the ``definition``. Runs have rows of their own.
    """

    name: str
    app: str
    origin: Origin
    definition: Layer
    created_at: datetime
    declared_at: datetime
    """When a worker of its app last declared it."""
    base_at: datetime
    """``next_at`` is the first occurrence after this."""
    next_at: datetime | None = None
    """None if there is no further occurrence, or it cannot be computed here."""
    overrides: Layer = field(default_factory=dict)
    edits: Layer = field(default_factory=dict)
    version: int = 0
    """The version of the app that wrote the definition: older ones do not change it."""
    revision: int = 0
    """Grows with every change, not when occurrences pass. The storage counts it."""
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    retired_at: datetime | None = None
    """When it was retired, its code being gone. The row stays, for its history and in case the code returns."""
    fired: int = 0
    missed: int = 0
    """Occurrences that the misfire policy skipped."""
    skipped: int = 0
    """Occurrences that the overlap policy or ``only_if`` skipped."""

    @property
    def layers(self) -> dict[str, Any]:
        """The merged plan: edits made at run time, over configuration, over code."""
        return {**self.definition, **self.overrides, **self.edits}


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule whose next occurrence is due, and the state of its earlier ones."""

    schedule: Schedule
    unfinished: int
    """Deliveries of it that are neither done nor dead nor waiting: running, ready or to be retried.

    Without those of groups that no worker serves, if another group has started the same occurrence.
    """
    waiting: int
    """Deliveries of it that wait for an earlier run to end."""
    busy: bool = False
    """Whether its group has anything ready or running; False if its ``only_if`` does not ask."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One due time, as a message."""

    draft: Draft
    """Its id derives from schedule and due time; ``at`` is the due time."""
    due_at: datetime | None = None
    """When to start it if not at its due time: later by its jitter, or NEVER while it waits for an earlier run."""
    join: Join | None = None
    """What follows it: the draft is the only member."""


@dataclass(frozen=True, slots=True)
class ScheduleAdvance:
    """How a due schedule is advanced: its new state, and what it publishes."""

    base_at: datetime
    next_at: datetime | None
    occurrences: tuple[Occurrence, ...] = ()
    missed: int = 0
    skipped: int = 0
    why_missed: str = ""
    why_skipped: str = ""
    """The reasons, for the log."""
    stop_running: bool = False
    """Whether its unfinished and waiting deliveries are cancelled, except manual ones."""
    release_waiting: bool = False
    """Whether those that wait for an earlier run start now: overlaps are allowed by now, so it may never be idle."""


Decide = Callable[[Due, datetime], ScheduleAdvance | None]
"""Decides about a due schedule; None leaves it unchanged. Pure and quick: its row is locked."""

Rewrite = Callable[[str, Schedule | None, datetime], Schedule | None]
"""Returns the new row of this name, None for no row; the same object is not written."""


@dataclass(frozen=True, slots=True)
class ScheduleTick:
    """The result of one tick over the timetable of one app."""

    fired: int = 0
    """Occurrences published by this tick."""
    moved: int = 0
    """Schedules advanced by this tick."""
    released: int = 0
    """Deliveries that no longer wait."""
    next_in: timedelta | None = None
    """The time until the next occurrence of any schedule, None without any; if not positive, tick again at once."""
    waiting: bool = False
    """Whether some delivery still waits for an earlier run to end."""
    frozen: bool = False
    left: frozenset[str] = frozenset()
    """The due ones on which nothing was decided."""
    asked: int = 0
    """Runs that were asked to stop: their holders have not been notified yet."""
    joined: int = 0
    """Joins completed by this tick."""
    continuations: tuple[Draft, ...] = ()
    """Their follow-ups."""
    conflicts: tuple[Conflict, ...] = ()
    """Occurrences and follow-ups that were not published, since other messages have their ids."""
    dropped: tuple[tuple[str, ScheduleAdvance], ...] = ()
    """The schedules that were advanced past occurrences without publishing them."""
    more: bool = False
    """Whether due schedules or ended members of joins are left: tick again at once."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """A stop of all schedules of an app, or of every app."""

    app: str
    """Empty for every app."""
    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Timesheet:
    """The requested schedules, at one moment."""

    now: datetime
    schedules: tuple[Schedule, ...]
    freezes: tuple[Freeze, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of the schedules of an app's code when a process declared those of its own."""

    retired: tuple[str, ...] = ()
    """Retired by this declaration."""
    unclaimed: tuple[str, ...] = ()
    """Those that no live process has in its code, and that were not retired yet."""
    returned: tuple[str, ...] = ()
    """Declared here, and still retired: they must be reconciled."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the audit: an action, and its actor. The subject is the schedule's name."""

    by: str
    action: str
    detail: str = ""


def jitter_share(id: UUID) -> float:
    """Return the share of a jitter by which this message starts later, from 0 to 1: the same on every node."""
    return int.from_bytes(hashlib.blake2b(id.bytes, digest_size=8).digest(), "big") / 2**64
