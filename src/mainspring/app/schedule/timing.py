"""Timing options of schedules: when they are due, and what happens when they are late."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypedDict, get_args
from zoneinfo import ZoneInfo, available_timezones

from msgspec import structs

from mainspring.app.message.envelope import instant
from mainspring.app.names import handler_name
from mainspring.app.options import choice, closest, given, length, whole
from mainspring.model.errors import BadOption
from mainspring.model.schedule import QUEUE_EMPTY, Misfire, Overlap
from mainspring.runtime.schedules.plan import CODE, COUNTRY, CannotPlan, Code, Plan, country_days, read_plan
from mainspring.timing.calendar import DayTest, weekdays_of, zone
from mainspring.timing.cron import Cron, CronError
from mainspring.timing.duration import Duration
from mainspring.timing.rhythm import Every, Once, read_rhythm

RhythmOption = str | Cron | Every
"""A cron expression, as text or parsed, or an interval made by ``every("90s")``."""

_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)


class TimingOptions(TypedDict, total=False):
    """When a schedule is due, and what happens when it is late; None is the same as omitting an option."""

    timezone: str | ZoneInfo | None
    """The time zone of a cron expression ["UTC"]."""
    day_match: Literal["and", "or"] | None
    """Whether both day fields of an expression must match, or one of them ["and"]."""
    on_gap: Literal["fire", "skip"] | None
    """At a time that clocks skip in spring: run after the gap, or not that day ["fire"]."""
    misfire: Misfire | None
    """How missed occurrences are made up for: one run, none, or all ["latest"]."""
    misfire_after: Duration | None
    """How late an occurrence may be before it counts as missed [the app's, "1m"]."""
    catch_up: int | None
    """The most occurrences that ``misfire="all"`` makes up for [100]."""
    overlap: Overlap | None
    """While an earlier run is unfinished: skip, wait, run beside it, or cancel that one ["skip"]."""
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
    only_if: Callable[[], object] | Literal["queue empty", ""] | None
    """Fire only if this function returns true, or if its group has nothing ready or running [always]."""


TIMING = TimingOptions.__annotations__.keys()


def read_timing(
    rhythm: object, options: Mapping[str, Any], above: Mapping[str, Any] | None = None, known: Code | None = None
) -> tuple[dict[str, Any], dict[str, tuple[Callable[..., Any], ...]]]:
    """Return the fields that these options set, and by field the functions. Raises BadOption or CronError.

    ``above`` are the fields below these, and ``known`` the functions for their days: together they must make a valid
    plan.
    """
    set_here = given({name: value for name, value in options.items() if name in TIMING})
    code: dict[str, tuple[Callable[..., Any], ...]] = {}
    fields: dict[str, Any] = {}
    for name, value in set_here.items():
        if name == "only_if":
            fields[name], code[name] = _condition(value)
        elif name in ("holidays", "workdays"):
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
    """Raise BadOption if it never occurs: an impossible expression, or an end that has passed.

    Code and configuration ``may_be_over``: they are read at every start, long after the end too.
    """

    def is_due(plan: Plan) -> bool:
        return plan.next(now) is not None or (may_be_over and plan.previous(now) is not None)

    try:
        if not is_due(plan):
            raise BadOption(f"{what} is never due: {_why_never(plan, is_due, now)}")
    except CannotPlan as error:
        raise BadOption(f"{what}: {error}") from error


def _why_never(plan: Plan, is_due: Callable[[Plan], bool], now: datetime) -> str:
    """Return which field excludes all times, and what to check."""
    fields = plan.fields
    on_any_day = replace(plan, holidays=None, workdays=None)
    unbounded = replace(on_any_day, fields=structs.replace(fields, start=None, end=None))
    if unbounded.next(now) is None and unbounded.previous(now) is None:
        return f"{fields.rhythm!r} matches no date: check its fields of days and months"
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
    """Return the options of a Cron; they may be repeated, not changed."""
    rules: dict[str, str] = {"day_match": cron.day_match, "on_gap": cron.on_gap}
    for option, value in rules.items():
        if given_too.get(option, value) != value:
            raise BadOption(f"{option}={given_too[option]!r}, and {cron!r} has {value!r}: leave out one of them")
    return rules


def _condition(value: object) -> tuple[str | None, tuple[Callable[..., Any], ...]]:
    if value in ("", QUEUE_EMPTY):
        return str(value) or None, ()
    if not callable(value):
        raise BadOption(
            f"only_if={value!r} is no condition: write a function without arguments, or {QUEUE_EMPTY!r}, for a group "
            "that has nothing ready or running"
        )
    try:
        inspect.signature(value).bind()
    except TypeError as error:
        raise BadOption(f"only_if={handler_name(value)} is called without arguments: {error}") from None
    except ValueError:
        pass  # a builtin without a signature
    return CODE + handler_name(value), (value,)


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
    """Return a hint for an unknown zone."""
    names = available_timezones()
    if not names:
        return ""
    if (offset := _OFFSET.fullmatch(text)) is not None:
        # These names use POSIX signs, which are inverted.
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
    except ValueError:  # a zone unknown on this host
        return instant


_READERS: dict[str, Callable[[Any], Any]] = {
    "timezone": _zone,
    "day_match": lambda value: choice(value, ("and", "or"), "day_match"),
    "on_gap": lambda value: choice(value, ("fire", "skip"), "on_gap"),
    "misfire": lambda value: choice(value, get_args(Misfire), "misfire"),
    "misfire_after": _seconds("misfire_after"),
    "catch_up": lambda value: whole(value, "catch_up", least=1, most=1000),
    "overlap": lambda value: choice(value, get_args(Overlap), "overlap"),
    "jitter": _seconds("jitter"),
    "start": _instant("start"),
    "end": _instant("end"),
}


DaysOption = str | date | Callable[[date], bool] | Iterable["str | date | Callable[[date], bool]"]
"""Weekdays ("sat,sun", "mon-fri"), a country ("DE", "DE-BY"; as holidays only), dates, a function of a date, or several
of these. Any object with ``date in days``, as the calendars of the ``holidays`` package, is accepted too."""

_PLACE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,3})?")


