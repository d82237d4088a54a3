"""Schedules: their runs and next times, a preview of a rhythm, and operators' actions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mainspring.app.schedule.occurrence import OCCURRENCE, OPTIONS
from mainspring.app.schedule.view import ScheduleView
from mainspring.app.schedule.view import preview as previewed
from mainspring.dashboard.api.messages import HeaderText
from mainspring.dashboard.api.payloads import NewPayload, PayloadText, given_payload, refuse_masks
from mainspring.dashboard.api.views import Rows, RowsPage
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import (
    NO_NUL,
    Aware,
    Call,
    Length,
    Level,
    Name,
    Nothing,
    PageQuery,
    Params,
    Reason,
    Topic,
    get,
    length,
    post,
)
from mainspring.model.errors import BadOption, Misuse
from mainspring.model.schedule import DeadLetters, Misfire, Overlap
from mainspring.model.views import RunStatus, RunView
from mainspring.timing.cron import CronError
from mainspring.timing.duration import spell
from mainspring.timing.rhythm import read_rhythm

Rhythm = Annotated[str, Meta(min_length=1, max_length=200)]
Days = Annotated[str, Meta(min_length=1, max_length=2000, pattern=NO_NUL)]
"""Days as text: weekdays, dates and countries, such as ``sat, 2026-12-24, DE``; ``none`` for no days."""
Resets = Annotated[list[Name], Meta(max_length=40)]
Text = Annotated[str, Meta(max_length=200, pattern=NO_NUL)]
_RECENT = 20
_NEXT = 10
_SECOND = timedelta(seconds=1)
_NO_DAYS = "none"


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
    notes = []
    ahead = _offset(each) - _offset(before)
    if ahead:
        turned = _turned(before, each)
        way = "forward" if ahead > timedelta() else "back"
        day = "" if turned.date() == each.date() else f" on {turned.date()}"
        notes.append(f"clocks go {way} {spell(abs(ahead))}{day} at {turned:%H:%M}")
    if _offset(each.replace(fold=0)) > _offset(each.replace(fold=1)):
        notes.append(f"{each:%H:%M} occurs twice: this is the {'second' if each.fold else 'first'}")
    return "; ".join(notes) or None


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


class Timing(Params, frozen=True):
    """When a schedule is due; what is omitted has its default, or keeps its value."""

    timezone: Name | None = None
    day_match: Literal["and", "or"] | None = None
    on_gap: Literal["fire", "skip"] | None = None
    workdays: Days | None = None
    """The only days on which it is due."""
    holidays: Days | None = None
    """Days on which it is not due."""
    start: Aware | None = None
    end: Aware | None = None

    def options(self) -> dict[str, Any]:
        """Return the options that are set. Raises Problem."""
        found = {name: getattr(self, name) for name in OPTIONS if getattr(self, name, None) is not None}
        refuse_masks(found.get("headers"), "headers")
        for name in found.keys() & {"workdays", "holidays"}:
            found[name] = [] if found[name].strip().lower() == _NO_DAYS else found[name]
        for name in found.keys() & {"misfire_after", "jitter"}:
            found[name] = length(found[name])
        return found


class PreviewQuery(Timing, frozen=True):
    """A rhythm, or a schedule with these changes: what is omitted is as it is in that schedule."""

    rhythm: Rhythm | None = None
    """A cron expression, or an interval such as ``every 90s``."""
    name: Topic | None = None
    reset: Annotated[list[Literal["timezone", "workdays", "holidays", "start", "end"]], Meta(max_length=5)] = field(
        default_factory=list
    )
    """Fields of the schedule whose edits to drop."""
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class Preview(Struct, frozen=True):
    """The rhythm in words and its next times, or what is wrong with it."""

    description: str
    next: list[Instant]
    error: str | None


async def preview(call: Call, params: PreviewQuery) -> Preview:
    """Preview a rhythm. A parse error is a normal response, because it is requested while the user types."""
    try:
        if params.name is not None:
            return await _altered(call, params.name, params)
        if params.rhythm is None:
            raise BadOption("rhythm is missing: write an expression, or name a schedule")
        # In a thread: rare days are searched for, day by day.
        seen = await asyncio.to_thread(previewed, params.rhythm, params.count, **params.options())
    except (Misuse, CronError, ImportError, ValueError) as error:
        return Preview("", [], str(error))
    return Preview(seen.rhythm.describe(), instants(seen.times, seen.after), None)


async def _altered(call: Call, name: str, params: PreviewQuery) -> Preview:
    schedules, options = call.app.schedules, params.options()
    times = await schedules.next(name, params.count, rhythm=params.rhythm, reset=params.reset, **options)
    view = await schedules.get(name)
    if view is None:
        raise BadOption("the schedule has just been deleted")
    day_match, on_gap = params.day_match or view.day_match, params.on_gap or view.on_gap
    rhythm = read_rhythm(params.rhythm or view.rhythm, day_match=day_match, on_gap=on_gap)
    return Preview(rhythm.describe(), instants(times, datetime.now(UTC)), None)


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


class ScheduleList(Rows[ScheduleRow], frozen=True):
    """Every schedule, by name."""

    now: datetime


class NamedSchedule(Params, frozen=True):
    """A schedule."""

    name: Topic


class ScheduleDetails(Struct, frozen=True):
    """A schedule, its next times and its latest runs."""

    now: datetime
    schedule: ScheduleView
    next: list[Instant]
    runs: Sequence[RunView]
    cursor: str | None
    """The cursor of earlier runs; null: there are none."""


class RunsQuery(PageQuery, frozen=True, kw_only=True):
    """The page of a schedule's runs to read."""

    name: Topic


