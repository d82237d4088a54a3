"""``mainspring schedules``, the changes: pause, resume, trigger, delete, freeze, thaw, alter and backfill."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.message.envelope import MISSING
from mainspring.app.options import refuse_unknown
from mainspring.app.schedule.occurrence import OPTIONS
from mainspring.app.schedule.timing import read_timing
from mainspring.cli import schedules
from mainspring.cli.errors import Refused
from mainspring.cli.options import JsonText, Yes, confirm, read_json
from mainspring.cli.output import many, print_json, print_line, print_result
from mainspring.cli.schedules import (
    Name,
    as_json,
    fields,
    followed,
    found,
    in_zone,
    print_instants,
    shortly,
    upcoming,
    values,
    zone_of,
)
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.schedule import DeadLetters, Misfire, Overlap

app: App = schedules.app
"""The group of commands ``schedules``: importing this module adds the commands below."""

Reason = Annotated[str, Parameter(show_default=False, help="Shown with the schedule and in the audit log.")]
Everywhere = Annotated[
    bool, Parameter(negative="", show_default=False, help="The schedules of every app on this database.")
]
_SHOWN = 3
"""A backfill of up to this many times lists each of them."""
_Time = Annotated[datetime | None, Parameter(metavar="TIME")]
_Duration = Annotated[str | None, Parameter(metavar="DURATION")]
_Days = Annotated[str | None, Parameter(metavar="DAYS")]
_Group = Annotated[str | None, Parameter(metavar="GROUP")]


@app.command
async def pause(name: Name, /, *, reason: Reason = "", target: Target = UNNAMED, json: Json = False) -> None:
    """Stop a schedule until it is resumed; restarts and deploys do not resume it. Current runs continue."""
    async with target.opened() as opened:
        before = await found(opened, name)
        view = await opened.schedules.pause(name, reason=reason, by=operator())
    if before.paused_at is not None:
        text = f"{name} is already paused; nothing changed"
    elif view.paused_at is None:
        text = f"{name} is a one-time schedule that has fired; there is nothing to pause"
    else:
        text = f"{name} is paused. To resume: mainspring schedules resume {name}{target.typed}"
    print_result(values(view), text, json=json)


@app.command
async def resume(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Resume a schedule from its next future time; times during the pause are skipped."""
    async with target.opened() as opened:
        before = await followed(opened, name)
        view = await opened.schedules.resume(name, by=operator())
    due = "" if view.next_at is None else f", due {shortly(view.next_at.astimezone(zone_of(view.timezone)))}"
    text = f"{name} is resumed{due}" if before.paused_at else f"{name} was not paused; nothing changed"
    print_result(values(view), text, json=json)


