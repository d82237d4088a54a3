"""``mainspring schedules``: list and show schedules, with their times in their zones and in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from cyclopts import App, Parameter
from rich.text import Text

from mainspring.app.mainspring import Mainspring
from mainspring.app.schedule.timing import named_days
from mainspring.app.schedule.view import ScheduleView
from mainspring.cli.errors import Refused
from mainspring.cli.options import Cursor, Limit
from mainspring.cli.output import (
    STATE_STYLES,
    Column,
    Columns,
    first_line,
    heading,
    many,
    plain,
    print_facts,
    print_json,
    print_line,
    print_list,
    print_table,
    since,
    stdout,
    when,
)
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.model.errors import BadOption, MainspringError
from mainspring.model.message import Priority
from mainspring.model.schedule import UNLIMITED
from mainspring.model.views import RunTimes, RunView
from mainspring.timing.calendar import zone
from mainspring.timing.cron import Cron
from mainspring.timing.duration import spell
from mainspring.timing.rhythm import Rhythm, read_rhythm

app: App = App(name="schedules", help="List, pause, trigger and change schedules.")

_WEEK = timedelta(days=6)
Name = Annotated[str, Parameter(name="SCHEDULE", help="The schedule's name, as in `schedules list`.")]
_LATE = timedelta(seconds=10)
"""A schedule this long past its time is not merely late: no worker fires it."""
_STRIP = 40
"""How many of the last runs `show` draws."""
_MARKS = {"done": "✓", "failed": "✗", "dead": "✗", "snoozed": "z", "cancelled": "-"}


def in_zone(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant in the zone; one without an offset is taken as local to it."""
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of this name, or UTC if this machine does not know it."""
    try:
        return zone(name)
    except ValueError:
        return zone("UTC")


def stamp(moment: datetime) -> str:
    """Format day and time, with fractions of a second if any: ``Mon 2026-11-16 09:00:00``."""
    return f"{moment:%a} {moment.date()} {_time(moment, seconds=True)}"


def shortly(moment: datetime, now: datetime | None = None) -> str:
    """Format distance and time briefly: ``in 3m, 09:00``, ``in 2d, Wed 09:00``, ``in 9d, 2026-11-25``."""
    today = (now or datetime.now(UTC)).astimezone(moment.tzinfo)
    time = _time(moment.replace(microsecond=0), seconds=moment.second > 0)
    if moment.date() != today.date():
        close = timedelta() < moment.date() - today.date() <= _WEEK
        time = f"{moment:%a} {time}" if close else f"{moment.date()}"
    return f"{when(moment, now)}, {time}"


def offset_changes(instants: Sequence[datetime], since: datetime) -> list[str]:
    """Return for each instant the change of the offset since the one before, or ``since`` for the first."""
    notes = []
    before = since
    for each in instants:
        ahead = _offset(each) - _offset(before.astimezone(each.tzinfo))
        notes.append(f"{'forward' if ahead > timedelta() else 'back'} {spell(abs(ahead))}" if ahead else "")
        before = each
    return notes


def print_instants(instants: Sequence[datetime], zone: str, since: datetime | None = None) -> None:
    """Print a table of them: in the zone and in UTC, the distance from now (not ``since``), and offset changes."""
    notes = offset_changes(instants, since or datetime.now(UTC))
    columns: Columns[Any] = [
        Column(f"in {zone}"),
        Column("in UTC"),
        Column("from now", right=True),
        Column("clocks", elastic=True),
    ]
    rows = [
        [f"{stamp(each)} {_offset_of(each)}", _utc(each), when(each), note]
        for each, note in zip(instants, notes, strict=True)
    ]
    wanted = (True, zone != "UTC", since is None, any(notes))
    shown = [index for index, each in enumerate(wanted) if each]
    print_table([columns[index] for index in shown], [[row[index] for index in shown] for row in rows])


def as_json(instants: Sequence[datetime], since: datetime | None = None) -> list[dict[str, Any]]:
    """Return each instant in its zone and in UTC, and the change of the offset before it, if any."""
    return [
        {"at": each.isoformat(), "utc": each.astimezone(UTC).isoformat().replace("+00:00", "Z"), "clocks": note or None}
        for each, note in zip(instants, offset_changes(instants, since or datetime.now(UTC)), strict=True)
    ]


def day_rule(rhythm: Rhythm, command: str = "") -> tuple[tuple[str, str], ...]:
    """Return how an expression that restricts both day fields matches days, and what to type for the other way.

    Two facts, the second without a name; none if the expression does not restrict both.
    """
    if not isinstance(rhythm, Cron) or not rhythm.restricts_both_days:
        return ()
    if rhythm.day_match == "and":
        rule, other = "a day must match both day fields", "to match either: {}--day-match or"
    else:
        rule, other = "a day must match either day field", "to match both: {}--day-match and"
    return ("days", rule), ("", other.format(command))


def _utc(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    return f"{utc.date()} {_time(utc, seconds=True)}"


def _time(moment: datetime, *, seconds: bool) -> str:
    if moment.microsecond:
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    return f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"


def _offset_of(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")[len("2026-11-16T09:00:00") :]


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()


async def found(opened: Mainspring, name: str) -> ScheduleView:
    """Return the schedule; raise with the nearest name if there is none."""
    view = await opened.schedules.get(name)
    if view is None:
        raise await unknown(opened, name)
    return view


async def followed(opened: Mainspring, name: str) -> ScheduleView:
    """Return the schedule; raise Refused if only its own application can compute its days."""
    view = await found(opened, name)
    if remedy := remedy_for(view):
        raise Refused(f"{name}: {remedy}")
    return view


def remedy_for(view: ScheduleView) -> str | None:
    """Return why its times cannot be computed here and what to type, if nothing else is wrong with it."""
    # A schedule that no process can compute has no description.
    if view.problem is None or not view.description:
        return None
    return f"{view.problem}: give its application: --app MODULE:APP"


async def unknown(opened: Mainspring, name: str) -> MainspringError:
    """Return the application's own error for a schedule that does not exist."""
    try:
        await opened.schedules.next(name, 1)
    except MainspringError as error:
        return error
    return Refused(f"the schedule {name!r} was created just now: retry")


