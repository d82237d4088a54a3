"""What this process has counted: cumulative numbers, of which workers report the difference."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Protocol, assert_never, get_args

from mainspring.model.measures import BINS, BOUNDS, STATUSES, TIMES, Histogram, Measure
from mainspring.model.message import Draft
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.model.views import GroupRuns

TOPICS = 1_000
"""How many topics are counted by name."""
OTHER = "(other)"
"""The label of all topics beyond that; not a valid topic name."""

LeaseEvent = Literal["acquired", "refused", "lost"]
"""Acquired; held by another when the caller gave up; or not renewed in time."""

_DONE, _FAILED, _DEAD, _SNOOZED, _CANCELLED = range(len(STATUSES))
_WAIT = len(STATUSES)
_RUN = _WAIT + BINS
_WIDTH = _RUN + BINS
_COUNTED = (*((status, 0) for status in STATUSES), *((time, bin) for time in TIMES for bin in range(BINS)))
"""The meaning of each position of ``GroupCounts.numbers``."""


class GroupCounts:
    """The numbers of one group: a count per status, then the bins of its two histograms, and their sums in seconds."""

    __slots__ = ("numbers", "ran", "taken", "waited")

    def __init__(self) -> None:
        self.numbers: list[int] = [0] * _WIDTH
        self.taken: list[int] = [0] * _WIDTH
        """The part that was already taken for a report."""
        self.waited: float = 0.0
        self.ran: float = 0.0

    @property
    def statuses(self) -> dict[str, int]:
        """How many attempts ended with each status."""
        return dict(zip(STATUSES, self.numbers, strict=False))

    @property
    def wait(self) -> Histogram:
        """How long deliveries had been due when their handlers were called."""
        return Histogram(tuple(self.numbers[_WAIT:_RUN]))

    @property
    def run(self) -> Histogram:
        """How long handlers ran."""
        return Histogram(tuple(self.numbers[_RUN:]))


class Meter:
    """Counts for one loop, its only writer; any thread may read. It costs two list increments per delivery.

    ``on_news`` is called when there is something to report, once until that is taken; ``ended`` when the loop has
    ended.
    """

    def __init__(self, ended: Callable[[Meter], None] | None = None) -> None:
        self.on_news: Callable[[], None] | None = None
        self.worker: MeteredWorker | None = None
        """The worker it belongs to."""
        self._ended = ended
        self.has_news: bool = False
        """Whether it has counts that were not taken yet."""
        self._groups: dict[str, GroupCounts] = {}

    def serves(self, groups: Iterable[str]) -> None:
        """Include these groups from now on, with zeros while there is nothing."""
        for group in groups:
            self._groups.setdefault(group, GroupCounts())

    def count(self, group: str, verdict: Verdict, wait: float | None = None, run: float | None = None) -> None:
        """Count a settled delivery; None if its handler was not called. Releases do not count."""
        place = _DONE if type(verdict) is Done else _place(verdict)
        if place is None:
            return
        counts = self._groups.get(group)
        if counts is None:
            counts = self._groups[group] = GroupCounts()
        numbers = counts.numbers
        numbers[place] += 1
        if wait is not None:
            wait = max(wait, 0.0)
            numbers[_WAIT + bisect_left(BOUNDS, wait)] += 1
            counts.waited += wait
        if run is not None:
            numbers[_RUN + bisect_left(BOUNDS, run)] += 1
            counts.ran += run
        if not self.has_news:
            self.has_news = True
            if self.on_news is not None:
                self.on_news()

    def take(self) -> tuple[dict[str, GroupRuns], tuple[Measure, ...]]:
        """Take the counts since the last call: the caller has to report them."""
        runs: dict[str, GroupRuns] = {}
        measures: list[Measure] = []
        if not self.has_news:
            return runs, ()
        self.has_news = False
        for group in sorted(self._groups):
            counts = self._groups[group]
            was, counts.taken = counts.taken, counts.numbers[:]
            if was == counts.taken:
                continue
            new = [now - before for now, before in zip(counts.taken, was, strict=True)]
            measures += [Measure(group, *what, count) for what, count in zip(_COUNTED, new, strict=True) if count]
            handled, failed = new[_DONE], new[_FAILED] + new[_DEAD]
            if handled or failed:
                runs[group] = GroupRuns(handled, failed)
        return runs, tuple(measures)

    def read(self) -> dict[str, GroupCounts]:
        """Return the counts by group. They are the live objects, and keep counting."""
        return dict(self._groups)

    def end(self) -> None:
        """Note that its loop has ended, and counts no more."""
        self.on_news = None
        if self._ended is not None:
            self._ended(self)

    def add(self, other: Meter) -> None:
        """Add the counts of another."""
        for group, theirs in list(other._groups.items()):
            ours = self._groups.setdefault(group, GroupCounts())
            ours.numbers = [mine + its for mine, its in zip(ours.numbers, theirs.numbers, strict=True)]
            ours.waited += theirs.waited
            ours.ran += theirs.ran

    def forget(self) -> None:
        """Reset to zero, with the same groups."""
        self.worker, self.has_news = None, False
        self._groups = {group: GroupCounts() for group in self._groups}


class Meters:
    """All counts of one app in this process: settled deliveries, turns of loops, published messages.

    They never decrease while the process lives; a forked child starts at zero.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meters: list[Meter] = []
        self._ended = Meter()
        self._turned: dict[str, Turns] = {}
        """The turns of loops that have ended."""
        self._published: dict[str, int] = {}
        self._brokers: Counter[tuple[str, str]] = Counter()
        self._leases: dict[LeaseEvent, int] = dict.fromkeys(get_args(LeaseEvent), 0)
        _all.add(self)

    def new_meter(self) -> Meter:
        """Return a meter for one loop."""
        meter = Meter(self._retire)
        with self._lock:
            self._meters.append(meter)
        return meter

    def _retire(self, meter: Meter) -> None:
        """Keep the counts of a meter that has ended."""
        with self._lock:
            if meter in self._meters:
                self._meters.remove(meter)
                self._ended.add(meter)
                if meter.worker is not None:
                    add(self._turned, meter.worker)
                    add_links(self._brokers, meter.worker)

    def published(self, drafts: Iterable[Draft]) -> None:
        """Count messages that were stored, or passed to a caller's transaction."""
        with self._lock:
            counts = self._published
            for draft in drafts:
                topic = draft.topic
                if topic not in counts and len(counts) >= TOPICS:
                    topic = OTHER
                counts[topic] = counts.get(topic, 0) + 1

    def topics(self) -> dict[str, int]:
        """Return how many messages were published, by topic."""
        with self._lock:
            return dict(self._published)

    def leases(self, event: LeaseEvent) -> None:
        """Count what happened to a lease here."""
        with self._lock:
            self._leases[event] += 1

    def lease_events(self) -> dict[LeaseEvent, int]:
        """Return how often each happened to leases here."""
        with self._lock:
            return dict(self._leases)

    def groups(self) -> dict[str, GroupCounts]:
        """Return the settled deliveries, by group."""
        total = Meter()
        with self._lock:
            for each in (self._ended, *self._meters):
                total.add(each)
        return total.read()

    def loops(self) -> dict[str, Turns]:
        """Return the turns of loops, by name, of all workers past and present."""
        with self._lock:
            total = dict(self._turned)
            for meter in self._meters:
                if meter.worker is not None:
                    add(total, meter.worker)
        return total

    def brokers(self) -> Counter[tuple[str, str]]:
        """Return what connections to brokers have counted, by name and event, of all workers past and present."""
        with self._lock:
            total = Counter(self._brokers)
            for meter in self._meters:
                if meter.worker is not None:
                    add_links(total, meter.worker)
        return total

    def workers(self) -> list[MeteredWorker]:
        """Return the workers that count here."""
        with self._lock:
            return [meter.worker for meter in self._meters if meter.worker is not None]

    def forget(self) -> None:
        """Reset after a fork: the counts, the workers and the holder of the lock belong to the parent."""
        self._lock = threading.Lock()
        self._ended, self._turned, self._published, self._brokers = Meter(), {}, {}, Counter()
        self._leases = dict.fromkeys(get_args(LeaseEvent), 0)
        for meter in self._meters:
            meter.forget()


