"""Schedules as they are stored, and what becomes of one when an occurrence is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from mainspring.model.message import Conflict, Draft

Misfire = Literal["latest", "skip", "all"]
"""What to do with occurrences that nobody was there to fire in time."""
Overlap = Literal["skip", "queue", "allow", "cancel"]
"""What to do with an occurrence while an earlier run is unfinished."""
Mode = Literal["direct", "publish"]
"""To one consumer's group, or to every group of a topic."""
Origin = Literal["code", "api"]
"""Who made it: a decorator that is declared at every start, or a call that was made once."""
Layer = Mapping[str, Any]
"""Fields of a plan as JSON knows them; what is absent is left to the layer beneath."""

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""When a delivery is due that waits for an earlier run of its schedule to end."""
REPLACED = "replaced by the next occurrence of its schedule"
PAUSED = "its schedule was paused"
DELETED = "its schedule was deleted"
"""Why an occurrence was cancelled, as its run says."""
UNSERVED_AFTER = timedelta(minutes=5)
"""A group that no worker has served for so long keeps no occurrence from starting."""
SCHEDULE_HEADER = "mainspring-schedule"
RHYTHM_HEADER = "mainspring-rhythm"
NEXT_HEADER = "mainspring-next"
START_HEADER = "mainspring-start"
"""What a handler learns of its schedule travels with the message."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One row of the timetable.

    Its plan is three layers, field by field: ``edits`` made at run time go before ``overrides`` from configuration,
    those before the ``definition``. Nothing here tells of runs: they have their own rows.
    """

    name: str
    app: str
    origin: Origin
    definition: Layer
    created_at: datetime
    declared_at: datetime
    """When a worker of its app last said that its code has it."""
    base_at: datetime
    """``next_at`` is the first occurrence after this."""
    next_at: datetime | None = None
    """None: there is no further occurrence, or nobody here can tell."""
    overrides: Layer = field(default_factory=dict)
    edits: Layer = field(default_factory=dict)
    version: int = 0
    """The version of the app that wrote the definition: older ones leave it alone."""
    revision: int = 0
    """Grows with every change but not when occurrences pass. The storage counts it."""
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    retired_at: datetime | None = None
    """Its code has gone. The row stays, for its history and in case the code comes back."""
    fired: int = 0
    missed: int = 0
    """Occurrences that the misfire policy let go."""
    skipped: int = 0
    """Occurrences that the overlap policy let go."""

    @property
    def layers(self) -> dict[str, Any]:
        """The plan, merged: what is set at run time wins, then configuration, then code."""
        return {**self.definition, **self.overrides, **self.edits}


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule whose next occurrence has come, and how its earlier ones are doing."""

    schedule: Schedule
    unfinished: int
    """Deliveries of it that are neither done nor dead nor waiting: running, ready or to be retried.

    Without those of groups that nobody serves, where another group has begun the same occurrence.
    """
    waiting: int
    """Deliveries of it that wait for an earlier run to end."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One due time, as the message it becomes."""

    draft: Draft
    """Its id derives from schedule and due time; ``at`` is the due time."""
    due_at: datetime | None = None
    """When to start it if not then: later by its jitter, or NEVER while it waits for an earlier run."""


@dataclass(frozen=True, slots=True)
class ScheduleAdvance:
    """What becomes of a schedule that was due: where it stands now, and what it publishes on the way."""

    base_at: datetime
    next_at: datetime | None
    occurrences: tuple[Occurrence, ...] = ()
    missed: int = 0
    skipped: int = 0
    stop_running: bool = False
    """Whether its unfinished and waiting deliveries are cancelled, but for those that somebody asked for by hand."""
    release_waiting: bool = False
    """Whether those that wait for an earlier run start now: it allows overlaps by now, and may never be idle."""


Decide = Callable[[Due, datetime], ScheduleAdvance | None]
"""What becomes of a due schedule at this time; None leaves it as it is. Pure and quick: its row is locked meanwhile."""

Rewrite = Callable[[str, Schedule | None, datetime], Schedule | None]
"""The row of this name as it shall be, None for no row; the very row that was given is not written."""


@dataclass(frozen=True, slots=True)
class ScheduleTick:
    """What a look at the timetable of one app has found."""

    fired: int = 0
    """Occurrences published by this look."""
    moved: int = 0
    """Schedules that went on by this look."""
    released: int = 0
    """Deliveries that no longer wait."""
    next_in: timedelta | None = None
    """How long until the next occurrence of any schedule; not positive: look again at once. None: there is none."""
    waiting: bool = False
    """Whether some delivery still waits for an earlier run to end."""
    frozen: bool = False
    left: frozenset[str] = frozenset()
    """The due ones on which nothing was decided."""
    asked: int = 0
    """Runs that were asked to stop: their holders do not know of it yet."""
    joined: int = 0
    """Joins that were complete, and are over by this look."""
    continuations: tuple[Draft, ...] = ()
    """What those have published."""
    conflicts: tuple[Conflict, ...] = ()
    """What is not published, occurrences and continuations, since other messages have their ids."""
    more: bool = False
    """Whether there is more than one look does, due schedules or ended members of joins: look again at once."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """All schedules of an app, or of every app, stand still."""

    app: str
    """Empty: every app."""
    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Timesheet:
    """The schedules that were asked for, at one moment."""

    now: datetime
    schedules: tuple[Schedule, ...]
    freezes: tuple[Freeze, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the audit: who did what. The subject is the schedule's name."""

    by: str
    action: str
    detail: str = ""