def values(view: ScheduleView) -> dict[str, Any]:
    """Return the schedule as JSON."""
    return {**plain(view), "never_ran": view.never_ran}


async def upcoming(opened: Mainspring, name: str) -> list[datetime]:
    """Return its next five times; none if they cannot be computed here."""
    try:
        return await opened.schedules.next(name, 5)
    except BadOption:
        return []


def print_schedule(view: ScheduleView, coming: Sequence[datetime], runs: Sequence[RunView], typed: str) -> None:
    """Print its rhythm, its next times, the source of each field, and its last runs."""
    print_facts(
        (
            ("schedule", view.name),
            ("app", view.app),
            ("state", view.state),
            ("problem", remedy_for(view) or view.problem or ""),
            ("paused", since(view.paused_at, view.paused_by, view.pause_reason)),
            ("frozen", since(view.frozen_at, view.frozen_by, view.freeze_reason)),
            ("rhythm", view.rhythm),
            ("in words", view.description),
            *_day_rule(view, typed),
            ("only on", named_days(view.workdays)),
            ("not on", named_days(view.holidays)),
            ("zone", view.timezone),
            ("overdue", _overdue(view, typed)),
            ("goes to", f"group {view.group}" if view.group else f"every group of topic {view.topic}"),
            ("counted", f"{view.fired:,} fired, {view.missed:,} missed, {view.skipped:,} skipped"),
            ("last run", last_run(view)),
            ("took", _times(view.run_times)),
        )
    )
    _print_strip(runs)
    heading("next" if view.state in ("active", "finished") else f"next, if not {view.state}")
    if coming:
        print_instants(coming, view.timezone)
    else:
        print_line("unknown here" if view.problem else "none")
    heading("sources")
    columns: Columns[Any] = (Column("field"), Column("value", elastic=True, wraps=True), Column("set by"))
    print_table(columns, [(field, value or "none", _setter(view, field)) for field, value in fields(view)])


