"""The search for a matching wall time: by bits, a month at a time, never a day or a minute at a time."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, datetime

from mainspring.timing.cron.plan import Plan, shape


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
