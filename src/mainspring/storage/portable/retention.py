"""Retention: the age at which each kind of record is removed, topic by topic, and the chores that remove them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.model.retention import CHORES, KINDS, Chore, Kind, Pruned, Retention
from mainspring.model.worker import FORGOTTEN_AFTER
from mainspring.storage.operation import operation
from mainspring.storage.patterns import is_wild, matches, specificity
from mainspring.storage.portable.dialect import SqlOperations
from mainspring.storage.script import Script

STATUSES: dict[Kind, tuple[str, ...]] = {
    "done": ("done", "snoozed", "cancelled"),
    "failures": ("failed", "dead", "lost"),
}
"""The runs of each kind."""


STRETCH = 1_000
"""How many topics one call visits."""
CHOICE = 20_000
"""How many parked messages of a stretch are examined to find the oldest."""
_COUNTED: dict[Chore, str] = {"done": "runs", "failures": "runs", "bells": ""}
"""The fields that count them, where it is not their own name."""
_TOPICS: dict[Kind, str] = {
    "done": "topics_ran",
    "failures": "topics_ran",
    "dead": "topics_dead",
    "parked": "topics_parked",
}
"""The statements that list the topics of each kind with the age of their oldest record."""
_BY_AGE: dict[Chore, tuple[str, str]] = {
    "audit": ("prune_audit", "audit"),
    "schedules": ("prune_schedules", "done"),
    "inbox": ("prune_inbox", "inbox"),
    "leases": ("prune_leases", "leases"),
    "cursors": ("prune_cursors", "cursors"),
}
"""The chores that are one statement, and the field of ``Retention`` with the age."""
Found = tuple[int, str | None]
"""How many were removed, and the topic after which to continue; empty: there is more of the same; None: no more."""


class Ages:
    """A retention for the topics of a pattern, or for all.

    Where no topic has a retention of its own, a kind is removed by its age alone; otherwise topic by topic, so that
    rows that one topic keeps for years are not scanned for the others.
    """

    def __init__(self, retention: Retention, pattern: str | None) -> None:
        self.retention: Retention = retention
        self._pattern = pattern
        self._ranked = sorted(retention.topics.items(), key=lambda rule: specificity(rule[0]))

    def of(self, kind: Kind, topic: str) -> timedelta | None:
        """Return how long this kind is kept on this topic; None: for ever, or the topic does not match."""
        if self._pattern is not None and not matches(self._pattern, topic):
            return None
        kept: timedelta | None = getattr(self.retention, kind)
        own = (ages[kind] for pattern, ages in self._ranked if kind in ages and matches(pattern, topic))
        return next(own, kept)

    def known(self, kind: Kind) -> list[tuple[str | None, timedelta]] | None:
        """Return what to remove without a list of topics: a topic, or None for every one, and its age.

        None when the list of topics is needed.
        """
        age: timedelta | None = getattr(self.retention, kind)
        named = any(kind in ages for _, ages in self._ranked)
        if self._pattern is not None and not is_wild(self._pattern):
            age = self.of(kind, self._pattern)
        elif named or (age is not None and self._pattern is not None):
            return None
        return [] if age is None else [(self._pattern, age)]

    def over(self, kind: Kind, topics: Iterable[tuple[str, timedelta]]) -> list[tuple[str | None, timedelta]]:
        """Return the same, given the existing topics and the age of the oldest record of each."""
        ages = ((topic, self.of(kind, topic), oldest) for topic, oldest in topics)
        return [(topic, age) for topic, age, oldest in ages if age is not None and oldest > age]


class SqlPruning(SqlOperations):
    """``Upkeep.prune``, for every SQL database. Every statement is bounded (invariant 14)."""

    @operation("write")
    def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Script[Pruned]:
        """Do one chore, after a topic; or all, each to the end of its topics.

        On PostgreSQL each statement is a transaction by itself: locks are held for one of them only.
        """
        at = yield from self._read_clock()
        ages = Ages(retention, topic)
        if chore is not None:
            return (yield from self._pruned(chore, ages, limit, at, after or ""))
        total = Pruned()
        for each in CHORES if topic is None else KINDS:
            last: str | None = ""
            while last is not None:
                done = yield from self._pruned(each, ages, limit, at, last)
                total += done
                last = None if done.total >= limit else done.last or None
        return replace(total, last=None)

    def _pruned(self, chore: Chore, ages: Ages, limit: int, at: Any, after: str) -> Script[Pruned]:
        removed, last = yield from self._prune(chore, ages, limit, at, after)
        counted = _COUNTED.get(chore, chore)
        numbers: dict[str, Any] = {counted: removed} if counted else {}
        return Pruned(**numbers, last=last)

    def _prune(self, chore: Chore, ages: Ages, limit: int, at: Any, after: str) -> Script[Found]:
        keeps, span = ages.retention, self._values.span
        removed = 0
        match chore:
            case "done" | "failures" | "dead" | "parked":
                return (yield from self._prune_topics(chore, ages, limit, at, after))
            case "messages":
                return (yield from self._prune_messages(keeps.repeats, limit, at))
            case "workers":
                silent = yield self._sql("prune_workers", span(keeps.workers), limit, at)
                yield from self._deregister([name for (name,) in silent])
                yield self._sql("prune_declarations", span(max(keeps.workers, FORGOTTEN_AFTER)), limit, at)
                removed = len(silent)
            case "progress":
                removed = yield from self._removed("prune_progress", limit)
            case "likenesses":
                removed = yield from self._prune_unique_keys(limit, at)
            case "measures":
                removed = yield from self._prune_measures(limit, at)
            case "bells":
                yield from self._prune_bells(limit, at)
            case _:
                statement, field = _BY_AGE[chore]
                age: timedelta | None = getattr(keeps, field)
                if age is not None:
                    removed = yield from self._removed(statement, span(age), limit, at)
        return removed, None

    def _prune_topics(self, kind: Kind, ages: Ages, limit: int, at: Any, after: str) -> Script[Found]:
        """Prune a kind: all at once where all topics are kept alike, else a stretch of topics, one by one."""
        over, end = ages.known(kind), None
        if over is None:
            of = (self._values.texts(STATUSES[kind]),) if kind in STATUSES else ()
            topics = yield self._sql(_TOPICS[kind], *of, at, after, STRETCH)
            read = self._values.read_span
            over = ages.over(kind, ((topic, read(oldest)) for topic, oldest in topics if oldest is not None))
            end = topics[-1][0] if len(topics) >= STRETCH else None
        removed, passed = 0, after
        for topic, age in over:
            removed += yield from self._prune_topic(kind, topic, age, limit - removed, at)
            if removed >= limit:
                return removed, passed
            passed = topic or after
        return removed, end

    @abstractmethod
    def _removed(self, name: str, *args: Any) -> Script[int]:
        """Run a statement that removes rows, and return how many."""

    @abstractmethod
    def _prune_messages(self, age: timedelta, limit: int, at: Any) -> Script[Found]:
        """Remove messages without references, one of which ended at least ``age`` ago."""

    @abstractmethod
    def _prune_topic(self, kind: Kind, topic: str | None, age: timedelta, limit: int, at: Any) -> Script[int]:
        """Remove records of a topic, or of all topics if it is None. Runs of a delivery that has not ended stay."""

    @abstractmethod
    def _prune_unique_keys(self, limit: int, at: Any) -> Script[int]:
        """Remove unique keys that no message is compared with any more."""

    @abstractmethod
    def _prune_measures(self, limit: int, at: Any) -> Script[int]:
        """Remove the oldest counts that are kept no longer."""

    @abstractmethod
    def _prune_bells(self, limit: int, at: Any) -> Script[None]:
        """Remove what was armed by workers that are gone, and spent claims that count no more."""

    @abstractmethod
    def _deregister(self, workers: list[str]) -> Script[None]:
        """Take workers off the roster. What they have done stays counted, under no name."""