def _times(times: RunTimes | None) -> str:
    if times is None:
        return ""
    ranks = (("p50", times.p50), ("p95", times.p95), ("p99", times.p99), ("at most", times.longest))
    return f"{', '.join(f'{name} {spell(each)}' for name, each in ranks)}, of {many(times.runs, 'run')}"


def last_run(view: ScheduleView) -> str:
    """Format the result and time of the last run."""
    if view.last_run is not None:
        return f"{view.last_run.status} {when(view.last_run.finished_at)}"
    return "never ran" if view.never_ran else "none kept"


def took(run: RunView) -> str:
    """Format the duration of the run."""
    return spell(run.finished_at - run.started_at)


def is_overdue(view: ScheduleView, now: datetime | None = None) -> bool:
    """Return whether it should have been fired by now."""
    late = None if view.next_at is None else (now or datetime.now(UTC)) - view.next_at
    return view.state == "active" and late is not None and late > _LATE


def _overdue(view: ScheduleView, typed: str) -> str:
    if not is_overdue(view):
        return ""
    return f"it was due {when(view.next_at)}, and no worker of {view.app} has fired it: mainspring health{typed}"


def _day_rule(view: ScheduleView, typed: str) -> tuple[tuple[str, str], ...]:
    try:
        rhythm = read_rhythm(view.rhythm, day_match=view.day_match)
    except ValueError:
        return ()
    return day_rule(rhythm, f"mainspring schedules alter {view.name}{typed} ")


def fields(view: ScheduleView) -> list[tuple[str, str]]:
    """Return every editable field with its value as typed."""
    zone = zone_of(view.timezone)
    return [
        ("rhythm", view.rhythm),
        ("timezone", view.timezone),
        ("day_match", view.day_match),
        ("on_gap", view.on_gap),
        ("misfire", view.misfire),
        ("misfire_after", spell(view.misfire_after)),
        ("catch_up", str(view.catch_up)),
        ("overlap", view.overlap),
        ("jitter", spell(view.jitter)),
        ("start", "" if view.start is None else stamp(in_zone(view.start, zone))),
        ("end", "" if view.end is None else stamp(in_zone(view.end, zone))),
        ("holidays", named_days(view.holidays)),
        ("workdays", named_days(view.workdays)),
        ("only_if", named_days([view.only_if or ""])),
        ("priority", Priority(view.priority).name.lower()),
        ("headers", _pairs(view.headers)),
        ("key", view.key or ""),
        ("correlation_id", view.correlation_id or ""),
        ("retry", view.retry if isinstance(view.retry, str) else _pairs(view.retry or {}) or _RETRY),
        ("timeout", UNLIMITED if view.untimed else _INHERITED if view.timeout is None else spell(view.timeout)),
        ("dead", view.dead or _INHERITED),
        ("then", view.then or ""),
        ("failed", view.failed or ""),
    ]


_INHERITED = "of its consumer"
_RETRY = "that of its consumer, or recurring if that names none"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _setter(view: ScheduleView, field: str) -> str:
    if field in view.edited:
        return "edit"
    if field in view.configured:
        return "configuration"
    if field in view.defined:
        return view.origin
    return "default"


def _print_strip(runs: Sequence[RunView]) -> None:
    if not runs:
        return
    strip = Text("runs      ", style="dim")
    for each in reversed(runs):
        strip.append(_MARKS[each.status], style=STATE_STYLES[each.status])
    stdout().print(strip.append("  newest last", style="dim"), soft_wrap=True)


def _coming(each: ScheduleView) -> str:
    if each.state != "active" or each.next_at is None:
        return ""
    if is_overdue(each):
        return f"due {when(each.next_at)}"
    return shortly(each.next_at.astimezone(zone_of(each.timezone)))


