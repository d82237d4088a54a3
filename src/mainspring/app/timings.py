"""When a schedule is due and what it does when it cannot be on time: options read into the fields of its plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict
from zoneinfo import ZoneInfo, available_timezones

from msgspec import structs

from mainspring.app.calendar import DaysOption, read_days_option
from mainspring.app.envelope import PriorityName, instant, priority
from mainspring.app.options import choice, closest, given, length, whole
from mainspring.model.errors import BadOption
from mainspring.model.message import Priority
from mainspring.model.schedule import Misfire, Overlap
from mainspring.runtime.schedules.plan import CannotPlan, Code, Plan, read_plan
from mainspring.timing.cron import Cron, CronError
from mainspring.timing.days import Tells
from mainspring.timing.duration import Duration
from mainspring.timing.rhythm import Every, Once, read_rhythm
from mainspring.timing.zone import zone

RhythmOption = str | Cron | Every
"""A cron expression, as text or read already, or an interval made by ``every("90s")``."""

_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)


class TimingOptions(TypedDict, total=False):
    """When a schedule is due, and what it does when it cannot be on time; None is the same as leaving an option out."""

    timezone: str | ZoneInfo | None
    """Whose clocks a cron expression goes by ["UTC"]."""
    day_match: Literal["and", "or"] | None
    """Whether both day fields of an expression must match, or one of them ["and"]."""
    on_gap: Literal["fire", "skip"] | None
    """What to do at a time that clocks skip in spring: run when they have, or not that day ["fire"]."""
    misfire: Misfire | None
    """What makes up for occurrences that nobody was there for: one run, none, or all ["latest"]."""
    misfire_after: Duration | None
    """How late an occurrence may be before it counts as one of those ["1m"]."""
    catch_up: int | None
    """The most occurrences that ``misfire="all"`` makes up for [100]."""
    overlap: Overlap | None
    """What to do while an earlier run is unfinished: leave it out, wait, run beside it, or stop that one ["skip"]."""
    jitter: Duration | None
    """Start later than due by up to this, the same for an occurrence on every node [0]."""
    holidays: DaysOption | None
    """Days on which it is not due."""
    workdays: DaysOption | None
    """The only days on which it is due."""
    start: datetime | None
    """Not due before this; intervals are counted from it."""
    end: datetime | None
    """Not due after this."""
    priority: Priority | PriorityName | int | None
    """One of four levels ["normal"]."""


TIMING = TimingOptions.__annotations__.keys()


def read_timing(
    rhythm: object, options: Mapping[str, Any], above: Mapping[str, Any] | None = None, known: Code | None = None
) -> tuple[dict[str, Any], dict[str, tuple[Tells, ...]]]:
    """The fields that these options set, and by field what only code can tell of days. Raises BadOption or CronError.

    ``above`` are the fields that these are laid upon, and ``known`` what code tells of their days: together they must
    make a plan.
    """
    set_here = given({name: value for name, value in options.items() if name in TIMING})
    code: dict[str, tuple[Tells, ...]] = {}
    fields: dict[str, Any] = {}
    for name, value in set_here.items():
        if name in ("holidays", "workdays"):
            fields[name], code[name] = read_days_option(value, name)
            fields[name] = list(fields[name])
        else:
            fields[name] = _READERS[name](value)
    if rhythm is not None:
        fields["rhythm"] = _rhythm(rhythm, {**(above or {}), **fields})
        if isinstance(rhythm, Cron):
            fields |= _rules(rhythm, fields)
    merged = {**(above or {}), **fields}
    _check_order(merged)
    try:
        read_plan({"rhythm": "every 1s", **merged}, {**(known or {}), **code})
    except CannotPlan as error:
        raise BadOption(str(error)) from error
    return fields, code


def check_has_occurrences(plan: Plan, what: str, now: datetime, *, may_be_over: bool = False) -> None:
    """Raise BadOption where nothing would ever happen: an impossible expression, or an end that has passed.

    What code and configuration say ``may_be_over``: they are read at every start, long after the end too.
    """

    def is_due(plan: Plan) -> bool:
        return plan.next(now) is not None or (may_be_over and plan.previous(now) is not None)

    try:
        if not is_due(plan):
            raise BadOption(f"{what} is never due: {_why_never(plan, is_due, now)}")
    except CannotPlan as error:
        raise BadOption(f"{what}: {error}") from error


def _why_never(plan: Plan, is_due: Callable[[Plan], bool], now: datetime) -> str:
    """Which of its fields leaves nothing over, and what to look at."""
    fields = plan.fields
    on_any_day = replace(plan, holidays=None, workdays=None)
    unbounded = replace(on_any_day, fields=structs.replace(fields, start=None, end=None))
    if unbounded.next(now) is None and unbounded.previous(now) is None:
        return f"{fields.rhythm!r} matches no date, so look at its fields of days and months"
    start, end = (None if at is None else at.astimezone(plan.zone) for at in (fields.start, fields.end))
    if is_due(on_any_day):
        days = " and ".join(name for name in ("holidays", "workdays") if getattr(fields, name))
        return f"its {days} leave no day of {fields.rhythm!r} in {fields.timezone}"
    if end is not None and end <= now:
        return f"its end={end} has passed"
    if unbounded.next(now) is None:
        return f"{fields.rhythm!r} has no occurrence after {now.astimezone(plan.zone)}"
    since = "" if start is None else f" from start={start}"
    until = "" if end is None else f" until end={end}"
    return f"{fields.rhythm!r} in {fields.timezone} has no occurrence{since}{until}"


def _rhythm(rhythm: object, fields: Mapping[str, Any]) -> str:
    if isinstance(rhythm, Every | Once | Cron):
        return str(rhythm)
    if not isinstance(rhythm, str):
        raise BadOption(
            f"{rhythm!r} is no rhythm: write a cron expression, '0 9 * * mon-fri', or an interval, every('90s')"
        )
    try:
        return str(read_rhythm(rhythm, day_match=fields.get("day_match", "and"), on_gap=fields.get("on_gap", "fire")))
    except CronError:
        raise
    except ValueError as error:
        raise BadOption(str(error)) from None


def _rules(cron: Cron, given_too: Mapping[str, Any]) -> dict[str, str]:
    """What a Cron brings along; it may be said once more, but not otherwise."""
    rules: dict[str, str] = {"day_match": cron.day_match, "on_gap": cron.on_gap}
    for option, value in rules.items():
        if given_too.get(option, value) != value:
            raise BadOption(f"{option}={given_too[option]!r}, and {cron!r} has {value!r}: leave out one of them")
    return rules


def _zone(value: object) -> str:
    name = getattr(value, "key", None) if isinstance(value, ZoneInfo) else value
    if not isinstance(name, str):
        raise BadOption(f"timezone={value!r} must be the name of a zone, as in 'Europe/Berlin' or 'UTC'")
    try:
        zone(name)
    except ValueError as error:
        raise BadOption(f"{error}.{_named(name)}") from None
    return name


def _named(text: str) -> str:
    """What to write instead of a zone that nobody knows."""
    names = available_timezones()
    if not names:
        return ""
    if (offset := _OFFSET.fullmatch(text)) is not None:
        # The signs of these names are those of POSIX, the other way round.
        fixed = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}"
        is_whole = not int(offset[3] or 0) and fixed in names
        instead = f", and always {offset[1]}{int(offset[2])} hours is {fixed!r}" if is_whole else ""
        return f" An offset is no zone: write a name, as in 'Europe/Berlin'{instead}"
    return closest(text, names) or " Write a name, as in 'Europe/Berlin' or 'UTC'"


def _instant(option: str) -> Callable[[object], str]:
    return lambda value: instant(value, option).astimezone(UTC).isoformat()


def _seconds(option: str) -> Callable[[object], float]:
    return lambda value: length(value, option, most=timedelta(days=366)).total_seconds()


def _check_order(fields: Mapping[str, Any]) -> None:
    start, end = (fields.get(each) for each in ("start", "end"))
    if start and end and datetime.fromisoformat(start) >= datetime.fromisoformat(end):
        start, end = (_on_clocks(each, fields.get("timezone", "UTC")) for each in (start, end))
        raise BadOption(f"end={end} is not after start={start}")


def _on_clocks(instant: str, name: str) -> str:
    try:
        return datetime.fromisoformat(instant).astimezone(zone(name)).isoformat()
    except ValueError:  # a zone that only others know
        return instant


_READERS: dict[str, Callable[[Any], Any]] = {
    "timezone": _zone,
    "day_match": lambda value: choice(value, ("and", "or"), "day_match"),
    "on_gap": lambda value: choice(value, ("fire", "skip"), "on_gap"),
    "misfire": lambda value: choice(value, ("latest", "skip", "all"), "misfire"),
    "misfire_after": _seconds("misfire_after"),
    "catch_up": lambda value: whole(value, "catch_up", least=1, most=1000),
    "overlap": lambda value: choice(value, ("skip", "queue", "allow", "cancel"), "overlap"),
    "jitter": _seconds("jitter"),
    "start": _instant("start"),
    "end": _instant("end"),
    "priority": lambda value: int(priority(value)),
}
