"""``mainspring schedules alter`` and ``backfill``: change a schedule, and run it for past times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mainspring.app.options import refuse_unknown
from mainspring.app.timings import TIMING, read_timing
from mainspring.cli.confirming import confirmed
from mainspring.cli.dead import Yes
from mainspring.cli.failures import Refused
from mainspring.cli.finding import Name, followed, values
from mainspring.cli.instants import as_json, in_zone, print_instants, zone_of
from mainspring.cli.schedule_details import fields, upcoming
from mainspring.cli.tables import print_json, say
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.cli.words import many
from mainspring.model.schedule import Misfire, Overlap

_SHOWN = 3
"""A backfill of up to this many times lists each of them."""
_Time = Annotated[datetime | None, Parameter(metavar="TIME")]
_Duration = Annotated[str | None, Parameter(metavar="DURATION")]
_Days = Annotated[str | None, Parameter(metavar="DAYS")]


async def alter(
    name: Name,
    /,
    *,
    rhythm: Annotated[str | None, Parameter(metavar="RHYTHM")] = None,
    timezone: Annotated[str | None, Parameter(metavar="ZONE")] = None,
    misfire: Misfire | None = None,
    misfire_after: _Duration = None,
    catch_up: int | None = None,
    overlap: Overlap | None = None,
    jitter: _Duration = None,
    start: _Time = None,
    end: _Time = None,
    holidays: _Days = None,
    workdays: _Days = None,
    day_match: Literal["and", "or"] | None = None,
    on_gap: Literal["fire", "skip"] | None = None,
    priority: Literal["urgent", "high", "normal", "low"] | None = None,
    reset: Annotated[tuple[str, ...], Parameter(metavar="FIELD", negative="", show_default=False)] = (),
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Change a running schedule, overriding configuration and code. Shows the next times before and after.

    Parameters
    ----------
    rhythm
        A cron expression, or an interval such as 'every 90s'.
    timezone
        The time zone of the expression, such as Europe/Berlin.
    misfire
        How to make up for missed times: the latest only, none, or all.
    misfire_after
        How late a run may start before its time counts as missed.
    catch_up
        The maximum number of missed times that --misfire all makes up for.
    overlap
        While an earlier run is unfinished: skip the new one, queue it, run both, or cancel the earlier one.
    jitter
        Delay each run by a random time up to this.
    start
        Not due before this; a time without offset is in the schedule's zone.
    end
        Not due after this.
    holidays
        Days on which it is not due: 'sat,sun', '2026-12-25', a country such as DE or DE-BY; '' for none.
    workdays
        The only days on which it is due: 'mon-fri', '2026-12-24'; '' for all.
    day_match
        Whether a day must match both day fields of the expression, or either.
    on_gap
        When clocks skip the time in spring: fire right after the gap, or skip that day.
    priority
        One of four levels.
    reset
        Drop the edit of this field, so that configuration and code apply again; repeatable.
    """
    options: dict[str, Any] = {
        "timezone": timezone,
        "misfire": misfire,
        "misfire_after": misfire_after,
        "catch_up": catch_up,
        "overlap": overlap,
        "jitter": jitter,
        "holidays": holidays,
        "workdays": workdays,
        "day_match": day_match,
        "on_gap": on_gap,
        "priority": priority,
    }
    if not reset and all(each is None for each in (rhythm, start, end, *options.values())):
        raise Refused("nothing to alter: give --rhythm, another option or --reset FIELD, as in --reset rhythm")
    read_timing(rhythm, options)  # reject invalid values before opening anything
    left = [each.removeprefix("--").replace("-", "_") for each in reset]
    refuse_unknown(left, ("rhythm", *TIMING), "--reset")
    async with target.opened() as opened:
        before = await followed(opened, name)
        coming = await upcoming(opened, name)
        zone = zone_of(timezone or before.timezone)
        options |= {"start": start and in_zone(start, zone), "end": end and in_zone(end, zone)}
        after = await opened.schedules.alter(name, rhythm, reset=left, by=operator(), **options)
        then = await upcoming(opened, name)
    if json:
        print_json({"schedule": values(after), "before": as_json(coming), "after": as_json(then)})
        return 0
    if after.revision == before.revision:
        say(f"{name} already has these values; nothing changed")
        return 0
    was = dict(fields(before))
    for field, value in fields(after):
        if value != was[field]:
            say(f"{field}: {was[field] or 'none'} → {value or 'none'}")
    if coming == then:
        _print_times("next, unchanged", then, after.timezone)
    else:
        _print_times(f"before: {before.rhythm}", coming, before.timezone)
        _print_times(f"after: {after.rhythm}", then, after.timezone)
    if after.edited:
        undo = "".join(f" --reset {field}" for field in after.edited)
        say(f"To undo all edits: mainspring schedules alter {name}{undo}{target.typed}", style="dim")
    return 0


async def backfill(
    name: Name,
    start: datetime,
    end: datetime,
    /,
    *,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Run a schedule for every time from START to END at which it would have been due.

    The runs follow one another, unless the schedule allows overlaps.

    Parameters
    ----------
    start
        Such as 2026-11-01 or 2026-11-01T09:00; a time without offset is in the schedule's zone.
    end
        In the same format; inclusive.
    """
    async with target.opened() as opened:
        view = await followed(opened, name)
        zone = zone_of(view.timezone)
        first, last = in_zone(start, zone), in_zone(end, zone)
        if last <= first:
            raise Refused(
                f"end={last} is not after start={first}: a date means midnight, so write the next day, or a "
                f"time such as {last.date()}T18:00"
            )
        times = await opened.schedules.between(name, first, last)
        if times:
            if not json:
                _print_span(times, view.timezone)
            if not confirmed(f"Run {name} {many(len(times), 'time')}?", yes=yes):
                say("Nothing run.")
                return 1
            await opened.schedules.backfill(name, first, last, by=operator())
    if json:
        print_json({"schedule": name, "times": as_json(times, first)})
    elif not times:
        say(f"{name} was not due from {first} to {last}: nothing to run")
    else:
        say(f"{many(len(times), 'run')} of {name} published: mainspring schedules runs {name}{target.typed}")
    return 0


def _print_times(title: str, times: Sequence[datetime], zone: str) -> None:
    say(title, style="bold")
    if times:
        print_instants(times, zone)
    else:
        say("unknown here")


def _print_span(times: Sequence[datetime], zone: str) -> None:
    ends = times if len(times) <= _SHOWN else [times[0], times[-1]]
    print_instants(ends, zone, times[0])
    if len(ends) < len(times):
        say(f"and {many(len(times) - len(ends), 'more time', 'more times')} in between", style="dim")
    if times[-1] > datetime.now(UTC):
        say("Some of these times are in the future: they run now, and again when due.", style="yellow")