_COLUMNS: Columns[ScheduleView] = (
    Column("schedule", lambda each: each.name),
    Column("state", lambda each: each.state),
    Column("rhythm", lambda each: each.rhythm, elastic=True, wraps=True),
    Column("next", _coming),
    Column("zone", lambda each: each.timezone, spare=True),
    Column("last run", last_run, elastic=True, wraps=True),
    Column("missed", lambda each: each.missed, right=True, spare=True),
    Column("took", lambda each: each.last_run and took(each.last_run), right=True, spare=True),
)


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> None:
    """List every schedule: its rhythm, its next time, and the result of its last run."""
    async with target.opened() as opened:
        views = await opened.schedules.list()
    apps = sorted({each.app for each in views})
    of_app: Columns[ScheduleView] = (Column("app", lambda each: each.app),) if len(apps) > 1 else ()
    printed = print_list(
        (*of_app, *_COLUMNS),
        views,
        json=json,
        empty="No schedules. Define one with @app.recurring('0 9 * * mon-fri'); a worker declares it.",
        values=values,
    )
    if printed:
        _print_troubles(views, apps, target.typed)
        _print_stops(views)


def _print_troubles(views: Sequence[ScheduleView], apps: Sequence[str], typed: str) -> None:
    for each in views:
        if each.problem is not None:
            print_line(f"{each.name}: {remedy_for(each) or each.problem}", style="yellow")
    for app in apps:
        late = [each.name for each in views if each.app == app and is_overdue(each)]
        if late:
            print_line(
                f"Overdue, because no worker of {app} fires schedules: {', '.join(late)}. See mainspring health{typed}",
                style="yellow",
            )


def _print_stops(views: Sequence[ScheduleView]) -> None:
    frozen = {(each.app, each.frozen_at): each for each in views if each.frozen_at is not None}
    for each in frozen.values():
        stopped = since(each.frozen_at, each.frozen_by, each.freeze_reason)
        print_line(f"The schedules of {each.app} were frozen {stopped}", style="dim")
    for each in views:
        if paused := since(each.paused_at, each.paused_by, each.pause_reason):
            print_line(f"{each.name} was paused {paused}", style="dim")


@app.command
async def show(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Show one schedule: its rhythm in words, its next times, the source of each field, and its last runs."""
    async with target.opened() as opened:
        view = await found(opened, name)
        coming = await upcoming(opened, name)
        runs = await opened.schedules.runs(name, limit=_STRIP)
    if json:
        print_json({**values(view), "next": as_json(coming), "runs": runs})
    else:
        print_schedule(view, coming, runs, target.typed)


@app.command
async def runs(
    name: Name,
    /,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List the kept runs of a schedule, newest first, even if it was deleted."""
    async with target.opened() as opened:
        view = await opened.schedules.get(name)
        page = await opened.schedules.runs(name, cursor=cursor, limit=limit)
        if view is None and not page:
            raise await unknown(opened, name)
    zone = "UTC" if view is None else view.timezone
    printed = print_list(
        _run_columns(zone_of(zone)),
        page,
        json=json,
        empty=f"No run of {name} is kept yet." if cursor is None else "No older runs are kept.",
    )
    if printed:
        print_line(f"Times are in {zone}.", style="dim")


def _run_columns(zone: ZoneInfo) -> Columns[RunView]:
    return (
        Column("due", lambda each: each.scheduled_for and stamp(in_zone(each.scheduled_for, zone))),
        Column("started", lambda each: each.started_at, right=True),
        Column("took", took, right=True),
        Column("status", lambda each: each.status),
        Column("source", lambda each: each.source),
        Column("attempt", lambda each: each.attempt, right=True, spare=True),
        Column("node", lambda each: each.node, elastic=True, spare=True),
        Column("outcome", lambda each: first_line(each.error or each.output), elastic=True),
    )
