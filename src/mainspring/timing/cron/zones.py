"""Where a zone turns its clocks: wall times that are skipped, and wall times that come twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

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
        """Whether the wall times are skipped; otherwise they come twice."""
        return self.before < self.after

    @property
    def start(self) -> datetime:
        """The first wall time that is skipped or comes twice."""
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
    """The gap or overlap that ``wall`` is in, or None when it is an ordinary time, as nearly all are.

    Asks the zone at ``wall`` alone (PEP 495: the two folds differ in gaps and overlaps, and nowhere else), and
    looks for the instant of the change only when there is one.
    """
    if type(zone) is ZoneInfo:
        # It reads the fields of the datetime alone, so this saves making two aware ones. Nearly every call ends here.
        before, after = zone.utcoffset(wall), zone.utcoffset(wall.replace(fold=1))
        if before == after:
            return None
    else:
        aware = wall.replace(tzinfo=zone)
        before, after = aware.utcoffset(), aware.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    if before == after:
        # Zones from elsewhere may not tell a gap by its folds. Then the way to UTC and back does not return to it.
        other = _offset_beyond(zone, wall, before)
        if other == before:
            return None
        before, after = min(before, other), max(before, other)
    return Change(zone, _instant(zone, wall, before, after), before, after)


def settled(zone: tzinfo, wall: datetime, fold: int) -> tuple[datetime, int, Change | None]:
    """The same instant as a wall time that exists, and the overlap it is in.

    A time within a gap is read with the offset that its fold names, as Python reads it.
    """
    change = change_at(zone, wall)
    if change is None or not change.is_gap:
        return wall, fold, change
    instant = wall - (change.after if fold else change.before)
    real = zone.fromutc(instant.replace(tzinfo=zone))
    wall, fold = real.replace(tzinfo=None, fold=0), real.fold
    return wall, fold, change_at(zone, wall)


def refuse_zone(zone: tzinfo) -> None:
    """Raise for a zone whose datetimes cannot be moved: a pytz zone keeps the offset of one half of the year."""
    if hasattr(zone, "_utc_transition_times"):
        name = getattr(zone, "zone", "Europe/Paris")
        raise ValueError(
            f"{zone!r} is a zone of pytz, which cannot tell other times of the year: use ZoneInfo({name!r})"
        )


def _offset_beyond(zone: tzinfo, wall: datetime, offset: timedelta) -> timedelta:
    try:
        instant = wall - offset
        return zone.fromutc(instant.replace(tzinfo=zone)).replace(tzinfo=None) - instant
    except OverflowError:
        return offset  # the first or last hours that a datetime can hold


def _instant(zone: tzinfo, wall: datetime, before: timedelta, after: timedelta) -> datetime:
    """Halve the span in which the change must lie until it is one second: zones change on whole seconds."""
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
