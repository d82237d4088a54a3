"""Upkeep on SQLite: declarations, heartbeats, measures, pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.measures import SPANS, Measure, Sums, with_totals
from mainspring.model.message import Progress
from mainspring.model.retention import Chore, Kind, Pruned, Rerouted, Retention
from mainspring.model.views import Beat, Declaration, Orders, RunView
from mainspring.model.worker import FORGOTTEN_AFTER, SEEN_EVERY, SILENT_AFTER, Declarer, DeclareResult, Subscription
from mainspring.storage.operation import operation
from mainspring.storage.patterns import expression, is_wild
from mainspring.storage.portable.declarations import Known, Read, Wishes, declare
from mainspring.storage.portable.retention import CHOICE, STATUSES, STRETCH, Ages, Found, pruned
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect, SqliteOperations
from mainspring.storage.sqlite.mailbox import prune_unique_keys
from mainspring.storage.sqlite.publish import Routes, recount, routed
from mainspring.storage.sqlite.values import (
    before,
    instant,
    mapping,
    micros,
    names,
    numbers,
    pairs,
    progress_rows,
    storable,
)

_SHORTEST = min(SPANS)
_SECOND = 1_000_000
_UNROUTED = "no group subscribed to its topic in time"
_ID = 16
_PAGE = 64


class SqliteRegistry:
    """``Registry`` for SQLite."""

    def __init__(self, sql: Dialect, at: int) -> None:
        self._sql = sql
        self._at = at

    def described(self, declaration: Declaration) -> tuple[str, str]:
        """See ``Registry.described``."""
        return declaration.handler, mapping(declaration.options)

    def read(self, wishes: Wishes) -> Script[Read]:
        """See ``Registry.read``."""
        args = (*_by(wishes), pairs(wishes.subscriptions), before(self._at, SEEN_EVERY))
        seen = yield self._sql("declare_lately", *args)
        patterns: dict[str, list[str]] = {}
        for group, pattern in (yield self._sql("declare_patterns", names(wishes.groups))):
            patterns.setdefault(group, []).append(pattern)
        rows = yield self._sql("declared", names(wishes.groups))
        known = {
            name: Known(app, (handler, options), version, patterns.get(name, []))
            for name, app, handler, options, version in rows
        }
        return bool(seen), known

    def kept(self, wishes: Wishes) -> Script[set[Subscription]]:
        """See ``Registry.kept``."""
        args = (names(wishes.groups), *_by(wishes), before(self._at, SILENT_AFTER))
        rows = yield self._sql("declare_kept", *args)
        return {(group, pattern) for group, pattern in rows}

    def see(self, wishes: Wishes) -> Script[None]:
        """See ``Registry.see``."""
        away = before(self._at, SILENT_AFTER / 5)
        yield self._sql("declare_seen", *_by(wishes), pairs(wishes.subscriptions), away, self._at)

    def enter(self, wishes: Wishes, described: Sequence[Declaration]) -> Script[None]:
        """See ``Registry.enter``."""
        yield from self.see(wishes)
        for each in described:
            yield self._sql("declare_group", each.group, each.app, *self.described(each), each.version, self._at)

    def subscribe(self, missing: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.subscribe``."""
        for group, pattern in missing:
            yield self._sql("declare_subscribe", pattern, group, int(is_wild(pattern)), expression(pattern))

    def unsubscribe(self, surplus: Sequence[Subscription]) -> Script[None]:
        """See ``Registry.unsubscribe``."""
        for group, pattern in surplus:
            yield self._sql("declare_unsubscribe", pattern, group)


def _by(wishes: Wishes) -> tuple[str, str]:
    return wishes.worker, wishes.start_id


