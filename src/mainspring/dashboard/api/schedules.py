"""Schedules, their runs and their next times, and a preview of a rhythm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from mainspring.app.schedule.view import ScheduleView
from mainspring.app.schedule.view import preview as previewed
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import Call, Cursor, Limit, Nothing, Topic, get
from mainspring.model.errors import Misuse
from mainspring.model.views import RunStatus, RunView
from mainspring.timing.cron import CronError
from mainspring.timing.duration import spell

_RECENT = 20
_NEXT = 10
_RUNS = 50
_SECOND = timedelta(seconds=1)


class Instant(Struct, frozen=True):
    """One instant: in UTC, and in local time of the zone."""

    at: datetime
    local: str
    """Such as 2026-11-16T09:00:00, without an offset."""
    offset: str
    """Such as +01:00."""
    note: str | None
    """The effect of daylight saving on it; null: none."""


def instants(times: Sequence[datetime], since: datetime) -> list[Instant]:
    """Convert these instants, each in its zone; the first is compared with ``since``."""
    found = []
    before = since
    for each in times:
        written = each.isoformat(timespec="seconds")
        local, offset = written[:19], written[19:]
        found.append(Instant(each, local, offset, _note(before.astimezone(each.tzinfo), each)))
        before = each
    return found


def _note(before: datetime, each: datetime) -> str | None:
    said = []
    ahead = _offset(each) - _offset(before)
    if ahead:
        turned = _turned(before, each)
        way = "forward" if ahead > timedelta() else "back"
        day = "" if turned.date() == each.date() else f" on {turned.date()}"
        said.append(f"clocks go {way} {spell(abs(ahead))}{day} at {turned:%H:%M}")
    if _offset(each.replace(fold=0)) > _offset(each.replace(fold=1)):
        said.append(f"{each:%H:%M} occurs twice: this is the {'second' if each.fold else 'first'}")
    return "; ".join(said) or None


def _turned(low: datetime, high: datetime) -> datetime:
    """Return the local time of the last offset change between two instants of one zone."""
    zone, early, late = high.tzinfo, low.astimezone(UTC), high.astimezone(UTC)
    after = _offset(high)
    while late - early > _SECOND:
        middle = early + (late - early) / 2
        if _offset(middle.astimezone(zone)) == after:
            late = middle
        else:
            early = middle
    return (early.astimezone(zone).replace(tzinfo=None) + _SECOND).replace(microsecond=0)


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()


class PreviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A rhythm: a cron expression, or an interval such as ``every 90s``."""

    rhythm: Annotated[str, Meta(min_length=1, max_length=200)]
    timezone: Annotated[str, Meta(min_length=1, max_length=100)] = "UTC"
    day_match: Literal["and", "or"] = "and"
    on_gap: Literal["fire", "skip"] = "fire"
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class Preview(Struct, frozen=True):
    """The rhythm in words and its next times, or what is wrong with it."""

    description: str
    next: list[Instant]
    error: str | None


async def preview(_call: Call, asked: PreviewQuery) -> Preview:
    """Preview a rhythm. A parse error is a normal response, because it is requested while the user types."""
    try:
        seen = previewed(
            asked.rhythm, asked.count, timezone=asked.timezone, day_match=asked.day_match, on_gap=asked.on_gap
        )
    except (Misuse, CronError, ValueError) as error:
        return Preview("", [], str(error))
    return Preview(seen.rhythm.describe(), instants(seen.times, seen.after), None)


class RecentRun(Struct, frozen=True):
    """The result of one run."""

    id: int
    message_id: UUID
    status: RunStatus
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow(ScheduleView):
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
    schedule: ScheduleView
    next: list[Instant]
    runs: list[RunView]
    cursor: str | None
    """The cursor of earlier runs; null: there are none."""


class RunsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page of a schedule's runs to read."""

    name: Topic
    cursor: Cursor | None = None
    limit: Limit = _RUNS


class RunPage(Struct, frozen=True):
    """Runs, newest first."""

    rows: list[RunView]
    cursor: str | None
    """The cursor of the next page; null: there is none."""


async def schedules(call: Call, _asked: Nothing) -> ScheduleList:
    """Return every schedule with its latest runs."""
    recent = await call.app.schedules.recent(_RECENT)
    rows = [
        shown(ScheduleRow, each, recent=[shown(RecentRun, run) for run in recent.get(each.name, ())])
        for each in await call.app.schedules.list()
    ]
    return ScheduleList(datetime.now(UTC), rows)


async def schedule(call: Call, asked: ScheduleQuery) -> ScheduleDetails:
    """Return one schedule with its next times and its latest runs."""
    view = await call.app.schedules.get(asked.name)
    if view is None:
        raise Problem(404, "not_found", "no such schedule")
    page = await runs(call, RunsQuery(asked.name))
    return ScheduleDetails(datetime.now(UTC), view, await _next(call, asked.name), page.rows, page.cursor)


async def runs(call: Call, asked: RunsQuery) -> RunPage:
    """Return one page of a schedule's runs."""
    rows = await call.app.schedules.runs(asked.name, cursor=asked.cursor, limit=asked.limit)
    return RunPage(rows, rows.cursor)


async def _next(call: Call, name: str) -> list[Instant]:
    try:
        return instants(await call.app.schedules.next(name, _NEXT), datetime.now(UTC))
    except Misuse:  # not computable here (see its `problem`), or deleted since
        return []


ROUTES = (
    get("/api/schedules", schedules, "Every schedule with its latest runs", ScheduleList),
    get("/api/schedule", schedule, "One schedule with its next times", ScheduleDetails, ScheduleQuery),
    get("/api/schedule/runs", runs, "A schedule's runs, newest first", RunPage, RunsQuery),
    get("/api/preview", preview, "A rhythm in words, and its next times", Preview, PreviewQuery),
)
