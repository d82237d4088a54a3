"""A parsed cron expression as masks, and the search for its occurrences: wall times first, then instants in a zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from mainspring.timing.cron.fields import Field, read_fields

DayMatch = Literal["and", "or"]
"""Whether a day must match both the day of month and the day of week, or one of them if both are restricted."""

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
    normal, fields = read_fields(expression)
    seconds, minutes, hours, dom, months, dow = fields
    both = not dom.star and not dow.star
    table = days(dom, dow, either=both and day_match == "or")
    return Plan(
        normal,
        fields,
        has_seconds=len(normal.split()) == len(fields),
        restricts_both_days=both,
        interval=any(field.is_interval for field in (seconds, minutes, hours)),
        seconds=seconds.mask,
        minutes=minutes.mask,
        hours=hours.mask,
        months=reachable(months.mask, table),
        days=table,
    )


def at_or_after(plan: Plan, wall: datetime, *, inclusive: bool) -> datetime | None:
    """Return the first matching wall time after ``wall``, or ``wall`` itself if ``inclusive``; None if there is none.

    ``wall`` is naive and whole seconds. What can match at all matches within 40 years, so this ends.
    """
    year, month, day = wall.year, wall.month, wall.day
    rest = 0
    if plan.months >> month & 1:
        mask = plan.days[shape(year, month)] >> day
        if mask & 1:
            found = _later_that_day(plan, wall, inclusive=inclusive)
            if found is not None:
                return found
        rest = mask >> 1
    if rest:
        day += _lowest(rest) + 1
    else:
        while True:
            later = plan.months >> (month + 1)
            if later:
                month += _lowest(later) + 1
            elif year == MAXYEAR or not plan.months:
                return None
            else:
                year, month = year + 1, _lowest(plan.months)
            mask = plan.days[shape(year, month)]
            if mask:
                day = _lowest(mask)
                break
    return datetime(year, month, day, _lowest(plan.hours), _lowest(plan.minutes), _lowest(plan.seconds))  # noqa: DTZ001


def at_or_before(plan: Plan, wall: datetime, *, inclusive: bool) -> datetime | None:
    """Return the last matching wall time before ``wall``, or ``wall`` itself with ``inclusive``; else None."""
    year, month, day = wall.year, wall.month, wall.day
    rest = 0
    if plan.months >> month & 1:
        mask = plan.days[shape(year, month)]
        if mask >> day & 1:
            found = _earlier_that_day(plan, wall, inclusive=inclusive)
            if found is not None:
                return found
        rest = _below(mask, day)
    if rest:
        day = _highest(rest)
    else:
        while True:
            earlier = _below(plan.months, month)
            if earlier:
                month = _highest(earlier)
            elif year == MINYEAR or not plan.months:
                return None
            else:
                year, month = year - 1, _highest(plan.months)
            mask = plan.days[shape(year, month)]
            if mask:
                day = _highest(mask)
                break
    return datetime(year, month, day, _highest(plan.hours), _highest(plan.minutes), _highest(plan.seconds))  # noqa: DTZ001


def _later_that_day(plan: Plan, wall: datetime, *, inclusive: bool) -> datetime | None:
    hour, minute = wall.hour, wall.minute
    if plan.hours >> hour & 1:
        if plan.minutes >> minute & 1:
            second = wall.second + (not inclusive)
            rest = plan.seconds >> second
            if rest:
                return wall.replace(second=second + _lowest(rest))
        rest = plan.minutes >> (minute + 1)
        if rest:
            return wall.replace(minute=minute + 1 + _lowest(rest), second=_lowest(plan.seconds))
    rest = plan.hours >> (hour + 1)
    if not rest:
        return None
    return wall.replace(hour=hour + 1 + _lowest(rest), minute=_lowest(plan.minutes), second=_lowest(plan.seconds))


def _earlier_that_day(plan: Plan, wall: datetime, *, inclusive: bool) -> datetime | None:
    hour, minute = wall.hour, wall.minute
    if plan.hours >> hour & 1:
        if plan.minutes >> minute & 1:
            rest = _below(plan.seconds, wall.second + inclusive)
            if rest:
                return wall.replace(second=_highest(rest))
        rest = _below(plan.minutes, minute)
        if rest:
            return wall.replace(minute=_highest(rest), second=_highest(plan.seconds))
    rest = _below(plan.hours, hour)
    if not rest:
        return None
    return wall.replace(hour=_highest(rest), minute=_highest(plan.minutes), second=_highest(plan.seconds))


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1


def _below(mask: int, bit: int) -> int:
    """Return the bits of ``mask`` that are lower than ``bit``."""
    return mask & ((1 << bit) - 1)


def following(plan: Plan, zone: tzinfo, wall: datetime, fold: int, *, inclusive: bool, fires: bool) -> datetime | None:
    """Return the first occurrence after ``wall`` in ``zone``; ``fires`` decides about skipped times."""
    wall, fold, overlap = settled(zone, wall, fold)
    if overlap is not None:
        if not fold:
            found = at_or_after(plan, wall, inclusive=inclusive)
            if found is not None and found < overlap.end:
                return found.replace(tzinfo=zone)
            wall, inclusive = overlap.start, True
        if plan.interval:
            found = at_or_after(plan, wall, inclusive=inclusive)
            if found is not None and found < overlap.end:
                return found.replace(tzinfo=zone, fold=1)
        wall, inclusive = overlap.end, True
    while True:
        found = at_or_after(plan, wall, inclusive=inclusive)
        if found is None:
            return None
        change = change_at(zone, found)
        if change is None or not change.is_gap:
            return found.replace(tzinfo=zone)
        if fires:
            return change.moment
        wall, inclusive = change.end, True


def preceding(plan: Plan, zone: tzinfo, wall: datetime, fold: int, *, inclusive: bool, fires: bool) -> datetime | None:
    """Return the last occurrence before ``wall`` in ``zone``: the same occurrences as ``following``, backwards."""
    wall, fold, overlap = settled(zone, wall, fold)
    if overlap is not None and fold:
        if plan.interval:
            found = at_or_before(plan, wall, inclusive=inclusive)
            if found is not None and found >= overlap.start:
                return found.replace(tzinfo=zone, fold=1)
        wall, inclusive = overlap.end, False  # all of the first pass is before
    while True:
        found = at_or_before(plan, wall, inclusive=inclusive)
        if found is None:
            return None
        if overlap is not None and found >= overlap.start:
            return found.replace(tzinfo=zone)  # in the first pass, or back in it
        change = change_at(zone, found)
        if change is None:
            return found.replace(tzinfo=zone)
        if not change.is_gap:
            return found.replace(tzinfo=zone, fold=int(plan.interval))
        if fires and (inclusive or change.end < wall):
            return change.moment
        wall, inclusive = change.start, False


_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Change:
    """A gap or an overlap: the wall times from ``start`` up to, not including, ``end``."""

    zone: tzinfo
    at: datetime
    """The instant, in UTC and naive."""
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        """Whether the wall times are skipped; otherwise they occur twice."""
        return self.before < self.after

    @property
    def start(self) -> datetime:
        """The first wall time that is skipped or occurs twice."""
        return self.at + min(self.before, self.after)

    @property
    def end(self) -> datetime:
        """The first wall time after those."""
        return self.at + max(self.before, self.after)

    @property
    def moment(self) -> datetime:
        """The instant of the change, aware."""
        return self.zone.fromutc(self.at.replace(tzinfo=self.zone))


def change_at(zone: tzinfo, wall: datetime) -> Change | None:
    """Return the gap or overlap that contains ``wall``, or None for an ordinary time, as nearly all are.

    Queries the zone at ``wall`` alone (PEP 495: the two folds differ in gaps and overlaps, and nowhere else), and
    searches the instant of the change only if there is one.
    """
    if type(zone) is ZoneInfo:
        # Only the fields of the datetime are read, so no aware ones need be created. Nearly every call ends here.
        before, after = zone.utcoffset(wall), zone.utcoffset(wall.replace(fold=1))
        if before == after:
            return None
    else:
        aware = wall.replace(tzinfo=zone)
        before, after = aware.utcoffset(), aware.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    if before == after:
        # Third-party zones may have equal folds in a gap. Then conversion to UTC and back returns another time.
        other = _offset_beyond(zone, wall, before)
        if other == before:
            return None
        before, after = min(before, other), max(before, other)
    return Change(zone, _instant(zone, wall, before, after), before, after)


def settled(zone: tzinfo, wall: datetime, fold: int) -> tuple[datetime, int, Change | None]:
    """Return the same instant as a wall time that exists, and the overlap it is in.

    A time within a gap is interpreted with the offset of its fold, as Python does.
    """
    change = change_at(zone, wall)
    if change is None or not change.is_gap:
        return wall, fold, change
    instant = wall - (change.after if fold else change.before)
    real = zone.fromutc(instant.replace(tzinfo=zone))
    wall, fold = real.replace(tzinfo=None, fold=0), real.fold
    return wall, fold, change_at(zone, wall)


def refuse_zone(zone: tzinfo) -> None:
    """Raise for a zone without correct arithmetic: a pytz zone keeps the offset of one half of the year."""
    if hasattr(zone, "_utc_transition_times"):
        name = getattr(zone, "zone", "Europe/Paris")
        raise ValueError(f"{zone!r} is a pytz zone, which has one offset for the whole year: use ZoneInfo({name!r})")


def _offset_beyond(zone: tzinfo, wall: datetime, offset: timedelta) -> timedelta:
    try:
        instant = wall - offset
        return zone.fromutc(instant.replace(tzinfo=zone)).replace(tzinfo=None) - instant
    except OverflowError:
        return offset  # the first or last hours that a datetime can hold


def _instant(zone: tzinfo, wall: datetime, before: timedelta, after: timedelta) -> datetime:
    """Bisect the span that contains the change, to one second: zones change on whole seconds."""
    early = wall - max(before, after)
    span = abs(after - before) // _SECOND
    low, high = 0, span
    while high - low > 1:
        middle = (low + high) // 2
        instant = early + middle * _SECOND
        if zone.fromutc(instant.replace(tzinfo=zone)).replace(tzinfo=None) - instant == before:
            low = middle
        else:
            high = middle
    return early + high * _SECOND