class SqliteMeasures(SqliteOperations):
    """``Measures`` on SQLite."""

    @operation("read")
    def read(self, span: int, back: timedelta, group: str) -> Script[Sums[datetime]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("measure_read", span, before(_slot(at, span), back), group)
        return Sums(instant(at), tuple((instant(of), what, bin, count) for of, what, bin, count in rows))

    @operation("read")
    def paces(self, back: timedelta) -> Script[Sums[str]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("measure_paces", _SHORTEST, before(_slot(at, _SHORTEST), back))
        return Sums(instant(at), tuple((group, what, bin, count) for group, what, bin, count in rows))


def add_measures(sql: Dialect, measures: Sequence[Measure], at: int) -> Script[None]:
    """Add up what a worker has counted."""
    counts = with_totals(measures)
    yield from sql.many(
        "beat_measure",
        [(span, _slot(at, span), each.group, each.what, each.bin, each.count) for span in SPANS for each in counts],
    )


def prune_measures(sql: Dialect, at: int, limit: int) -> Script[int]:
    """Forget the oldest counts that are kept no longer."""
    removed = 0
    for span, kept in SPANS.items():
        yield sql("prune_measures", span, before(at, kept), limit - removed)
        ((more,),) = yield sql("changes")
        removed += more
    return removed


def _slot(at: int, span: int) -> int:
    return at - at % (span * _SECOND)


def farewell(sql: Dialect, worker: str, start_id: str = "") -> Script[None]:
    """Take a worker off the roster; what it has done stays counted, under no name."""
    yield sql("farewell_declared", worker, start_id)
    yield sql("farewell_fold", worker)
    yield sql("farewell_tally", worker)
    yield sql("farewell_worker", worker)


class SqlitePruning:
    """The chores of pruning; each is a transaction when it is called alone."""

    def __init__(self, sql: Dialect, at: int, retention: Retention, limit: int, topic: str | None) -> None:
        self._ages = Ages(retention, topic)
        self._retention = retention
        self._sql = sql
        self._at = at
        self._limit = limit

    def chores(self, after: str) -> dict[Chore, Callable[[], Script[Found]]]:
        """How each is done; those that go from topic to topic, after this one."""
        keeps, at, limit = self._retention, self._at, self._limit
        return {
            "messages": lambda: self._messages(keeps.repeats),
            "done": lambda: self._runs("done", after),
            "failures": lambda: self._runs("failures", after),
            "dead": lambda: self._dead(after),
            "parked": lambda: self._parked(after),
            "workers": lambda: self._workers(keeps.workers),
            "audit": lambda: self._kept_for("prune_audit", keeps.audit),
            "schedules": lambda: self._kept_for("prune_schedules", keeps.done),
            "inbox": lambda: self._kept_for("prune_inbox", keeps.inbox),
            "leases": lambda: self._kept_for("prune_leases", keeps.leases),
            "progress": lambda: self._changed("prune_progress", limit),
            "likenesses": lambda: _alone(prune_unique_keys(self._sql, at, limit)),
            "cursors": lambda: self._kept_for("prune_cursors", keeps.cursors),
            "measures": lambda: _alone(prune_measures(self._sql, at, limit)),
            "bells": self._spent,
        }

    def _spent(self) -> Script[Found]:
        yield self._sql("prune_spent", self._at, self._limit)
        return 0, None

    def _messages(self, repeats: timedelta) -> Script[Found]:
        """Look at the messages a reference to which ended long enough ago."""
        sql = self._sql
        batches, last = yield from self._batches(before(self._at, repeats))
        if not batches:
            return 0, None
        yield sql("prune_ended_delete", numbers(batch for batch, *_ in batches))
        removed = 0
        for _, at, second, ids in batches:
            # A message that is still referred to is only dropped here: it is enlisted again when that reference ends.
            # What went to several groups is looked at once more: another may have ended it later than this one did.
            shared = () if second else (yield sql("prune_messages_shared", ids, at))
            if shared:
                yield sql("ended_enlist", self._at, 1, b"".join(raw for (raw,) in shared))
            yield sql("prune_messages", ids, second, at)
            ((more,),) = yield sql("changes")
            removed += more
        return removed, last

    def _batches(self, cut: int) -> Script[tuple[list[Row], str | None]]:
        """The oldest batches, as many as hold no more ids than the limit, but one at least; and whether to go on."""
        batches: list[Row] = []
        room = self._limit * _ID
        page = yield self._sql("prune_ended_read", cut, _PAGE, 0)
        while page:
            for batch in page:
                if batches and len(batch[-1]) > room:
                    return batches, ""
                batches.append(batch)
                room -= len(batch[-1])
            page = yield self._sql("prune_ended_read", cut, _PAGE, len(batches))
        return batches, None

    def _runs(self, kind: Kind, after: str) -> Script[Found]:
        """Forget old runs, except those of what is not over yet."""
        cuts, end = yield from self._cuts(kind, after, "topics_ran", names(STATUSES[kind]))
        removed, passed = 0, after
        for topic, cut in cuts:
            for status in STATUSES[kind]:
                args = (status, cut, self._limit - removed)
                every = topic is None
                over = yield (
                    self._sql("prune_runs_read", *args) if every else self._sql("prune_runs_of", *args, topic)
                )
                if over:
                    yield self._sql("prune_runs_delete", numbers(id for id, _ in over))
                    yield from self._enlist(raw for _, raw in over)
                    removed += len(over)
                if removed >= self._limit:
                    return removed, passed
            passed = topic or after
        return removed, end

    def _dead(self, after: str) -> Script[Found]:
        """Discard old dead letters."""
        over, last = yield from self._over("dead", after, "topics_dead", "prune_dead_read", "prune_dead_of")
        if over:
            yield self._sql("dead_delete", numbers(seq for seq, _ in over))
            yield from self._enlist(raw for _, raw in over)
        return len(over), last

    def _parked(self, after: str) -> Script[Found]:
        """Give up on messages that no group has subscribed to, and count them."""
        over, last = yield from self._over("parked", after, "topics_parked", "prune_parked_read", "prune_parked_of")
        if over:
            seqs = numbers(seq for seq, _ in over)
            yield self._sql("parked_cancelled", seqs, self._at, _UNROUTED)
            yield self._sql("parked_delete", seqs)
            yield self._sql("prune_parked_count", len(over))
            yield from self._enlist(raw for _, raw in over)
        return len(over), last

    def _over(self, kind: Kind, after: str, topics: str, every: str, one: str) -> Script[tuple[list[Row], str | None]]:
        """Find what is older than its topic keeps it, up to the limit, and where to continue."""
        cuts, end = yield from self._cuts(kind, after, topics)
        over: list[Row] = []
        passed = after
        for topic, cut in cuts:
            room = self._limit - len(over)
            over += yield self._sql(every, cut, room) if topic is None else self._sql(one, cut, room, topic)
            if len(over) >= self._limit:
                return over, passed
            passed = topic or after
        return over, end

    def _cuts(
        self, kind: Kind, after: str, topics: str, *of: str
    ) -> Script[tuple[list[tuple[str | None, int]], str | None]]:
        """The topics to look at, or None for all of them at once, and before when; and the end of the stretch."""
        ages, end = self._ages.known(kind), None
        if ages is None:
            there = yield self._sql(topics, *of, after, STRETCH)
            oldest = ((topic, timedelta(microseconds=self._at - since)) for topic, since in there if since is not None)
            ages = self._ages.over(kind, oldest)
            end = there[-1][0] if len(there) >= STRETCH else None
        return [(topic, before(self._at, age)) for topic, age in ages], end

    def _workers(self, age: timedelta) -> Script[Found]:
        """Take workers off the roster that have fallen silent."""
        over = yield self._sql("prune_workers_read", before(self._at, age), self._limit)
        for (name,) in over:
            yield from farewell(self._sql, name)
        yield self._sql("prune_declarations", before(self._at, max(age, FORGOTTEN_AFTER)), self._limit)
        return len(over), None

    def _kept_for(self, name: str, age: timedelta | None) -> Script[Found]:
        return (0, None) if age is None else (yield from self._changed(name, before(self._at, age), self._limit))

    def _changed(self, name: str, *args: int) -> Script[Found]:
        yield self._sql(name, *args)
        ((removed,),) = yield self._sql("changes")
        return int(removed), None

    def _enlist(self, ids: Iterable[bytes]) -> Script[None]:
        yield self._sql("ended_enlist", self._at, 0, b"".join(dict.fromkeys(ids)))


def _alone(script: Script[int]) -> Script[Found]:
    return (yield from script), None


class SqliteUpkeep(SqliteOperations):
    """``Upkeep`` on SQLite. Frequent operations write only when something has changed."""

    @operation("write")
    def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Script[DeclareResult]:
        at = yield from self._sql.read_clock()
        return (yield from declare(SqliteRegistry(self._sql, at), Wishes(declarations, declarer)))

    @operation("write")
    def beat(self, beat: Beat) -> Script[Orders]:
        sql = self._sql
        at = yield from sql.turn_clock()
        served = names(beat.groups)
        rows = yield sql("beat_worker", *_seen(beat, served, at))
        if not rows:
            rows = yield sql("beat_drain", beat.worker)
            return Orders(drain=rows[0][0] is not None)
        for group, runs in beat.runs.items():
            yield sql("beat_tally", beat.worker, group, runs.handled, runs.failed)
        yield from add_measures(sql, beat.measures, at)
        yield sql("beat_served", served, at)
        return Orders(drain=rows[0][0] is not None)

    @operation("write")
    def farewell(self, worker: str, start_id: str = "") -> Script[None]:
        return farewell(self._sql, worker, start_id)

    @operation("write")
    def record(self, runs: Sequence[RunView]) -> Script[None]:
        yield from self._sql.many("record", [_recorded(run) for run in runs])

    @operation("write")
    def reroute(self, limit: int, after: str | None = None) -> Script[Rerouted]:
        sql = self._sql
        named = [topic for (topic,) in (yield sql("reroute_named"))]
        walked = [topic for (topic,) in (yield sql("reroute_topics", after or "", STRETCH))]
        routes = {topic: groups for topic, groups in (yield from routed(sql, {*named, *walked})).items() if groups}
        parked: list[int] = []
        for topic in routes:
            if len(parked) < CHOICE:
                parked += (seq for (seq,) in (yield sql("reroute_read", topic, limit)))
        oldest = sorted(parked)[:limit]
        if oldest:
            yield from self._route(oldest, routes)
        end = walked[-1] if len(walked) >= STRETCH else None
        return Rerouted(len(oldest), after if len(oldest) >= limit else end)

    def _route(self, seqs: Sequence[int], routes: Routes) -> Script[None]:
        sql = self._sql
        at = yield from sql.turn_clock()
        deliveries = [
            (raw, group, priority, max(due, at), asked, published, key, schedule, manual, None)
            for raw, topic, key, priority, due, asked, published, schedule, manual in (
                yield sql("reroute_rows", numbers(seqs))
            )
            for group in routes[topic]
        ]
        yield from sql.many("publish_delivery", deliveries)
        yield sql("parked_delete", numbers(seqs))

    @operation("write")
    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        return recount(self._sql, after, limit)

    @operation("write")
    def report(self, progress: Sequence[Progress], owner: str) -> Script[None]:
        latest = {each.claim: each.text for each in progress}
        at = yield from self._sql.turn_clock()
        yield self._sql("report", progress_rows(latest), at, owner)

    @operation("write")
    def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Script[Pruned]:
        at = yield from self._sql.read_clock()
        pruning = SqlitePruning(self._sql, at, retention, limit, topic)
        return (yield from pruned(topic, chore, after, limit, pruning.chores))


def _seen(beat: Beat, served: str, at: int) -> tuple[Any, ...]:
    which = (beat.start_id, beat.number, int(beat.draining))
    where = (beat.worker, beat.app, beat.host, beat.pid)
    return *where, served, beat.in_hand, beat.bell, at, names(beat.tripped), *which


def _recorded(run: RunView) -> tuple[Any, ...]:
    texts = (storable(text) for text in (run.error, run.traceback, run.output))
    times = (micros(run.started_at), micros(run.finished_at))
    scheduled = None if run.scheduled_for is None else micros(run.scheduled_for)
    where = (run.message_id.bytes, run.group, run.topic, run.attempt, run.status, *times, run.node, run.kind)
    return *where, *texts, run.source, run.schedule, scheduled
