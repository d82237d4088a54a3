"""A parsed cron expression: its six fields, the same as masks to search with, and its days."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from mainspring.timing.cron.fields import (
    DAYS,
    HOURS,
    MINUTES,
    MONTHS,
    SECONDS,
    WEEKDAYS,
    CronError,
    Field,
    nearest_macro,
    read,
)

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHORTEST, _LONGEST = 28, 31
_FEBRUARY = 2
_SATURDAY, _SUNDAY = 6, 0

Days = tuple[int, ...]
"""For every kind of month, at the index that ``shape`` returns, a bit for every matching day."""


@lru_cache(maxsize=1024)
def shape(year: int, month: int) -> int:
    """Return which of the 28 kinds of month this one is."""
    length = _LENGTHS[month]
    if month == _FEBRUARY and year % 4 == 0 and (year % 100 or year % 400 == 0):
        length = 29
    return _index(date(year, month, 1).isoweekday() % 7, length)


def days(dom: Field, dow: Field, *, either: bool) -> Days:
    """Return the days that match ``dom`` and ``dow``, or one of them if ``either`` is enough."""
    table: list[int] = []
    for first in range(7):
        for length in range(_SHORTEST, _LONGEST + 1):
            by_date, by_weekday = _by_date(dom, first, length), _by_weekday(dow, first, length)
            table.append(by_date | by_weekday if either else by_date & by_weekday)
    return tuple(table)


def reachable(months: int, table: Days) -> int:
    """Return the months among ``months`` that ever have a matching day."""
    found = 0
    for month in range(1, 13):
        lengths = (28, 29) if month == _FEBRUARY else (_LENGTHS[month],)
        if any(table[_index(first, length)] for first in range(7) for length in lengths):
            found |= 1 << month
    return found & months


def _index(first: int, length: int) -> int:
    return first * 4 + length - _SHORTEST


def _by_date(dom: Field, first: int, length: int) -> int:
    within = (2 << length) - 2
    if dom.from_end is not None:
        day = length - dom.from_end
    elif dom.nearest:
        day = dom.parts[0].low
    else:
        return dom.mask & within
    if not 1 <= day <= length:
        return 0
    return 1 << (_nearest(day, first, length) if dom.nearest else day)


def _nearest(day: int, first: int, length: int) -> int:
    """Return the weekday nearest to ``day``, within the month, so it may be two days in the other direction."""
    weekday = (first + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _by_weekday(dow: Field, first: int, length: int) -> int:
    mask = 0
    for day in range(1, length + 1):
        if dow.mask >> ((first + day - 1) % 7) & 1 and _is_nth(dow.nth, day, length):
            mask |= 1 << day
    return mask


def _is_nth(nth: int, day: int, length: int) -> bool:
    if nth == 0:
        return True
    return day + 7 > length if nth < 0 else (day + 6) // 7 == nth


DayMatch = Literal["and", "or"]
"""Whether a day must match both the day of month and the day of week, or one of them if both are restricted."""

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@every_minute": "* * * * *",
    "@every_second": "* * * * * *",
}
_KINDS = (SECONDS, MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)
_WORD = re.compile(r"\S+")
_FIVE, _SIX = 5, 6


@dataclass(frozen=True, slots=True)
class Plan:
    """A parsed expression. Masks have a bit for every value; ``months`` lacks those that never match."""

    normal: str
    """The expression in capitals, with single spaces, and macros expanded."""
    fields: tuple[Field, ...]
    has_seconds: bool
    restricts_both_days: bool
    interval: bool
    """Whether a repeated time is due in both its passes."""
    seconds: int
    minutes: int
    hours: int
    months: int
    days: Days


@lru_cache(maxsize=1024)
def plan(expression: str, day_match: DayMatch) -> Plan:
    """Parse ``expression``; results are cached."""
    normal, fields = _read(expression)
    seconds, minutes, hours, dom, months, dow = fields
    both = not dom.star and not dow.star
    table = days(dom, dow, either=both and day_match == "or")
    return Plan(
        normal,
        fields,
        has_seconds=len(normal.split()) == _SIX,
        restricts_both_days=both,
        interval=any(field.is_interval for field in (seconds, minutes, hours)),
        seconds=seconds.mask,
        minutes=minutes.mask,
        hours=hours.mask,
        months=reachable(months.mask, table),
        days=table,
    )


def _read(expression: str) -> tuple[str, tuple[Field, ...]]:
    words = [(found.start(), found[0]) for found in _WORD.finditer(expression)]
    if not words:
        raise CronError(expression, 1, None, f"it is empty; {_fields_wanted()}")
    start, first = words[0]
    if first.upper().startswith(("TZ=", "CRON_TZ=")):
        problem = f"found {first!r}, but the zone is not part of an expression: pass it as timezone="
        raise CronError(expression, start + 1, None, problem)
    whole = expression
    if first.startswith("@"):
        whole = _macro(expression, words)
        words = [(found.start(), found[0]) for found in _WORD.finditer(whole)]
    _check_count(whole, words)
    kinds = _KINDS[-len(words) :]
    fields = [read(kind, text, whole, start) for kind, (start, text) in zip(kinds, words, strict=True)]
    if len(words) == _FIVE:
        fields.insert(0, read(SECONDS, "0", "0", 0))
    return " ".join(text for _, text in words).upper(), tuple(fields)


def _macro(expression: str, words: list[tuple[int, str]]) -> str:
    start, name = words[0]
    meaning = MACROS.get(name.lower())
    if meaning is None:
        near = nearest_macro(name, tuple(MACROS))
        raise CronError(expression, start + 1, None, f"found {name!r}, allowed: {', '.join(MACROS)}{near}")
    if len(words) > 1:
        raise CronError(expression, words[1][0] + 1, None, f"found {words[1][1]!r}, but {name} stands alone")
    return meaning


def _check_count(expression: str, words: list[tuple[int, str]]) -> None:
    if _FIVE <= len(words) <= _SIX:
        return
    if len(words) == 1:
        start, word = words[0]
        near = nearest_macro("@" + word, tuple(MACROS))
        raise CronError(expression, start + 1, None, f"found only {word!r}; {_fields_wanted()}{near}")
    if len(words) < _FIVE:
        raise CronError(expression, words[-1][0] + 1, None, f"it ends after {len(words)} fields; {_fields_wanted()}")
    start, word = words[_SIX]
    year = "; a year field is not supported" if len(words) == _SIX + 1 else ""
    raise CronError(expression, start + 1, None, f"found {word!r} as one field too many{year}; {_fields_wanted()}")


def _fields_wanted() -> str:
    names = [kind.name for kind in _KINDS]
    return f"write 5 fields ({', '.join(names[1:])}), or 6 with {names[0]} first, or a macro such as @daily"
