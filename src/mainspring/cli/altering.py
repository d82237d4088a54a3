"""``mainspring schedules alter`` and ``backfill``: another rhythm, and times that have passed."""

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
"""So many times of a backfill are shown one by one."""
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
    """Change a schedule while everything runs, over configuration and code. Shows the next times before and after.

    Parameters
    ----------
    rhythm
        A cron expression, or an interval as 'every 90s'.
    timezone
        Whose clocks an expression goes by, as in Europe/Berlin.
    misfire
        What makes up for times that nobody was there for: one run, none, or all.
    misfire_after
        How late it may be before it counts as one of those.
    catch_up
        The most times that --misfire all makes up for.
    overlap
        While an earlier run is unfinished: leave it out, wait, run beside it, or stop that one.
    jitter
        Start later than due by up to this.
    start
        Not due before this; without an offset it is read in the schedule's zone.
    end
        Not due after this.
    holidays
        Days on which it is not due: 'sat,sun', '2026-12-25', a country as DE or DE-BY; '' for none.
    workdays
        The only days on which it is due: 'mon-fri', '2026-12-24'; '' for all.
    day_match
        Whether a day must match both day fields of an expression, or one of them.
    on_gap
        A time that clocks skip in spring: due when they have, or not that day.
    priority
        One of four levels.
    reset
        Leave this field to configuration and code again; may be given several times.
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
    read_timing(rhythm, options)  # what is wrong by itself is said before anything is opened
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
        say(f"{name} was so already: nothing is changed")
        return 0
    was = dict(fields(before))
    for field, value in fields(after):
        if value != was[field]:
            say(f"{field}: {was[field] or 'none'} → {value or 'none'}")
    if coming == then:
        _print_times("next, as before", then, after.timezone)
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

    One run after another, unless the schedule allows overlaps.

    Parameters
    ----------
    start
        As in 2026-11-01 or 2026-11-01T09:00; without an offset it is read in the schedule's zone.
    end
        The same; a time of exactly this one is included.
    """
    async with target.opened() as opened:
        view = await followed(opened, name)
        zone = zone_of(view.timezone)
        first, last = in_zone(start, zone), in_zone(end, zone)
        if last <= first:
            raise Refused(
                f"end={last} is not after start={first}: a date alone is its midnight, so write the day after, or a "
                f"time as in {last.date()}T18:00"
            )
        times = await opened.schedules.between(name, first, last)
        if times:
            if not json:
                _print_span(times, view.timezone)
            if not confirmed(f"Run {name} {many(len(times), 'time')}?", yes=yes):
                say("Nothing was run.")
                return 1
            await opened.schedules.backfill(name, first, last, by=operator())
    if json:
        print_json({"schedule": name, "times": as_json(times, first)})
    elif not times:
        say(f"{name} was not due from {first} to {last}: nothing to run")
    else:
        say(f"{many(len(times), 'run')} of {name} on the way: mainspring schedules runs {name}{target.typed}")
    return 0


def _print_times(title: str, times: Sequence[datetime], zone: str) -> None:
    say(title, style="bold")
    if times:
        print_instants(times, zone)
    else:
        say("no time that can be told here")


def _print_span(times: Sequence[datetime], zone: str) -> None:
    ends = times if len(times) <= _SHOWN else [times[0], times[-1]]
    print_instants(ends, zone, times[0])
    if len(ends) < len(times):
        say(f"and {many(len(times) - len(ends), 'more time', 'more times')} between them", style="dim")
    if times[-1] > datetime.now(UTC):
        say("Times still to come are among them: they run now, and again when they are due.", style="yellow")