def read_days_option(value: Any, option: str) -> tuple[tuple[str, ...], tuple[DayTest, ...]]:
    """Return the days as stored, and their functions in the same order. Raises BadOption."""
    written: list[str] = []
    code: list[DayTest] = []
    for each in _members(value, option):
        if isinstance(each, str):
            written.append(_text(each, option))
        elif isinstance(each, datetime):
            raise BadOption(f"{option}={each!r} is an instant: write its date, as in date(2026, 12, 25)")
        elif isinstance(each, date):
            written.append(each.isoformat())
        elif callable(each):
            written.append(CODE + handler_name(each))
            code.append(each)
        elif hasattr(type(each), "__contains__"):
            written.append(CODE + type(each).__qualname__)
            code.append(_contained(each))
        else:
            raise _no_days(option, each)
    return tuple(written), tuple(code)


def named_days(stored: Iterable[str]) -> str:
    """Return stored days as people write them, without the prefixes."""
    return ", ".join(each.removeprefix(COUNTRY).removeprefix(CODE) for each in stored)


def _members(value: Any, option: str) -> Iterable[Any]:
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, date) or callable(value):
        return [value]
    if hasattr(type(value), "country") and hasattr(type(value), "__contains__"):
        return [value]  # a calendar of the holidays package: a dict that fills itself on lookup
    try:
        # A set's order differs between processes, and the stored value must be the same.
        return sorted(value, key=_spelled) if isinstance(value, set | frozenset) else list(value)
    except TypeError:
        raise _no_days(option, value) from None


def _text(text: str, option: str) -> str:
    text = text.strip()
    if weekdays_of(text):
        return text.lower()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    place = text.removeprefix(COUNTRY)
    if option == "workdays":
        # A country defines days off, and to be due only on those is hardly ever intended.
        instead = f"; the working days of a country are workdays='mon-fri' and holidays={place.upper()!r}"
        raise BadOption(
            f"workdays={text!r} is neither a weekday ('sat', 'mon-fri') nor a date ('2026-12-24')"
            f"{instead if _PLACE.fullmatch(place) else _suggestion(text)}"
        )
    if not _PLACE.fullmatch(place):
        raise BadOption(
            f"{option}={text!r} is neither a weekday ('sat', 'mon-fri'), a date ('2026-12-25') nor a country ('DE', "
            f"'DE-BY'){_suggestion(text)}"
        )
    country_days(place, option)  # raises BadOption
    return COUNTRY + place.upper()


def _suggestion(text: str) -> str:
    """Return the abbreviation of a weekday that is spelled out."""
    short = text.lower()[:3]
    return f". Did you mean {short!r}?" if weekdays_of(short) and text.isalpha() else ""


def _no_days(option: str, value: object) -> BadOption:
    country = "" if option == "workdays" else "a country ('DE', 'DE-BY'), "
    return BadOption(
        f"{option}={value!r} is no set of days: write weekdays ('sat,sun'), {country}dates, or a function of a date"
    )


def _spelled(each: Any) -> str:
    return handler_name(each) if callable(each) else str(each)


def _contained(days: Any) -> DayTest:
    def test(day: date) -> bool:
        return day in days

    return test
