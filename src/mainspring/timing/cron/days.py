"""The days of a month that a cron expression matches.

A month is known by the weekday of its first day and by its length, so there are only 28 kinds of month, and each
occurs within the 400 years after which the calendar repeats. What matches in none of them never matches.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from mainspring.timing.cron.fields import Field

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