class RunPage(RowsPage[RunView], frozen=True):
    """Runs, newest first."""


async def schedules(call: Call, _params: Nothing) -> ScheduleList:
    """Return every schedule with its latest runs."""
    recent = await call.app.schedules.recent(_RECENT)
    rows = [
        shown(
            ScheduleRow,
            each,
            headers=call.redaction.headers(each.headers),
            recent=[shown(RecentRun, run) for run in recent.get(each.name, ())],
        )
        for each in await call.app.schedules.list()
    ]
    return ScheduleList(rows, datetime.now(UTC))


async def schedule(call: Call, params: NamedSchedule) -> ScheduleDetails:
    """Return one schedule with its next times and its latest runs."""
    view = await call.app.schedules.get(params.name)
    if view is None:
        raise Problem(404, "not_found", "no such schedule")
    view = replace(view, headers=call.redaction.headers(view.headers))
    page = await runs(call, RunsQuery(name=params.name))
    return ScheduleDetails(datetime.now(UTC), view, await _next(call, params.name), page.rows, page.cursor)


async def runs(call: Call, params: RunsQuery) -> RunPage:
    """Return one page of a schedule's runs."""
    rows = await call.app.schedules.runs(params.name, cursor=params.cursor, limit=params.limit)
    return RunPage(rows, rows.cursor)


async def _next(call: Call, name: str) -> list[Instant]:
    try:
        return instants(await call.app.schedules.next(name, _NEXT), datetime.now(UTC))
    except Misuse:  # not computable here (see its `problem`), or deleted since
        return []


class PauseSchedule(NamedSchedule, frozen=True):
    """A schedule to pause."""

    reason: Reason = ""


class Trigger(NewPayload, frozen=True, kw_only=True):
    """A schedule to run now, with its own payload or another: as a value, or as JSON text."""

    name: Topic


class Triggered(Struct, frozen=True):
    """The published message."""

    id: UUID


class Policies(Timing, frozen=True):
    """When a schedule is due, what it sends, and how that runs; what is omitted has its default, or keeps its value."""

    misfire: Misfire | None = None
    misfire_after: Length | None = None
    catch_up: Annotated[int, Meta(ge=1, le=1000)] | None = None
    overlap: Overlap | None = None
    jitter: Length | None = None
    only_if: Literal["queue empty", ""] | None = None
    """Fire only if its group has nothing ready or running; empty: always."""
    priority: Level | None = None
    headers: Annotated[dict[Name, HeaderText], Meta(max_length=50)] | None = None
    key: Text | None = None
    """Empty: none. So are correlation_id, then and failed."""
    correlation_id: Text | None = None
    retry: Annotated[str, Meta(max_length=200)] | dict[str, Any] | None = None
    """A preset's name, "consumer", waits such as "5s, 1m", or a table such as {"kind": "exponential"}."""
    timeout: Text | None = None
    """The limit of one attempt, such as "90s"; "none": no limit."""
    dead: DeadLetters | None = None
    then: Text | None = None
    """The group of the consumer that follows when a run is done."""
    failed: Text | None = None