@app.command
async def trigger(
    name: Name,
    /,
    *,
    payload: Annotated[str | None, JsonText] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Run a schedule now; its next time does not change.

    Parameters
    ----------
    payload
        Deliver this JSON instead of the schedule's payload; `-` reads stdin.
    """
    value = MISSING if payload is None else read_json(payload)
    async with target.opened() as opened:
        await followed(opened, name)
        receipt = await opened.schedules.trigger(name, payload=value, by=operator())
    text = f"{name} is triggered. To see its progress: mainspring messages show {receipt.id}{target.typed}"
    print_result(receipt, text, json=json)


@app.command
async def delete(name: Name, /, *, yes: Yes = False, target: Target = UNNAMED, json: Json = False) -> None:
    """Delete a schedule that was created at run time, or whose code is gone; its runs stay."""
    async with target.opened() as opened:
        view = await found(opened, name)
        # A schedule that code defines is rejected, so no confirmation is needed.
        if view.origin == "api" or view.retired_at is not None:
            confirm(f"Delete the schedule {name}?", "Nothing deleted.", yes=yes)
        await opened.schedules.delete(name, by=operator())
    text = f"{name} is deleted; its runs stay: mainspring schedules runs {name}{target.typed}"
    print_result({"schedule": name, "deleted": True}, text, json=json)


@app.command
async def freeze(
    *, everywhere: Everywhere = False, reason: Reason = "", target: Target = UNNAMED, json: Json = False
) -> None:
    """Stop all schedules of an app until they are thawed."""
    _check_scope(target, everywhere=everywhere)
    async with target.opened() as opened:
        await opened.schedules.freeze(reason=reason, everywhere=everywhere, by=operator())
    more = " --everywhere" if everywhere else ""
    frozen = _scope(opened, everywhere=everywhere)
    text = f"{frozen} are frozen. To thaw them: mainspring schedules thaw{more}{target.typed}"
    print_result({"app": None if everywhere else opened.options.name, "frozen": True}, text, json=json)


@app.command
async def thaw(*, everywhere: Everywhere = False, target: Target = UNNAMED, json: Json = False) -> None:
    """End a freeze; each schedule's misfire policy decides on times missed since."""
    _check_scope(target, everywhere=everywhere)
    async with target.opened() as opened:
        thawed = await opened.schedules.thaw(everywhere=everywhere, by=operator())
        views = await opened.schedules.list(app=None if everywhere else opened.options.name)
    still = sorted({each.app for each in views if each.frozen_at is not None})
    if json:
        print_json({"app": None if everywhere else opened.options.name, "thawed": thawed, "still_frozen": still})
        return
    scope = _scope(opened, everywhere=everywhere)
    print_line(f"{scope} are thawed" if thawed else f"{scope} were not frozen; nothing changed")
    if still and everywhere:
        print_line(
            f"Still frozen individually: {', '.join(still)}. To thaw one: mainspring schedules thaw --app MODULE:APP"
        )
    elif still:
        print_line("The schedules of every app are still frozen: mainspring schedules thaw --everywhere" + target.typed)


def _check_scope(target: Target, *, everywhere: bool) -> None:
    if target.spec is None and not everywhere:
        raise Refused("no schedules selected: give --app MODULE:APP, or --everywhere for every app on this database")


def _scope(opened: Mainspring, *, everywhere: bool) -> str:
    return "The schedules of every app" if everywhere else f"The schedules of {opened.options.name}"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Edits:
    """The fields to change.

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
    only_if
        'queue empty' for a group that has nothing ready or running; '' for no condition.
    day_match
        Whether a day must match both day fields of the expression, or either.
    on_gap
        When clocks skip the time in spring: fire right after the gap, or skip that day.
    priority
        One of four levels.
    headers
        JSON text to text, passed to the handler; '{}' for none.
    key
        What every occurrence is about; '' for nothing.
    correlation_id
        What every occurrence belongs to; '' for nothing.
    retry
        recurring, messages, outbox, deferred, none, or consumer for its consumer's own policy; waits such as
        '5s, 1m'; or JSON such as '{"kind": "exponential", "attempts": 5}'.
    timeout
        The time limit of one attempt; none for no limit.
    dead
        Which dead letters are kept per group: the latest, which counts earlier ones, or all.
    then
        The consumer that follows when a run is done, by its group (with --app); '' for none.
    failed
        The one that follows when an occurrence was buried or cancelled; '' for none.
    """

    rhythm: Annotated[str | None, Parameter(metavar="RHYTHM")] = None
    timezone: Annotated[str | None, Parameter(metavar="ZONE")] = None
    misfire: Misfire | None = None
    misfire_after: _Duration = None
    catch_up: int | None = None
    overlap: Overlap | None = None
    jitter: _Duration = None
    start: _Time = None
    end: _Time = None
    holidays: _Days = None
    workdays: _Days = None
    only_if: Literal["queue empty", ""] | None = None
    day_match: Literal["and", "or"] | None = None
    on_gap: Literal["fire", "skip"] | None = None
    priority: Literal["urgent", "high", "normal", "low"] | None = None
    headers: Annotated[str | None, JsonText] = None
    key: Annotated[str | None, Parameter(metavar="TEXT")] = None
    correlation_id: Annotated[str | None, Parameter(metavar="TEXT")] = None
    retry: Annotated[str | None, Parameter(metavar="POLICY")] = None
    timeout: _Duration = None
    dead: DeadLetters | None = None
    then: _Group = None
    failed: _Group = None


UNEDITED = Edits()


@app.command
async def alter(
    name: Name,
    /,
    *,
    edits: Edits = UNEDITED,
    reset: Annotated[tuple[str, ...], Parameter(metavar="FIELD", negative="", show_default=False)] = (),
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Change a running schedule, overriding configuration and code. Shows the next times before and after.

    Parameters
    ----------
    reset
        Drop the edit of this field, so that configuration and code apply again; repeatable.
    """
    if not reset and edits == UNEDITED:
        raise Refused("nothing to alter: give --rhythm, another option or --reset FIELD, as in --reset rhythm")
    options: dict[str, Any] = {each.name: getattr(edits, each.name) for each in dataclasses.fields(edits)}
    rhythm, start, end = (options.pop(each) for each in ("rhythm", "start", "end"))
    options |= {"headers": _json(edits.headers), "retry": _json(edits.retry)}
    read_timing(rhythm, options)  # reject invalid values before opening anything
    left = [each.removeprefix("--").replace("-", "_") for each in reset]
    refuse_unknown(left, ("rhythm", *OPTIONS), "--reset")
    async with target.opened() as opened:
        before = await followed(opened, name)
        coming = await upcoming(opened, name)
        zone = zone_of(edits.timezone or before.timezone)
        options |= {"start": start and in_zone(start, zone), "end": end and in_zone(end, zone)}
        after = await opened.schedules.alter(name, rhythm, reset=left, by=operator(), **options)
        then = await upcoming(opened, name)
    if json:
        print_json({"schedule": values(after), "before": as_json(coming), "after": as_json(then)})
        return
    if after.revision == before.revision:
        print_line(f"{name} already has these values; nothing changed")
        return
    was = dict(fields(before))
    for field, value in fields(after):
        if value != was[field]:
            print_line(f"{field}: {was[field] or 'none'} → {value or 'none'}")
    if coming == then:
        _print_times("next, unchanged", then, after.timezone)
    else:
        _print_times(f"before: {before.rhythm}", coming, before.timezone)
        _print_times(f"after: {after.rhythm}", then, after.timezone)
    if after.edited:
        undo = "".join(f" --reset {field}" for field in after.edited)
        print_line(f"To undo all edits: mainspring schedules alter {name}{undo}{target.typed}", style="dim")


@app.command
async def backfill(
    name: Name,
    start: datetime,
    end: datetime,
    /,
    *,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
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
            confirm(f"Run {name} {many(len(times), 'time')}?", "Nothing run.", yes=yes)
            await opened.schedules.backfill(name, first, last, by=operator())
    text = f"{many(len(times), 'run')} of {name} published: mainspring schedules runs {name}{target.typed}"
    nothing = f"{name} was not due from {first} to {last}: nothing to run"
    print_result({"schedule": name, "times": as_json(times, first)}, text if times else nothing, json=json)


def _json(text: str | None) -> Any:
    """Parse an option that is a JSON object; other text stays."""
    return read_json(text) if text is not None and text.lstrip().startswith("{") else text


def _print_times(title: str, times: Sequence[datetime], zone: str) -> None:
    print_line(title, style="bold")
    if times:
        print_instants(times, zone)
    else:
        print_line("unknown here")


def _print_span(times: Sequence[datetime], zone: str) -> None:
    ends = times if len(times) <= _SHOWN else [times[0], times[-1]]
    print_instants(ends, zone, times[0])
    if len(ends) < len(times):
        print_line(f"and {many(len(times) - len(ends), 'more time', 'more times')} in between", style="dim")
    if times[-1] > datetime.now(UTC):
        print_line("Some of these times are in the future: they run now, and again when due.", style="yellow")
