"""Upkeep on PostgreSQL: declarations, heartbeats, measures, pruning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zlib import crc32

from mainspring.model.join import Recount
from mainspring.model.measures import SPANS, Measure, Sums, What, with_totals
from mainspring.model.message import LEAST, Progress
from mainspring.model.retention import Chore, Kind, Pruned, Rerouted, Retention
from mainspring.model.views import Beat, Declaration, Orders, RunView
from mainspring.model.worker import FORGOTTEN_AFTER, SEEN_EVERY, SILENT_AFTER, Declarer, DeclareResult, Subscription
from mainspring.storage.operation import Now, operation
from mainspring.storage.patterns import expression, is_wild
from mainspring.storage.portable.declarations import Known, Read, Wishes, declare
from mainspring.storage.portable.joins import id_after
from mainspring.storage.portable.retention import CHOICE, STATUSES, STRETCH, Ages, Found, pruned
from mainspring.storage.postgres.columns import clean, columns, to_json
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.script import Row, Script

_RUNS = ("topics_ran", "prune_runs")
_BY_TOPIC: dict[Kind, tuple[str, str]] = {
    "done": _RUNS,
    "failures": _RUNS,
    "dead": ("topics_dead", "prune_dead"),
    "parked": ("topics_parked", "prune_parked"),
}
"""The statements that list the topics of each kind, and prune them."""
_MERGES = 10
_KEPT = (list(SPANS), [int(kept.total_seconds()) for kept in SPANS.values()])
_SHORTEST = min(SPANS)
_SLOTS = 64
"""Over how many rows concurrent beats are spread. At most so many are read for one count of the present span."""


class PostgresRegistry:
    """``Registry`` for PostgreSQL."""

    def __init__(self, names: Names, now: Now) -> None:
        self._sql = names
        self._now = now

    def described(self, declaration: Declaration) -> tuple[str, str]:
        """See ``Registry.described``."""
        return clean(declaration.handler), to_json(declaration.options)

    def read(self, wishes: Wishes) -> Script[Read]:
        """See ``Registry.read``."""
        args = (wishes.groups, *_by(wishes), *columns(wishes.subscriptions, 2), SEEN_EVERY, self._now)
        rows = yield self._sql("declared", *args)
        known = {
            name: Known(app, (handler, options), version, patterns)
            for name, app, handler, options, version, patterns, _ in rows
        }
        return any(row[-1] for row in rows), known

    def kept(self, wishes: Wishes) -> Script[set[Subscription]]:
        """See ``Registry.kept``."""
        args = (wishes.groups, *_by(wishes), SILENT_AFTER, self._now)
        rows = yield self._sql("declare_kept", *args)
        return {(group, pattern) for group, pattern in rows}

    def see(self, wishes: Wishes) -> Script[None]:
        """See ``Registry.see``."""
        yield self._sql("declare_seen", *self._seen(wishes))

    def enter(self, wishes: Wishes, described: Sequence[Declaration]) -> Script[None]:
        """See ``Registry.enter``."""
        yield self._sql.opening("declare_seen", *self._seen(wishes))
        rows = [(each.group, each.app, *self.described(each), each.version) for each in described]
        if rows:
            yield self._sql("declare_groups", *columns(rows, 5), self._now)
        yield self._sql("declare_lock", wishes.groups)

    def subscribe(self, missing: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.subscribe``."""
        if missing:
            rows = [(pattern, group, is_wild(pattern), expression(pattern)) for group, pattern in missing]
            yield self._sql("declare_subscribe", *columns(rows, 4))

    def unsubscribe(self, surplus: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.unsubscribe``."""
        if surplus:
            yield self._sql("declare_unsubscribe", *columns(surplus, 2))

    def _seen(self, wishes: Wishes) -> tuple[object, ...]:
        return *_by(wishes), *columns(wishes.subscriptions, 2), SILENT_AFTER / 5, self._now


def _by(wishes: Wishes) -> tuple[str, str]:
    return wishes.worker, wishes.start_id


class PostgresPruning:
    """The chores. Every statement is bounded (invariant 14), and a transaction by itself."""

    def __init__(self, names: Names, retention: Retention, limit: int, now: Now, topic: str | None) -> None:
        self._sql = names
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
            "likenesses": lambda: self._pruned("unique_prune", limit, LEAST, now),
            "cursors": lambda: self._kept_for("prune_cursors", keeps.cursors),
            "measures": self._measures,
            "bells": self._bells,
        }

    def _messages(self) -> Script[Found]:
        args = (self._retention.repeats, self._limit, self._now)
        ((removed, goes_on),) = yield self._sql("prune_messages", *args)
        return removed, "" if goes_on else None

    def _of_topics(self, kind: Kind, after: str, *of: list[str]) -> Script[Found]:
        """Prune a kind: all at once where all topics are kept alike, else a stretch of topics, one by one."""
        topics, prune = _BY_TOPIC[kind]
        ages, end = self._ages.known(kind), None
        if ages is None:
            there = yield self._sql(topics, *of, self._now, after, STRETCH)
            ages = self._ages.over(kind, ((row[0], row[1]) for row in there if row[1] is not None))
            end = there[-1][0] if len(there) >= STRETCH else None
        removed, passed = 0, after
        for topic, kept_for in ages:
            removed += yield from self._counted(prune, *of, kept_for, self._limit - removed, self._now, topic)
            if removed >= self._limit:
                return removed, passed
            passed = topic or after
        return removed, end

    def _workers(self) -> Script[Found]:
        age = self._retention.workers
        silent = yield self._sql("prune_workers", age, self._limit, self._now)
        if silent:
            yield self._sql("farewell", [row[0] for row in silent], "")
        yield self._sql("prune_declarations", max(age, FORGOTTEN_AFTER), self._limit, self._now)
        return len(silent), None

    def _bells(self) -> Script[Found]:
        yield self._sql("prune_bells", self._now)
        yield self._sql("prune_spent", self._limit, self._now)
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
        rows = yield self._sql(name, *args)
        count: int = rows[0][0]
        return count


def slot_of(worker: str) -> int:
    """Where a worker counts: always at the same place, so that there are few rows."""
    return crc32(worker.encode()) % _SLOTS


class PostgresMeasures(PostgresOperations):
    """``Measures`` on PostgreSQL."""

    @operation("read")
    def read(self, span: int, back: timedelta, group: str) -> Script[Sums[datetime]]:
        rows = yield self._sql("measure_read", span, back, group, self.now)
        return Sums(rows[0][0], _counts(rows))

    @operation("read")
    def paces(self, back: timedelta) -> Script[Sums[str]]:
        rows = yield self._sql("measure_paces", _SHORTEST, back, self.now)
        return Sums(rows[0][0], _counts(rows))


def _counts(rows: Sequence[Row]) -> tuple[tuple[Any, What, int, int], ...]:
    # Added up, since some of a count may not be moved out of its slots yet. Sorted here: the order of names in a
    # database depends on its locale.
    sums: Counter[tuple[Any, What, int]] = Counter()
    for _, of, what, bin, count in rows:
        if of is not None:
            sums[of, what, bin] += count
    return tuple((*key, count) for key, count in sorted(sums.items()))


class PostgresUpkeep(PostgresOperations):
    """``Upkeep`` on PostgreSQL."""

    @operation("write")
    def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Script[DeclareResult]:
        return declare(PostgresRegistry(self._sql, self.now), Wishes(declarations, declarer))

    @operation("write")
    def beat(self, beat: Beat) -> Script[Orders]:
        runs = list(beat.runs.values())
        rows = yield self._sql(
            "beat",
            beat.worker,
            beat.app,
            clean(beat.host),
            beat.pid,
            list(beat.groups),
            beat.in_hand,
            beat.bell,
            list(beat.runs),
            [each.handled for each in runs],
            [each.failed for each in runs],
            list(beat.tripped),
            self.now,
            *columns(map(_measured, with_totals(beat.measures)), 4),
            list(SPANS),
            slot_of(beat.worker),
            beat.start_id,
            beat.number,
            beat.draining,
        )
        return Orders(drain=rows[0][0])

    @operation("write")
    def farewell(self, worker: str, start_id: str = "") -> Script[None]:
        yield self._sql("farewell", [worker], start_id)

    @operation("write")
    def record(self, runs: Sequence[RunView]) -> Script[None]:
        if runs:
            yield self._sql("record", *columns(map(_recorded, runs), 15))

    @operation("write")
    def reroute(self, limit: int, after: str | None = None) -> Script[Rerouted]:
        args = (limit, self._channel, self.now, after or "", STRETCH, CHOICE)
        ((routed, topics, last),) = yield self._sql("reroute", *args)
        return Rerouted(routed, after if routed >= limit else last if topics >= STRETCH else None)

    @operation("write")
    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        ((gone, last),) = yield self._sql("joint_gone", id_after(after), limit)
        if not gone:
            return Recount(last=last)
        return Recount(_count((yield self._sql("joint_recount", gone, self._channel))), last)

    @operation("write")
    def report(self, progress: Sequence[Progress], owner: str) -> Script[None]:
        latest = {each.claim: clean(each.text) for each in progress}
        reports = sorted((*claim, text) for claim, text in latest.items())
        yield self._sql("report", *columns(reports, 4), owner, self.now)

    @operation("write")
    def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Script[Pruned]:
        """Each statement is a transaction by itself: locks are held for one of them only."""
        pruning = PostgresPruning(self._sql, retention, limit, self.now, topic)
        return pruned(topic, chore, after, limit, pruning.chores)


def _measured(measure: Measure) -> tuple[object, ...]:
    return measure.group, measure.what, measure.bin, measure.count


def _recorded(run: RunView) -> tuple[object, ...]:
    texts = (None if text is None else clean(text) for text in (run.error, run.traceback, run.output))
    where = (run.message_id, run.group, run.topic, run.attempt, run.status, run.started_at, run.finished_at)
    return *where, run.node, run.kind, *texts, run.source, run.schedule, run.scheduled_for


def _count(rows: Sequence[Row]) -> int:
    count: int = rows[0][0]
    return count
