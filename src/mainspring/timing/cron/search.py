"""The search for occurrences: matching wall times, by bits and a month at a time, and their instants in a zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

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
