"""``mainspring schedules``: list, show and change schedules."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from cyclopts import App

from mainspring.app.schedule.view import ScheduleView
from mainspring.cli import schedule_edit
from mainspring.cli.options import Cursor, Limit
from mainspring.cli.output import Column, Columns, first_line, plain, print_json, print_list, say, since, when
from mainspring.cli.schedule_details import (
    Name,
    as_json,
    found,
    in_zone,
    is_overdue,
    last_run,
    print_schedule,
    remedy_for,
    shortly,
    stamp,
    took,
    unknown,
    upcoming,
    values,
    zone_of,
)
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.model.views import RunView

app: App = App(name="schedules", help="List, pause, trigger and change schedules.")
for _command in (
    schedule_edit.alter,
    schedule_edit.backfill,
    schedule_edit.delete,
    schedule_edit.freeze,
    schedule_edit.pause,
    schedule_edit.resume,
    schedule_edit.thaw,
    schedule_edit.trigger,
):
    app.command(_command)

_STRIP = 40
"""How many of the last runs `show` draws."""


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
async def list_(*, target: Target = UNNAMED, json: Json = False) -> int:
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
    return 0


def _print_troubles(views: Sequence[ScheduleView], apps: Sequence[str], typed: str) -> None:
    for each in views:
        if each.problem is not None:
            say(f"{each.name}: {remedy_for(each) or each.problem}", style="yellow")
    for app in apps:
        late = [each.name for each in views if each.app == app and is_overdue(each)]
        if late:
            say(
                f"Overdue, because no worker of {app} fires schedules: {', '.join(late)}. See mainspring health{typed}",
                style="yellow",
            )


def _print_stops(views: Sequence[ScheduleView]) -> None:
    frozen = {(each.app, each.frozen_at): each for each in views if each.frozen_at is not None}
    for each in frozen.values():
        stopped = since(each.frozen_at, each.frozen_by, each.freeze_reason)
        say(f"The schedules of {each.app} were frozen {stopped}", style="dim")
    for each in views:
        if paused := since(each.paused_at, each.paused_by, each.pause_reason):
            say(f"{each.name} was paused {paused}", style="dim")


@app.command
async def show(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Show one schedule: its rhythm in words, its next times, the source of each field, and its last runs."""
    async with target.opened() as opened:
        view = await found(opened, name)
        coming = await upcoming(opened, name)
        runs = await opened.schedules.runs(name, limit=_STRIP)
    if json:
        print_json({**values(view), "next": as_json(coming), "runs": [plain(each) for each in runs]})
    else:
        print_schedule(view, coming, runs, target.typed)
    return 0


@app.command
async def runs(
    name: Name,
    /,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
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
        say(f"Times are in {zone}.", style="dim")
    return 0


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
