"""Sets of days: weekdays, dates, and functions that decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date

_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Tells = Callable[[date], bool]
"""Returns whether a day belongs."""


@dataclass(frozen=True, slots=True)
class Days:
    """Some days of the calendar."""

    weekdays: frozenset[int] = frozenset()
    """Monday is 0."""
    dates: frozenset[date] = frozenset()
    others: tuple[Tells, ...] = ()

    def __contains__(self, day: date) -> bool:
        """Return whether this day is one of them."""
        return day.weekday() in self.weekdays or day in self.dates or any(tells(day) for tells in self.others)


def read_days(written: Iterable[str], tells: Callable[[str], Tells]) -> Days:
    """Parse days: ``"sat"``, ``"mon-fri"``, ``"2026-12-25"``; ``tells`` parses everything else. Raises ValueError."""
    weekdays: set[int] = set()
    dates: set[date] = set()
    others: list[Tells] = []
    for each in written:
        if found := weekdays_of(each):
            weekdays |= found
        elif (day := _date(each)) is not None:
            dates.add(day)
        else:
            others.append(tells(each))
    return Days(frozenset(weekdays), frozenset(dates), tuple(others))


def weekdays_of(text: str) -> frozenset[int]:
    """Parse weekdays, ``"sat"``, ``"mon-fri"`` or ``"fri-mon"``; empty if it is something else."""
    first, dash, last = text.strip().lower().partition("-")
    if first not in _NAMES or (dash and last not in _NAMES):
        return frozenset()
    start = _NAMES.index(first)
    span = (_NAMES.index(last) - start) % 7 if dash else 0
    return frozenset((start + step) % 7 for step in range(span + 1))


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
