"""Measures: what became of deliveries, how long they waited and how long they ran, added up by time."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

Of = TypeVar("Of")

BOUNDS: tuple[float, ...] = tuple(
    round(digit * 10.0**power, 4) for power in range(-4, 4) for digit in (1, 2, 5)
)  # fmt: skip
"""Seconds up to which each bin of a histogram reaches, from 0.0001 to 5000; one more bin is for what is beyond."""
BINS = len(BOUNDS) + 1

Status = Literal["done", "failed", "dead", "snoozed", "cancelled"]
"""How an attempt ended: ``failed`` is tried again, ``dead`` is not."""
Time = Literal["wait", "run"]
"""What is measured: from when it was due until it began, and from then until it ended."""
What = Literal[Status, Time]
Row = tuple[What, int, int]
"""What was counted, its bin, and how many."""

STATUSES: tuple[Status, ...] = get_args(Status)
TIMES: tuple[Time, ...] = get_args(Time)

SPANS: Mapping[int, timedelta] = {10: timedelta(hours=2), 600: timedelta(days=8)}
"""Seconds for which counts are added up in one row, and for how long such rows are kept."""

Window = Literal["15m", "2h", "24h", "7d"]
WINDOWS: Mapping[Window, tuple[int, int]] = {"15m": (10, 90), "2h": (10, 720), "24h": (600, 144), "7d": (600, 1008)}
"""How long a bucket is in each window, in seconds, and how many there are."""


def bin_of(seconds: float) -> int:
    """The bin of a time: the first whose bound is not below it."""
    return bisect_left(BOUNDS, seconds)


def slot(now: datetime, span: int) -> datetime:
    """When the span of so many seconds began in which ``now`` lies, counted from 1970."""
    since = int(now.timestamp())  # whole seconds: what is beyond them changes no span
    return datetime.fromtimestamp(since - since % span, UTC)


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """So many deliveries of a group that ended in some way, or whose time fell into a bin."""

    group: str
    what: What
    bin: int
    """Zero for what has no time."""
    count: int


def with_totals(measures: Iterable[Measure]) -> list[Measure]:
    """The same, each once, and what they make together under an empty name: all are read as quickly as one."""
    sums: Counter[tuple[str, What, int]] = Counter()
    for each in measures:
        for name in (each.group, ""):
            sums[name, each.what, each.bin] += each.count
    return [Measure(*what, count) for what, count in sorted(sums.items())]


class Sums(NamedTuple, Generic[Of]):
    """What is stored of a window, each count with its time or its group, and when it was read."""

    now: datetime
    """By the database's clock."""
    rows: tuple[tuple[Of, What, int, int], ...]
    """What it is a count of, what was counted, its bin, and how many."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many times fell into each bin of ``BOUNDS``, and beyond them."""

    counts: tuple[int, ...] = (0,) * BINS

    @property
    def total(self) -> int:
        """How many times were measured."""
        return sum(self.counts)

    def quantile(self, q: float) -> float | None:
        """Seconds within which that part of all times lay, as in ``quantile(0.95)``; None where there are none.

        Within a bin they are taken to be evenly spread. What is beyond the last bound is told as that.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"quantile({q!r}): a part of all is from 0 to 1, as in quantile(0.95)")
        total = self.total
        if total == 0:
            return None
        rank = q * total
        for bin, (count, reached) in enumerate(zip(self.counts, accumulate(self.counts), strict=True)):
            if count and reached >= rank:
                if bin == len(BOUNDS):
                    break
                low = BOUNDS[bin - 1] if bin else 0.0
                return low + (BOUNDS[bin] - low) * (rank - (reached - count)) / count
        return BOUNDS[-1]


NOTHING = Histogram()


@dataclass(frozen=True, slots=True)
class Bucket:
    """What ended within one span of time that began at ``at``."""

    at: datetime
    done: int = 0
    failed: int = 0
    """Attempts that failed and are made again."""
    dead: int = 0
    """Attempts that failed, and were the last."""
    snoozed: int = 0
    cancelled: int = 0
    wait: Histogram = NOTHING
    """From when each was due until it began."""
    run: Histogram = NOTHING
    """From its beginning to its end."""

    @property
    def ended(self) -> int:
        """All attempts that ended, in whatever way."""
        return self.done + self.failed + self.dead + self.snoozed + self.cancelled


@dataclass(frozen=True, slots=True)
class MeasuresView:
    """What became of deliveries within a window: buckets without gaps, the last of which is still being filled."""

    now: datetime
    """When it was read, by the database's clock."""
    span: timedelta
    """How long a bucket is."""
    start: datetime
    """When the first one began."""
    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> Bucket:
        """All of the window as one."""
        return together(self.start, self.buckets)