def _place(verdict: Verdict) -> int | None:
    match verdict:
        case Done():
            return _DONE
        case Retry():
            return _FAILED
        case Bury():
            return _DEAD
        case Snooze():
            return _SNOOZED
        case Cancel():
            return _CANCELLED
        case Release():
            return None
        case _:
            assert_never(verdict)


_all: weakref.WeakSet[Meters] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class Turns(NamedTuple):
    """How many turns a loop has made, and how many failed."""

    turns: int
    failed: int


class LoopTurns(Protocol):
    """The report of a loop."""

    @property
    def turns(self) -> int:
        """The number of its turns."""
        ...

    @property
    def failed(self) -> int:
        """The number of its failed turns."""
        ...


class CountedLink(Protocol):
    """A connection to a broker, as far as metrics describe it."""

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        ...

    @property
    def counts(self) -> Mapping[Any, int]:
        """How often each event happened."""
        ...

    @property
    def lag(self) -> int | None:
        """How many messages wait in the broker; None if that is unknown."""
        ...


class MeteredWorker(Protocol):
    """A worker, as far as metrics describe it."""

    @property
    def in_hand(self) -> int:
        """The number of deliveries it holds."""
        ...

    def progress(self) -> Mapping[str, LoopTurns]:
        """Return the state of each loop."""
        ...

    def pauses(self) -> Mapping[str, timedelta]:
        """Return the groups whose breakers are open."""
        ...

    def links(self) -> Iterable[tuple[str, CountedLink]]:
        """Return its connections to brokers, and their names, of which a route and an intake may share one."""
        ...


def add_links(total: Counter[tuple[str, str]], worker: MeteredWorker) -> None:
    """Add what this worker's connections to brokers have counted, by their names and events."""
    for name, link in worker.links():
        total.update({(name, event): count for event, count in link.counts.items()})


def add(total: dict[str, Turns], worker: MeteredWorker) -> None:
    """Add the turns of this worker's loops."""
    for loop, report in worker.progress().items():
        before = total.get(loop, Turns(0, 0))
        total[loop] = Turns(before.turns + report.turns, before.failed + report.failed)
