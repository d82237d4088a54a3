"""What this process has counted: cumulative numbers, from which workers report what is new."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from mainspring.model.measures import BINS, BOUNDS, STATUSES, TIMES, Histogram, Measure
from mainspring.model.message import Draft
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.model.views import GroupRuns
from mainspring.telemetry.turns import Turns, Worked, add

TOPICS = 1_000
"""How many topics are told apart by name."""
OTHER = "(other)"
"""All the topics beyond that: no topic is called so."""

_DONE, _FAILED, _DEAD, _SNOOZED, _CANCELLED = range(len(STATUSES))
_WAIT = len(STATUSES)
_RUN = _WAIT + BINS
_WIDTH = _RUN + BINS
_COUNTED = (*((status, 0) for status in STATUSES), *((time, bin) for time in TIMES for bin in range(BINS)))
"""What stands at each place of a tape."""


class Tape:
    """The numbers of one group: a count per status, then the bins of its two histograms, and their sums."""

    __slots__ = ("numbers", "ran", "told", "waited")

    def __init__(self) -> None:
        self.numbers: list[int] = [0] * _WIDTH
        self.told: list[int] = [0] * _WIDTH
        """What of it was taken to be reported."""
        self.waited: float = 0.0
        self.ran: float = 0.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What this process has done for one group since it started."""

    statuses: dict[str, int]
    wait: Histogram
    waited: float
    """Seconds, all together."""
    run: Histogram
    ran: float


class Meter:
    """Counts for one loop, which nobody else writes to; anybody may read. It costs two list increments per delivery.

    ``stirred`` is called when there is something to report, once until that was taken; ``ended`` when nobody will count
    with it any more.
    """

    def __init__(self, ended: Callable[[Meter], None] | None = None) -> None:
        self.stirred: Callable[[], None] | None = None
        self.worker: Worked | None = None
        """Whose meter it is."""
        self._ended = ended
        self.has_news: bool = False
        """Whether something was counted that nobody has taken."""
        self._tapes: dict[str, Tape] = {}

    def serves(self, groups: Iterable[str]) -> None:
        """These groups may be counted: they are told from now on, with nothing as long as there is nothing."""
        for group in groups:
            self._tapes.setdefault(group, Tape())

    def count(self, group: str, verdict: Verdict, wait: float | None = None, run: float | None = None) -> None:
        """A delivery was settled; None: its handler was not called. What is handed back does not count."""
        place = _DONE if type(verdict) is Done else _place(verdict)
        if place is None:
            return
        tape = self._tapes.get(group)
        if tape is None:
            tape = self._tapes[group] = Tape()
        numbers = tape.numbers
        numbers[place] += 1
        if wait is not None:
            wait = max(wait, 0.0)
            numbers[_WAIT + bisect_left(BOUNDS, wait)] += 1
            tape.waited += wait
        if run is not None:
            numbers[_RUN + bisect_left(BOUNDS, run)] += 1
            tape.ran += run
        if not self.has_news:
            self.has_news = True
            if self.stirred is not None:
                self.stirred()

    def take(self) -> tuple[dict[str, GroupRuns], tuple[Measure, ...]]:
        """What was counted since it was last taken: who takes it has to report it."""
        runs: dict[str, GroupRuns] = {}
        measures: list[Measure] = []
        if not self.has_news:
            return runs, ()
        self.has_news = False
        for group in sorted(self._tapes):
            tape = self._tapes[group]
            was, tape.told = tape.told, tape.numbers[:]
            if was == tape.told:
                continue
            new = [now - before for now, before in zip(tape.told, was, strict=True)]
            measures += [Measure(group, *what, count) for what, count in zip(_COUNTED, new, strict=True) if count]
            handled, failed = new[_DONE], new[_FAILED] + new[_DEAD]
            if handled or failed:
                runs[group] = GroupRuns(handled, failed)
        return runs, tuple(measures)

    def read(self) -> dict[str, Counted]:
        """All that was counted, by group."""
        return {group: _counted(tape) for group, tape in list(self._tapes.items())}

    def end(self) -> None:
        """Its loop has ended, and counts no more."""
        self.stirred = None
        if self._ended is not None:
            self._ended(self)

    def add(self, other: Meter) -> None:
        """Count what another has counted."""
        for group, theirs in list(other._tapes.items()):
            ours = self._tapes.setdefault(group, Tape())
            ours.numbers = [mine + its for mine, its in zip(ours.numbers, theirs.numbers, strict=True)]
            ours.waited += theirs.waited
            ours.ran += theirs.ran

    def forget(self) -> None:
        """Begin at nothing again, with the same groups."""
        self.worker, self.has_news = None, False
        self._tapes = {group: Tape() for group in self._tapes}


class Meters:
    """All that one app counts in this process: deliveries by whoever settles them, turns of loops, what it publishes.

    Nothing of it ever goes back while the process lives; a forked child begins at nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meters: list[Meter] = []
        self._ended = Meter()
        self._turned: dict[str, Turns] = {}
        """The turns of loops that have ended."""
        self._published: dict[str, int] = {}
        _all.add(self)

    def hire(self) -> Meter:
        """A meter for one loop."""
        meter = Meter(self._retire)
        with self._lock:
            self._meters.append(meter)
        return meter

    def _retire(self, meter: Meter) -> None:
        """What it has counted stays counted."""
        with self._lock:
            if meter in self._meters:
                self._meters.remove(meter)
                self._ended.add(meter)
                if meter.worker is not None:
                    add(self._turned, meter.worker)

    def published(self, drafts: Iterable[Draft]) -> None:
        """These were stored, or handed to the transaction of a caller."""
        with self._lock:
            counts = self._published
            for draft in drafts:
                topic = draft.topic
                if topic not in counts and len(counts) >= TOPICS:
                    topic = OTHER
                counts[topic] = counts.get(topic, 0) + 1

    def topics(self) -> dict[str, int]:
        """How many messages were published, by topic."""
        with self._lock:
            return dict(self._published)

    def groups(self) -> dict[str, Counted]:
        """What became of deliveries, by group."""
        total = Meter()
        with self._lock:
            for each in (self._ended, *self._meters):
                total.add(each)
        return total.read()

    def loops(self) -> dict[str, Turns]:
        """How often loops have turned, by name: those of all workers there are and were."""
        with self._lock:
            total = dict(self._turned)
            for meter in self._meters:
                if meter.worker is not None:
                    add(total, meter.worker)
        return total

    def workers(self) -> list[Worked]:
        """Those that count here."""
        with self._lock:
            return [meter.worker for meter in self._meters if meter.worker is not None]

    def forget(self) -> None:
        """After a fork: the parent tells of what was counted, and with it stayed its workers and who held the lock."""
        self._lock = threading.Lock()
        self._ended, self._turned, self._published = Meter(), {}, {}
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


def _counted(tape: Tape) -> Counted:
    numbers = tape.numbers
    return Counted(
        dict(zip(STATUSES, numbers, strict=False)),
        Histogram(tuple(numbers[_WAIT:_RUN])),
        tape.waited,
        Histogram(tuple(numbers[_RUN:])),
        tape.ran,
    )


_all: weakref.WeakSet[Meters] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
