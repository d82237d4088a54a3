"""Schedules and their runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeVar
from uuid import UUID

from msgspec import Struct

from mainspring.app.schedule_view import ScheduleState, ScheduleView
from mainspring.dashboard.answers import Problem, shown
from mainspring.dashboard.api.instants import Instant, instants
from mainspring.dashboard.api.shapes import Run, run
from mainspring.dashboard.reading import Before, Limit, Topic
from mainspring.dashboard.route import Nothing, Visit, viewing
from mainspring.model.errors import Misuse
from mainspring.model.schedule import Misfire, Mode, Origin, Overlap
from mainspring.model.views import RunStatus

S = TypeVar("S", bound="Schedule")
_RECENT = 20
_NEXT = 10
_RUNS = 50


class Schedule(Struct, frozen=True):
    """A schedule: its rhythm, its state, and the result of its last run. Durations in seconds."""

    name: str
    app: str
    state: ScheduleState
    rhythm: str
    description: str
    timezone: str
    day_match: Literal["and", "or"]
    on_gap: Literal["fire", "skip"]
    next_at: datetime | None
    last_run: Run | None
    mode: Mode
    topic: str
    group: str | None
    misfire: Misfire
    misfire_after: float
    catch_up: int
    overlap: Overlap
    jitter: float
    start: datetime | None
    end: datetime | None
    holidays: list[str]
    workdays: list[str]
    priority: int
    fired: int
    missed: int
    skipped: int
    origin: Origin
    defined: list[str]
    configured: list[str]
    edited: list[str]
    revision: int
    created_at: datetime
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    frozen_at: datetime | None
    frozen_by: str | None
    freeze_reason: str | None
    retired_at: datetime | None
    problem: str | None


class RecentRun(Struct, frozen=True):
    """The result of one run."""

    id: int
    message_id: UUID
    status: RunStatus
    started_at: datetime
    finished_at: datetime


class ScheduleRow(Schedule, frozen=True):
    """A schedule with its latest runs, newest first."""

    recent: list[RecentRun]


class ScheduleList(Struct, frozen=True):
    """Every schedule, by name."""

    now: datetime
    rows: list[ScheduleRow]


class ScheduleQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The schedule to read."""

    name: Topic


class ScheduleDetails(Struct, frozen=True):
    """A schedule, its next times and its latest runs."""

    now: datetime
    schedule: Schedule
    next: list[Instant]
    runs: list[Run]
    before: int | None
    """Where earlier runs begin; null: there are none."""


class RunsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page of a schedule's runs to read."""

    name: Topic
    before: Before | None = None
    limit: Limit = _RUNS


class RunPage(Struct, frozen=True):
    """Runs, newest first."""

    rows: list[Run]
    before: int | None


async def schedules(visit: Visit, _asked: Nothing) -> ScheduleList:
    """Return every schedule with its latest runs."""
    recent = await visit.app.schedules.recent(_RECENT)
    rows = [
        _shown(ScheduleRow, each, visit, recent=[shown(RecentRun, run) for run in recent.get(each.name, ())])
        for each in await visit.app.schedules.list()
    ]
    return ScheduleList(datetime.now(UTC), rows)


async def schedule(visit: Visit, asked: ScheduleQuery) -> ScheduleDetails:
    """Return one schedule with its next times and its latest runs."""
    view = await visit.app.schedules.get(asked.name)
    if view is None:
        raise Problem(404, "not_found", "no such schedule")
    page = await runs(visit, RunsQuery(asked.name))
    return ScheduleDetails(
        datetime.now(UTC), _shown(Schedule, view, visit), await _next(visit, asked.name), page.rows, page.before
    )


async def runs(visit: Visit, asked: RunsQuery) -> RunPage:
    """Return one page of a schedule's runs."""
    rows = await visit.app.schedules.runs(asked.name, before=asked.before, limit=asked.limit)
    return RunPage([run(each, visit.redaction) for each in rows], rows[-1].id if len(rows) == asked.limit else None)


async def _next(visit: Visit, name: str) -> list[Instant]:
    try:
        return instants(await visit.app.schedules.next(name, _NEXT), datetime.now(UTC))
    except Misuse:  # not computable here (see its `problem`), or deleted since
        return []


def _shown(kind: type[S], view: ScheduleView, visit: Visit, **more: object) -> S:
    lists = {name: list(getattr(view, name)) for name in ("holidays", "workdays", "defined", "configured", "edited")}
    last = None if view.last_run is None else run(view.last_run, visit.redaction)
    said = {
        name: visit.redaction.optional(getattr(view, name)) for name in ("pause_reason", "freeze_reason", "problem")
    }
    return shown(kind, view, last_run=last, **lists, **said, **more)


ROUTES = (
    viewing("/api/schedules", schedules, "Every schedule with its latest runs", ScheduleList),
    viewing("/api/schedule", schedule, "One schedule with its next times", ScheduleDetails, ScheduleQuery),
    viewing("/api/schedule/runs", runs, "A schedule's runs, newest first", RunPage, RunsQuery),
)
