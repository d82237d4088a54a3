"""Every change of clocks there is, and what should happen around it, found the slow way.

Nothing here knows how cron is searched: it walks through UTC tick by tick, reads the wall clock, and applies
the rules as they are written.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo, available_timezones

MINUTE = timedelta(minutes=1)
TICK = timedelta(seconds=20)
AROUND = timedelta(minutes=80)
Tick = tuple[datetime, datetime, bool]


@dataclass(frozen=True)
class Shift:
    """One change: at ``at`` the clocks go from one offset to another."""

    at: datetime
    before: timedelta
    after: timedelta

    @cached_property
    def skipped(self) -> list[datetime]:
        """The wall times that never are, tick by tick."""
        wall, walls = (self.at + self.before).replace(tzinfo=None), []
        while wall < (self.at + self.after).replace(tzinfo=None):
            walls.append(wall)
            wall += TICK
        return walls

    @property
    def first(self) -> datetime:
        """The first wall time that is skipped or comes twice."""
        return (self.at + min(self.before, self.after)).replace(tzinfo=None)

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From well before to well after."""
        size = abs(self.after - self.before)
        return self.at - size - AROUND, self.at + size + AROUND


@dataclass(frozen=True)
class Kind:
    """An expression, and the same by hand: which wall times it means, and whether it is an interval."""

    name: str
    expression: str
    matches: Callable[[datetime], bool]
    interval: bool


def shifts(first: int, last: int) -> dict[Shift, list[str]]:
    """Every change from year ``first`` through ``last``, and the zones that have it."""
    found: dict[Shift, list[str]] = defaultdict(list)
    for name in sorted(available_timezones()):
        for shift in _shifts(ZoneInfo(name), datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)):
            found[shift].append(name)
    return found


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _shifts(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[Shift]:
    stride = timedelta(days=1)
    before = _offset(zone, start)
    while start < end:
        after = _offset(zone, start + stride)
        if after != before:
            at = start
            while _offset(zone, at) == before:
                at += timedelta(minutes=15)
            while _offset(zone, at - MINUTE) != before:
                at -= MINUTE
            yield Shift(at, before, after)
        start, before = start + stride, after


def kinds(shift: Shift) -> list[Kind]:
    """Expressions that have something to do with the hours of ``shift``."""
    first = shift.first
    size = abs(shift.after - shift.before)
    middle, end, near = first + size / 2, first + size, first - MINUTE
    here = {first.hour, (first.hour - 1) % 24, (first.hour + 1) % 24}

    def fixed(name: str, at: datetime) -> Kind:
        time = (at.hour, at.minute, 0)
        return Kind(
            name, f"{at.minute} {at.hour} * * *", lambda w: (w.hour, w.minute, w.second) == time, interval=False
        )

    def whole(matches: Callable[[datetime], bool]) -> Callable[[datetime], bool]:
        return lambda w: w.second == 0 and matches(w)

    low, high = (first.hour - 1) % 24, (first.hour + 1) % 24
    return [
        fixed("first minute of it", first),
        fixed("middle of it", middle),
        fixed("minute before it", near),
        fixed("minute after it", end),
        Kind(
            "middle of it on that date",
            f"{middle.minute} {middle.hour} {middle.day} {middle.month} *",
            whole(
                lambda w: (w.month, w.day, w.hour, w.minute) == (middle.month, middle.day, middle.hour, middle.minute)
            ),
            interval=False,
        ),
        Kind("daily", "0 0 * * *", whole(lambda w: w.hour == w.minute == 0), interval=False),
        Kind(
            "list of minutes",
            f"0,20,40 {middle.hour} * * *",
            whole(lambda w: w.hour == middle.hour and w.minute in {0, 20, 40}),
            interval=False,
        ),
        Kind(
            "list of hours",
            f"10 {','.join(map(str, sorted(here)))} * * *",
            whole(lambda w: w.minute == 10 and w.hour in here),
            interval=False,
        ),
        Kind("every minute", "* * * * *", whole(lambda _: True), interval=True),
        Kind("step of minutes", "*/15 * * * *", whole(lambda w: w.minute % 15 == 0), interval=True),
        Kind(
            "range of minutes",
            f"10-12 {middle.hour} * * *",
            whole(lambda w: w.hour == middle.hour and 10 <= w.minute <= 12),
            interval=True,
        ),
        Kind("hourly", "45 * * * *", whole(lambda w: w.minute == 45), interval=True),
        Kind("step of hours", "0 */2 * * *", whole(lambda w: w.minute == 0 and w.hour % 2 == 0), interval=True),
        Kind(
            "range of hours",
            f"30 {low}-{high} * * *",
            whole(lambda w: w.minute == 30 and w.hour in here),
            interval=True,
        ),
        Kind(
            "step of seconds",
            f"*/20 {middle.minute} * * * *",
            lambda w: w.minute == middle.minute and w.second % 20 == 0,
            interval=True,
        ),
        Kind(
            "list of seconds",
            f"20,40 {middle.minute} {middle.hour} * * *",
            lambda w: (w.hour, w.minute) == (middle.hour, middle.minute) and w.second in {20, 40},
            interval=False,
        ),
    ]


def walls(shift: Shift, zone: ZoneInfo) -> list[Tick]:
    """Every tick around ``shift``: the instant, the wall clock, and whether it shows that time again."""
    at, end = shift.span
    found = []
    while at < end:
        local = at.astimezone(zone)
        found.append((at, local.replace(tzinfo=None, fold=0), local.fold == 1))
        at += TICK
    return found


def due(kind: Kind, shift: Shift, ticks: list[Tick], *, fires: bool) -> list[datetime]:
    """When ``kind`` is due around ``shift``, by the rules as they are written."""
    late = fires and any(kind.matches(wall) for wall in shift.skipped)
    return [
        at
        for at, wall, again in ticks
        if (kind.matches(wall) and (kind.interval or not again)) or (late and at == shift.at)
    ]
