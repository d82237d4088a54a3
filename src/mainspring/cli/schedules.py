"""``mainspring schedules``: list, show and change schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from mainspring.app.schedule_view import ScheduleView
from mainspring.cli import altering, steering
from mainspring.cli.finding import Name, found, remedy_for, unknown, values
from mainspring.cli.instants import as_json, in_zone, shortly, stamp, zone_of
from mainspring.cli.messages import Limit, check_limit
from mainspring.cli.schedule_details import is_overdue, last_run, print_schedule, took, upcoming
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.cli.words import first_line, plain, when
from mainspring.model.views import RunView

app: App = App(name="schedules", help="List, pause, trigger and change schedules.")
for _command in (
    altering.alter,
    altering.backfill,
    steering.delete,
    steering.freeze,
    steering.pause,
    steering.resume,
    steering.thaw,
    steering.trigger,
):
    app.command(_command)

_STRIP = 40
"""How many of the last runs `show` draws."""
_COLUMNS = (
    Column("schedule"),
    Column("state"),
    Column("rhythm", elastic=True, wraps=True),
    Column("next"),
    Column("zone", spare=True),
    Column("last run", elastic=True, wraps=True),
    Column("missed", right=True, spare=True),
    Column("took", right=True, spare=True),
)
_RUN_COLUMNS = (
    Column("due"),
    Column("started", right=True),
    Column("took", right=True),
    Column("status"),
    Column("source"),
    Column("attempt", right=True, spare=True),
    Column("node", elastic=True, spare=True),
    Column("outcome", elastic=True),
)


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> int:
    """List every schedule: its rhythm, its next time, and the result of its last run."""
    async with target.opened() as opened:
        views = await opened.schedules.list()
    if json:
        print_json([values(each) for each in views])
        return 0
    if not views:
        say("No schedules. Define one with @app.recurring('0 9 * * mon-fri'); a worker declares it.")
        return 0
    apps = sorted({each.app for each in views})
    several = len(apps) > 1
    columns = (Column("app"), *_COLUMNS) if several else _COLUMNS
    print_table(columns, [(each.app, *_row(each)) if several else _row(each) for each in views])
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
        why = f": {each.freeze_reason}" if each.freeze_reason else ""
        say(f"The schedules of {each.app} were frozen {when(each.frozen_at)} by {each.frozen_by}{why}", style="dim")
    for each in views:
        if each.paused_at is not None:
            why = f": {each.pause_reason}" if each.pause_reason else ""
            say(f"{each.name} was paused {when(each.paused_at)} by {each.paused_by}{why}", style="dim")


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
    before: Annotated[int | None, Parameter(metavar="ID", help="Only older ones (next page).")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """List the kept runs of a schedule, newest first, even if it was deleted."""
    check_limit(limit)
    async with target.opened() as opened:
        view = await opened.schedules.get(name)
        page = await opened.schedules.runs(name, before=before, limit=limit)
        if view is None and not page:
            raise await unknown(opened, name)
    if json:
        print_json(page)
        return 0
    if not page:
        say("No older runs are kept." if before is not None else f"No run of {name} is kept yet.")
        return 0
    zone = "UTC" if view is None else view.timezone
    print_table(_RUN_COLUMNS, [_run(each, zone) for each in page])
    say(f"Times are in {zone}.", style="dim")
    if len(page) == limit:
        say(f"There may be more: add --before {page[-1].id}", style="dim")
    return 0


def _row(each: ScheduleView) -> tuple[str, ...]:
    due = each.next_at if each.state == "active" else None
    return (
        each.name,
        each.state,
        each.rhythm,
        "" if due is None else _coming(each, due),
        each.timezone,
        last_run(each),
        f"{each.missed:,}",
        "" if each.last_run is None else took(each.last_run),
    )


def _coming(each: ScheduleView, due: datetime) -> str:
    return f"due {when(due)}" if is_overdue(each) else shortly(due.astimezone(zone_of(each.timezone)))


def _run(each: RunView, zone: str) -> tuple[str, ...]:
    due = each.scheduled_for
    return (
        "" if due is None else stamp(in_zone(due, zone_of(zone))),
        when(each.started_at),
        took(each),
        each.status,
        each.source,
        str(each.attempt),
        each.node or "",
        first_line(each.error or each.output),
    )
