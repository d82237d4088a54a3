"""Instants of a schedule in its zone, with notes on daylight saving."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from mainspring.dashboard.answers import plain
from mainspring.timing.duration import spell

_SECOND = timedelta(seconds=1)


class Instant(Struct, frozen=True):
    """One instant: in UTC, and in local time of the zone."""

    at: datetime
    local: str
    """Such as 2026-11-16T09:00:00, without an offset."""
    offset: str
    """Such as +01:00."""
    note: str | None
    """The effect of daylight saving on it; null: none."""


def instants(times: Sequence[datetime], since: datetime) -> list[Instant]:
    """Convert these instants, each in its zone; the first is compared with ``since``."""
    found = []
    before = since
    for each in times:
        written = each.isoformat(timespec="seconds")
        local, offset = written[:19], written[19:]
        found.append(Instant(plain(each), local, offset, _note(before.astimezone(each.tzinfo), each)))
        before = each
    return found


def _note(before: datetime, each: datetime) -> str | None:
    said = []
    ahead = _offset(each) - _offset(before)
    if ahead:
        turned = _turned(before, each)
        way = "forward" if ahead > timedelta() else "back"
        day = "" if turned.date() == each.date() else f" on {turned.date()}"
        said.append(f"clocks go {way} {spell(abs(ahead))}{day} at {turned:%H:%M}")
    if _offset(each.replace(fold=0)) > _offset(each.replace(fold=1)):
        said.append(f"{each:%H:%M} occurs twice: this is the {'second' if each.fold else 'first'}")
    return "; ".join(said) or None


def _turned(low: datetime, high: datetime) -> datetime:
    """Return the local time of the last offset change between two instants of one zone."""
    zone, early, late = high.tzinfo, low.astimezone(UTC), high.astimezone(UTC)
    after = _offset(high)
    while late - early > _SECOND:
        middle = early + (late - early) / 2
        if _offset(middle.astimezone(zone)) == after:
            late = middle
        else:
            early = middle
    return (early.astimezone(zone).replace(tzinfo=None) + _SECOND).replace(microsecond=0)


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()
