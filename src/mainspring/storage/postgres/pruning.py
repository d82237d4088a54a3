"""Removing what is over from PostgreSQL, in bounded batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mainspring.model.measures import SPANS
from mainspring.model.retention import Chore, Kind, Retention
from mainspring.model.standing import FORGOTTEN_AFTER
from mainspring.model.unique import LEAST
from mainspring.storage.ages import STATUSES, Ages
from mainspring.storage.operation import Now
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Script, Statement
from mainspring.storage.walking import STRETCH, Found

_RUNS = ("topics_ran", "prune_runs")
_BY_TOPIC: dict[Kind, tuple[str, str]] = {
    "done": _RUNS,
    "failures": _RUNS,
    "dead": ("topics_dead", "prune_dead"),
    "parked": ("topics_parked", "prune_parked"),
}
"""What tells the topics of each kind, and what prunes them."""

_MERGES = 10
_KEPT = (list(SPANS), [int(kept.total_seconds()) for kept in SPANS.values()])


class PostgresPruning:
    """The chores. Every statement is bounded (invariant 14), and a transaction by itself."""

    def __init__(self, names: Names, retention: Retention, limit: int, now: Now, topic: str | None) -> None:
        self._sql = names.sql
        self._ages = Ages(retention, topic)
        self._retention = retention
        self._limit = limit
        self._now = now

    def chores(self, after: str) -> dict[Chore, Callable[[], Script[Found]]]:
        """How each is done; those that go from topic to topic, after this one."""
        keeps, limit, now = self._retention, self._limit, self._now
        return {
            "messages": self._messages,
            "done": lambda: self._of_topics("done", after, list(STATUSES["done"])),
            "failures": lambda: self._of_topics("failures", after, list(STATUSES["failures"])),
            "dead": lambda: self._of_topics("dead", after),
            "parked": lambda: self._of_topics("parked", after),
            "workers": self._workers,
            "audit": lambda: self._kept_for("prune_audit", keeps.audit),
            "schedules": lambda: self._kept_for("prune_schedules", keeps.done),
            "inbox": lambda: self._kept_for("prune_inbox", keeps.inbox),
            "leases": lambda: self._kept_for("prune_leases", keeps.leases),
            "progress": lambda: self._pruned("prune_progress", limit),
            "likenesses": lambda: self._pruned("likeness_prune", limit, LEAST, now),
            "cursors": lambda: self._kept_for("prune_cursors", keeps.cursors),
            "measures": self._measures,
            "bells": self._bells,
        }

    def _messages(self) -> Script[Found]:
        asked = (self._retention.repeats, self._limit, self._now)
        ((removed, goes_on),) = yield Statement(self._sql("prune_messages"), asked)
        return removed, "" if goes_on else None

    def _of_topics(self, kind: Kind, after: str, *of: list[str]) -> Script[Found]:
        """What is of a topic: everything at once where all are kept alike, else topic by topic, a stretch of them."""
        topics, prune = _BY_TOPIC[kind]
        meant, end = self._ages.known(kind), None
        if meant is None:
            there = yield Statement(self._sql(topics), (*of, self._now, after, STRETCH))
            meant = self._ages.over(kind, ((row[0], row[1]) for row in there if row[1] is not None))
            end = there[-1][0] if len(there) >= STRETCH else None
        removed, passed = 0, after
        for topic, kept_for in meant:
            removed += yield from self._counted(prune, *of, kept_for, self._limit - removed, self._now, topic)
            if removed >= self._limit:
                return removed, passed
            passed = topic or after
        return removed, end

    def _workers(self) -> Script[Found]:
        age = self._retention.workers
        silent = yield Statement(self._sql("prune_workers"), (age, self._limit, self._now))
        if silent:
            yield Statement(self._sql("farewell"), ([row[0] for row in silent], ""))
        yield Statement(self._sql("prune_declarations"), (max(age, FORGOTTEN_AFTER), self._limit, self._now))
        return len(silent), None

    def _bells(self) -> Script[Found]:
        yield Statement(self._sql("prune_bells"), (self._now,))
        yield Statement(self._sql("prune_spent"), (self._limit, self._now))
        return 0, None

    def _measures(self) -> Script[Found]:
        # Nothing is lost by merging, so that it does not count as pruned: a few batches, and the next janitor goes on.
        for _ in range(_MERGES):
            if (yield from self._counted("measure_merge", _KEPT[0], self._limit, self._now)) < self._limit:
                break
        return (yield from self._pruned("prune_measures", *_KEPT, self._limit, self._now))

    def _kept_for(self, name: str, age: timedelta | None) -> Script[Found]:
        return (0, None) if age is None else (yield from self._pruned(name, age, self._limit, self._now))

    def _pruned(self, name: str, *args: Any) -> Script[Found]:
        return (yield from self._counted(name, *args)), None

    def _counted(self, name: str, *args: Any) -> Script[int]:
        rows = yield Statement(self._sql(name), args)
        count: int = rows[0][0]
        return count
