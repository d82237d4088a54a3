"""Measures: outcomes of deliveries, waiting times and run times, added up by time."""

from __future__ import annotations

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
"""The upper bounds of a histogram's bins in seconds, from 0.0001 to 5000; one more bin is for longer times."""
BINS = len(BOUNDS) + 1

Status = Literal["done", "failed", "dead", "snoozed", "cancelled"]
"""How an attempt ended: ``failed`` is retried, ``dead`` is not."""
Time = Literal["wait", "run"]
"""What is measured: from its due time to its start, and from its start to its end."""
What = Literal[Status, Time]
Row = tuple[What, int, int]
"""What was counted, its bin, and how many."""

STATUSES: tuple[Status, ...] = get_args(Status)
TIMES: tuple[Time, ...] = get_args(Time)

SPANS: Mapping[int, timedelta] = {10: timedelta(hours=2), 600: timedelta(days=8)}
"""The length of a row's span in seconds, and for how long such rows are kept."""

Window = Literal["15m", "2h", "24h", "7d"]
WINDOWS: Mapping[Window, tuple[int, int]] = {"15m": (10, 90), "2h": (10, 720), "24h": (600, 144), "7d": (600, 1008)}
"""The length of a bucket in each window, in seconds, and how many there are."""


def slot(now: datetime, span: int) -> datetime:
    """Return the start of the span of so many seconds that contains ``now``, counted from 1970."""
    since = int(now.timestamp())  # whole seconds: fractions change no span
    return datetime.fromtimestamp(since - since % span, UTC)


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A number of deliveries of a group with one outcome, or with a time in one bin."""

    group: str
    what: What
    bin: int
    """Zero for counts without a time."""
    count: int


def with_totals(measures: Iterable[Measure]) -> list[Measure]:
    """Return the same, each once, and their totals under an empty name: so all groups are read as quickly as one."""
    sums: Counter[tuple[str, What, int]] = Counter()
    for each in measures:
        for name in (each.group, ""):
            sums[name, each.what, each.bin] += each.count
    return [Measure(*what, count) for what, count in sorted(sums.items())]


class Sums(NamedTuple, Generic[Of]):
    """The stored counts of a window, each with its time or its group, and when they were read."""

    now: datetime
    """By the database's clock."""
    rows: tuple[tuple[Of, What, int, int], ...]
    """Time or group, what was counted, its bin, and how many."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of times in each bin of ``BOUNDS``, and beyond them."""

    counts: tuple[int, ...] = (0,) * BINS

    @property
    def total(self) -> int:
        """The number of times measured."""
        return sum(self.counts)

    def quantile(self, q: float) -> float | None:
        """Return the seconds within which that share of all times lies, as in ``quantile(0.95)``; None without any.

        Within a bin they are assumed to be evenly spread. Times beyond the last bound are returned as that.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"quantile({q!r}): a share is from 0 to 1, as in quantile(0.95)")
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
    """Attempts that ended within one span of time from ``at``."""

    at: datetime
    done: int = 0
    failed: int = 0
    """Attempts that failed and are retried."""
    dead: int = 0
    """Attempts that failed, and were the last."""
    snoozed: int = 0
    cancelled: int = 0
    wait: Histogram = NOTHING
    """From its due time to its start."""
    run: Histogram = NOTHING
    """From its start to its end."""

    @property
    def ended(self) -> int:
        """All attempts that ended."""
        return self.done + self.failed + self.dead + self.snoozed + self.cancelled


@dataclass(frozen=True, slots=True)
class MeasuresView:
    """Outcomes within a window: buckets without gaps, the last of which is still being filled."""

    now: datetime
    """When it was read, by the database's clock."""
    span: timedelta
    """The length of a bucket."""
    start: datetime
    """The start of the first bucket."""
    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> Bucket:
        """The whole window as one bucket."""
        return merged(self.start, self.buckets)


@dataclass(frozen=True, slots=True)
class RatesView:
    """Recent outcomes by group. A group without ended attempts is missing."""

    now: datetime
    start: datetime
    groups: Mapping[str, Bucket] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The length of the period."""
        return (self.now - self.start).total_seconds()

    def of(self, group: str) -> Bucket:
        """Return one group's bucket, an empty one if nothing ended."""
        return self.groups.get(group) or Bucket(self.start)

    def rate(self, group: str) -> float:
        """Return how many were done per second."""
        return self._per_second(self.of(group).done)

    def failing(self, group: str) -> float:
        """Return how many attempts failed per second, retried or not."""
        bucket = self.of(group)
        return self._per_second(bucket.failed + bucket.dead)

    def _per_second(self, count: int) -> float:
        return count / self.seconds if self.seconds > 0 else 0.0


def merged(at: datetime, buckets: Iterable[Bucket]) -> Bucket:
    """Return several buckets as one that began at ``at``."""
    rows: list[Row] = []
    for each in buckets:
        rows += [(status, 0, getattr(each, status)) for status in STATUSES]
        rows += [(time, bin, count) for time in TIMES for bin, count in enumerate(getattr(each, time).counts) if count]
    return _bucket(at, rows)


def by_time(sums: Sums[datetime], window: Window) -> MeasuresView:
    """Convert the rows of a window into buckets without gaps."""
    span, many = WINDOWS[window]
    length, start, rows = timedelta(seconds=span), started(sums.now, window), _gathered(sums)
    starts = (start + length * number for number in range(many))
    return MeasuresView(sums.now, length, start, tuple(_bucket(at, rows.get(at, ())) for at in starts))


def by_group(sums: Sums[str], back: timedelta) -> RatesView:
    """Convert the rows since so long before the current span of ten seconds into one bucket per group."""
    start, rows = slot(sums.now, min(SPANS)) - back, _gathered(sums)
    return RatesView(sums.now, start, {group: _bucket(start, rows[group]) for group in sorted(rows)})


def started(now: datetime, window: Window) -> datetime:
    """Return the start of the first bucket of a window whose last one is the current one."""
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