class Alter(Policies, frozen=True, kw_only=True):
    """Fields to set at run time, and fields whose edits to drop."""

    name: Topic
    rhythm: Rhythm | None = None
    reset: Resets = field(default_factory=list)


class Create(Policies, frozen=True, kw_only=True):
    """A schedule to create: of a rhythm, or of one time; for one consumer, or for every consumer of a topic."""

    name: Topic
    rhythm: Rhythm | None = None
    at: Aware | None = None
    consumer: Name | None = None
    topic: Topic | None = None
    payload: Any | UnsetType = UNSET
    payload_text: PayloadText | None = None


class Backfill(NamedSchedule, frozen=True):
    """A schedule to run for every occurrence in a span of time."""

    start: Aware
    end: Aware


class Counted(Struct, frozen=True):
    """A number of occurrences."""

    count: int


class Freeze(Params, frozen=True):
    """A request to freeze all schedules of the app."""

    reason: Reason = ""


class Thawed(Struct, frozen=True):
    """Whether they were frozen."""

    thawed: bool


async def pause(call: Call, params: PauseSchedule) -> None:
    """Pause a schedule."""
    await call.app.schedules.pause(params.name, reason=params.reason, by=call.by)


async def resume(call: Call, params: NamedSchedule) -> None:
    """Resume a schedule."""
    await call.app.schedules.resume(params.name, by=call.by)


async def trigger(call: Call, params: Trigger) -> Triggered:
    """Run a schedule now."""
    receipt = await call.app.schedules.trigger(params.name, by=call.by, **params.given())
    return Triggered(receipt.id)


async def alter(call: Call, params: Alter) -> None:
    """Set fields of a schedule at run time."""
    schedules = call.app.schedules
    await schedules.alter(params.name, params.rhythm, reset=params.reset, by=call.by, **params.options())


async def create(call: Call, params: Create) -> None:
    """Create a schedule. One of this name is not replaced, although the app's ``put`` would."""
    schedules, options = call.named_app.schedules, params.options()
    payload = given_payload(params.payload, params.payload_text)
    if (params.rhythm is None) == (params.at is None):
        raise Problem(422, "invalid", "give either a rhythm or at, the time of a single run")
    if params.rhythm is not None:
        given = {**options, **payload, "topic": params.topic, "by": call.by, "new": True}
        await schedules.put(params.name, params.rhythm, params.consumer, **given)
        return
    if params.at is None or params.consumer is None or params.topic is not None or not options.keys() <= OCCURRENCE:
        raise Problem(422, "invalid", "at takes a consumer, and neither a topic nor options of a rhythm")
    given = {**options, **payload, "by": call.by, "new": True}
    await schedules.once(params.name, params.at, params.consumer, **given)


async def backfill(call: Call, params: Backfill) -> Counted:
    """Run a schedule for every occurrence in a span of time."""
    return Counted(len(await call.app.schedules.backfill(params.name, params.start, params.end, by=call.by)))


async def delete(call: Call, params: NamedSchedule) -> None:
    """Delete a schedule that was created at run time."""
    await call.app.schedules.delete(params.name, by=call.by)


async def freeze(call: Call, params: Freeze) -> None:
    """Freeze all schedules of the app."""
    await call.named_app.schedules.freeze(reason=params.reason, by=call.by)


async def thaw(call: Call, _params: Nothing) -> Thawed:
    """Thaw all schedules of the app."""
    return Thawed(await call.named_app.schedules.thaw(by=call.by))


ROUTES = (
    get("/api/schedules", schedules, "Every schedule with its latest runs"),
    get("/api/schedule", schedule, "One schedule with its next times"),
    get("/api/schedule/runs", runs, "A schedule's runs, newest first"),
    get("/api/preview", preview, "A rhythm in words, and its next times"),
    post("/api/schedules/pause", pause, "Pause a schedule"),
    post("/api/schedules/resume", resume, "Resume a schedule"),
    post("/api/schedules/trigger", trigger, "Run a schedule now"),
    post("/api/schedules/create", create, "Create a schedule"),
    post("/api/schedules/alter", alter, "Set fields of a schedule at run time"),
    post("/api/schedules/backfill", backfill, "Run a schedule for a span of time"),
    post("/api/schedules/delete", delete, "Delete a schedule that was created at run time"),
    post("/api/schedules/freeze", freeze, "Freeze all schedules of the app"),
    post("/api/schedules/thaw", thaw, "Thaw all schedules of the app"),
)
