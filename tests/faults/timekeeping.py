"""The checker of schedules: what fired, by handlers and by tables, held against what was due."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tests.faults.calculator import MICROS, due_times
from tests.faults.ledger import Execution
from tests.faults.plan import Entry

_PRECISION = 0.001
"""Seconds to which two clocks of one machine can be compared."""

Occasion = tuple[str, int]
"""One occurrence: the schedule's name, and the due time in microseconds of the epoch."""


class Stored(NamedTuple):
    """An occurrence as a table has it."""

    schedule: str
    due: int
    id: UUID
    ended: bool
    """Whether this row is the end of it, done or dead."""


@dataclass
class Timekeeping:
    """What was found; every set is empty when all is well."""

    expected: int
    fired: int
    executed: int
    duplicates: int
    bound: int
    latest: float
    """Seconds between a due time and its handler, at the worst."""
    missing: set[Occasion] = field(default_factory=set)
    """Due, but no message of it is stored, or no handler has ended it."""
    doubled: set[Occasion] = field(default_factory=set)
    """Published as two messages, or ended twice."""
    extra: set[Occasion] = field(default_factory=set)
    """Published, but never due."""
    early: set[Occasion] = field(default_factory=set)
    """Begun before it was due."""

    @property
    def flawless(self) -> bool:
        """Whether every occurrence was published exactly once and in time, and repetitions stayed within bounds."""
        return not (self.missing or self.doubled or self.extra or self.early) and self.duplicates <= self.bound

    def line(self) -> str:
        return (
            f"expected={self.expected} fired={self.fired} missing={len(self.missing)} doubled={len(self.doubled)} "
            f"extra={len(self.extra)} early={len(self.early)} executed={self.executed} "
            f"duplicates={self.duplicates}≤{self.bound} latest={self.latest:.1f}s"
        )


def due_of(entries: Iterable[Entry], since: Mapping[str, int], until: int) -> set[Occasion]:
    """Every occurrence after the instant at which its schedule began, as the calculator has it."""
    return {(entry.name, at) for entry in entries for at in due_times(entry, since[entry.name], until)}


def judge_occurrences(
    expected: set[Occasion],
    executed: Iterable[Execution],
    stored: Iterable[Stored],
    *,
    until: int,
    bound: int,
    since: int = 0,
    clock_offset: float = 0.0,
) -> Timekeeping:
    """Judge what was due between two instants. ``clock_offset`` is what the monotonic clock lacks of the epoch's."""
    runs = [each for each in executed if each.schedule is not None and since < each.due <= until]
    rows = [each for each in stored if since < each.due <= until]
    begun = {(str(each.schedule), each.due) for each in runs}
    ended = {(str(each.schedule), each.due) for each in runs if each.outcome == "ok"}
    published = {(each.schedule, each.due) for each in rows}
    ids: dict[Occasion, set[UUID]] = defaultdict(set)
    for each in runs:
        ids[str(each.schedule), each.due].add(each.id)
    for row in rows:
        ids[row.schedule, row.due].add(row.id)
    ends = Counter((row.schedule, row.due, row.id) for row in rows if row.ended)
    started = Counter(each.id for each in runs)
    late = [each.began + clock_offset - each.due / MICROS for each in runs]
    return Timekeeping(
        expected=len(expected),
        fired=len(begun | published),
        executed=len(runs),
        duplicates=sum(started.values()) - len(started),
        bound=bound,
        latest=max(late, default=0.0),
        missing=expected - (ended & published),
        doubled={occasion for occasion, those in ids.items() if len(those) > 1}
        | {(schedule, due) for (schedule, due, _), count in ends.items() if count > 1},
        extra=(begun | published) - expected,
        early={(str(run.schedule), run.due) for run, by in zip(runs, late, strict=True) if by < -_PRECISION},
    )