@dataclass(frozen=True, slots=True)
class PacesView:
    """What became of each group's deliveries lately. A group of which nothing ended is not in it."""

    now: datetime
    start: datetime
    groups: Mapping[str, Bucket] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it was looked at."""
        return (self.now - self.start).total_seconds()

    def of(self, group: str) -> Bucket:
        """One group's, an empty one where nothing ended."""
        return self.groups.get(group) or Bucket(self.start)

    def rate(self, group: str) -> float:
        """How many were done in a second."""
        return self._per_second(self.of(group).done)

    def failing(self, group: str) -> float:
        """How many attempts failed in a second, tried again or not."""
        bucket = self.of(group)
        return self._per_second(bucket.failed + bucket.dead)

    def _per_second(self, count: int) -> float:
        return count / self.seconds if self.seconds > 0 else 0.0


def together(at: datetime, buckets: Iterable[Bucket]) -> Bucket:
    """Several buckets as one that began at ``at``."""
    rows: list[Row] = []
    for each in buckets:
        rows += [(status, 0, getattr(each, status)) for status in STATUSES]
        rows += [(time, bin, count) for time in TIMES for bin, count in enumerate(getattr(each, time).counts) if count]
    return _bucket(at, rows)


def by_time(sums: Sums[datetime], window: Window) -> MeasuresView:
    """What was read of a window, as buckets without gaps."""
    span, many = WINDOWS[window]
    length, start, rows = timedelta(seconds=span), started(sums.now, window), _gathered(sums)
    starts = (start + length * number for number in range(many))
    return MeasuresView(sums.now, length, start, tuple(_bucket(at, rows.get(at, ())) for at in starts))


def by_group(sums: Sums[str], back: timedelta) -> PacesView:
    """What was read since so long before the present span of ten seconds began, as one bucket per group."""
    start, rows = slot(sums.now, min(SPANS)) - back, _gathered(sums)
    return PacesView(sums.now, start, {group: _bucket(start, rows[group]) for group in sorted(rows)})


def started(now: datetime, window: Window) -> datetime:
    """When the first bucket of a window began, the last of which is the present one."""
    span, many = WINDOWS[window]
    return slot(now, span) - timedelta(seconds=span) * (many - 1)


def _gathered(sums: Sums[Of]) -> dict[Of, list[Row]]:
    rows: dict[Of, list[Row]] = {}
    for of, what, bin, count in sums.rows:
        rows.setdefault(of, []).append((what, bin, count))
    return rows


def _bucket(at: datetime, rows: Iterable[Row]) -> Bucket:
    numbers: dict[str, int] = dict.fromkeys(STATUSES, 0)
    times: dict[str, list[int]] = {}
    for what, bin, count in rows:
        if what in numbers:
            numbers[what] += count
        elif 0 <= bin < BINS:
            times.setdefault(what, [0] * BINS)[bin] += count
    histograms = {time: Histogram(tuple(times[time])) if time in times else NOTHING for time in TIMES}
    return Bucket(at, **numbers, **histograms)  # type: ignore[arg-type]
