"""Time zones by name, and sets of days: weekdays, dates, and functions that decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from struct import pack
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DayTest = Callable[[date], bool]
"""Returns whether a day belongs."""


@dataclass(frozen=True, slots=True)
class Days:
    """Some days of the calendar."""

    weekdays: frozenset[int] = frozenset()
    """Monday is 0."""
    dates: frozenset[date] = frozenset()
    others: tuple[DayTest, ...] = ()

    def __contains__(self, day: date) -> bool:
        """Return whether this day is one of them."""
        return day.weekday() in self.weekdays or day in self.dates or any(test(day) for test in self.others)


def read_days(written: Iterable[str], read_other: Callable[[str], DayTest]) -> Days:
    """Parse days: ``"sat"``, ``"mon-fri"``, ``"2026-12-25"``; ``read_other`` everything else. Raises ValueError."""
    weekdays: set[int] = set()
    dates: set[date] = set()
    others: list[DayTest] = []
    for each in written:
        if found := weekdays_of(each):
            weekdays |= found
        elif (day := _date(each)) is not None:
            dates.add(day)
        else:
            others.append(read_other(each))
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


_UTC = "UTC"
# One kind of local time in the format of RFC 8536, no changes between kinds: offset 0, no summer time, named UTC.
_UTC_FILE = b"TZif" + bytes(16) + pack(">6l", 0, 0, 0, 0, 1, 4) + pack(">lBB", 0, 0, 0) + b"UTC\0"


def zone(name: str) -> ZoneInfo:
    """Return the zone of this name. Raises ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        if name == _UTC:
            return ZoneInfo.from_file(BytesIO(_UTC_FILE), key=_UTC)
        hint = "" if _has_database() else ", since this host has none: pip install tzdata"
        raise ValueError(f"timezone={name!r} is not in the time zone database{hint}") from None
    except (OSError, ValueError):  # a directory, or not a file name
        raise ValueError(f"timezone={name!r} is not in the time zone database") from None


def _has_database() -> bool:
    try:
        ZoneInfo(_UTC)
    except ZoneInfoNotFoundError:
        return False
    return True
