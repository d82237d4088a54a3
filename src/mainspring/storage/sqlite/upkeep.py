"""Upkeep on SQLite: declarations, heartbeats, measures, pruning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.measures import SPANS, with_totals
from mainspring.model.message import LEAST, Progress
from mainspring.model.retention import Kind, Rerouted
from mainspring.model.views import Beat, Orders, RunView
from mainspring.storage.operation import operation
from mainspring.storage.portable.declarations import SqlDeclarations
from mainspring.storage.portable.dialect import written_links
from mainspring.storage.portable.ledger import SqlMeasures
from mainspring.storage.portable.retention import CHOICE, STATUSES, STRETCH, Found, SqlPruning
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import Routes, recount, routed
from mainspring.storage.sqlite.values import after, before, micros, names, numbers, progress_rows, storable

_SECOND = 1_000_000
_UNROUTED = "no group subscribed to its topic in time"
_ID = 16
_PAGE = 64


class SqliteMeasures(SqlMeasures, SqliteOperations):
    """``Measures`` on SQLite."""


class SqliteUpkeep(SqlDeclarations, SqlPruning, SqliteOperations):
    """``Upkeep`` on SQLite. Frequent operations write only when something has changed."""

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
        counts = with_totals(beat.measures)
        yield from sql.many(
            "beat_measure",
            [
                (span, at - at % (span * _SECOND), each.group, each.what, each.bin, each.count)
                for span in SPANS
                for each in counts
            ],
        )
        yield sql("beat_served", served, at)
        return Orders(drain=rows[0][0] is not None)

    @operation("write")
    def deregister(self, worker: str, start_id: str = "") -> Script[None]:
        yield self._sql("deregister_declared", worker, start_id)
        yield self._sql("deregister_fold", worker)
        yield self._sql("deregister_tally", worker)
        yield self._sql("deregister_worker", worker)

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

    @operation("read")
    def outlook(self, app: str, groups: Sequence[str]) -> Script[timedelta | None]:
        at = yield from self._sql.read_clock()
        ((first,),) = yield self._sql("outlook", app, names(groups), at)
        return None if first is None else timedelta(microseconds=first - at)

    @operation("write")
    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        return recount(self._sql, after, limit)

    @operation("write")
    def report(self, progress: Sequence[Progress], owner: str) -> Script[None]:
        latest = {each.claim: each.text for each in progress}
        at = yield from self._sql.turn_clock()
        yield self._sql("report", progress_rows(latest), at, owner)

    def _lock_groups(self, groups: Sequence[str]) -> Script[None]:  # noqa: ARG002 - a writer has the whole file
        yield from ()

    def _deregister(self, workers: list[str]) -> Script[None]:
        for name in workers:
            yield from self.deregister.script(name)

    def _removed(self, name: str, *args: Any) -> Script[int]:
        yield self._sql(name, *args)
        ((removed,),) = yield self._sql("changes")
        return int(removed)

    def _prune_messages(self, age: timedelta, limit: int, at: int) -> Script[Found]:
        batches, last = yield from self._ended_batches(before(at, age), limit)
        if not batches:
            return 0, None
        yield self._sql("prune_ended_delete", numbers(batch for batch, *_ in batches))
        removed = 0
        for _, ended_at, second, ids in batches:
            # A message that still has a reference is only removed from this list, and listed again when that one ends.
            # What went to several groups is looked at once more: another may have ended it later than this one did.
            shared = () if second else (yield self._sql("prune_messages_shared", ids, ended_at))
            if shared:
                yield self._sql("ended_add", at, 1, b"".join(raw for (raw,) in shared))
            removed += yield from self._removed("prune_messages", ids, second, ended_at)
        return removed, last

    def _ended_batches(self, cut: int, limit: int) -> Script[tuple[list[Row], str | None]]:
        """Return the oldest batches, up to ``limit`` ids in all, but one at least; and whether to continue."""
        batches: list[Row] = []
        room = limit * _ID
        page = yield self._sql("prune_ended_read", cut, _PAGE, 0)
        while page:
            for batch in page:
                if batches and len(batch[-1]) > room:
                    return batches, ""
                batches.append(batch)
                room -= len(batch[-1])
            page = yield self._sql("prune_ended_read", cut, _PAGE, len(batches))
        return batches, None

    def _prune_topic(self, kind: Kind, topic: str | None, age: timedelta, limit: int, at: int) -> Script[int]:
        cut = before(at, age)
        if kind in STATUSES:
            return (yield from self._prune_runs(kind, topic, cut, limit, at))
        every, one = (
            ("prune_dead_read", "prune_dead_of") if kind == "dead" else ("prune_parked_read", "prune_parked_of")
        )
        over = yield self._sql(every, cut, limit) if topic is None else self._sql(one, cut, limit, topic)
        seqs = numbers(seq for seq, _ in over)
        if over and kind == "dead":
            yield self._sql("dead_delete", seqs)
        elif over:
            yield self._sql("parked_cancelled", seqs, at, _UNROUTED)
            yield self._sql("parked_delete", seqs)
            yield self._sql("prune_parked_count", len(over))
        yield from self._add_ended((raw for _, raw in over), at)
        return len(over)

    def _prune_runs(self, kind: Kind, topic: str | None, cut: int, limit: int, at: int) -> Script[int]:
        removed = 0
        for status in STATUSES[kind]:
            args = (status, cut, limit - removed)
            over = yield (
                self._sql("prune_runs_read", *args) if topic is None else self._sql("prune_runs_of", *args, topic)
            )
            if over:
                yield self._sql("prune_runs_delete", numbers(id for id, _ in over))
                yield from self._add_ended((raw for _, raw in over), at)
            removed += len(over)
            if removed >= limit:
                break
        return removed

    def _add_ended(self, ids: Iterable[bytes], at: int) -> Script[None]:
        ended = b"".join(dict.fromkeys(ids))
        if ended:
            yield self._sql("ended_add", at, 0, ended)

    def _prune_unique_keys(self, limit: int, at: int) -> Script[int]:
        removed = yield from self._removed("prune_unique", at, limit)
        if removed < limit:
            yield self._sql("prune_unique_later", at, limit - removed, after(at, LEAST))
        return removed

    def _prune_measures(self, limit: int, at: int) -> Script[int]:
        removed = 0
        for span, kept in SPANS.items():
            removed += yield from self._removed("prune_measures", span, before(at, kept), limit - removed)
        return removed

    def _prune_bells(self, limit: int, at: int) -> Script[None]:
        yield self._sql("prune_spent", at, limit)


def _seen(beat: Beat, served: str, at: int) -> tuple[Any, ...]:
    which = (beat.start_id, beat.number, int(beat.draining), written_links(beat.links))
    where = (beat.worker, beat.app, beat.host, beat.pid)
    return *where, served, beat.in_hand, beat.bell, at, names(beat.tripped), *which


def _recorded(run: RunView) -> tuple[Any, ...]:
    texts = (storable(text) for text in (run.error, run.traceback, run.output))
    times = (micros(run.started_at), micros(run.finished_at))
    scheduled = None if run.scheduled_for is None else micros(run.scheduled_for)
    where = (run.message_id.bytes, run.group, run.topic, run.attempt, run.status, *times, run.node, run.kind)
    return *where, *texts, run.source, run.schedule, scheduled
