"""The upkeep of SQLite, as scripts: declarations, beats and re-routing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.message import Progress
from mainspring.model.retention import Chore, Pruned, Rerouted, Retention
from mainspring.model.standing import Declarer, Standing
from mainspring.model.views import Beat, Declaration, Orders, RunView
from mainspring.storage.declaring import Wishes
from mainspring.storage.operation import operation
from mainspring.storage.script import Script
from mainspring.storage.sql.declaring import declare
from mainspring.storage.sqlite.declaring import SqliteRegistry
from mainspring.storage.sqlite.fan_in import recount
from mainspring.storage.sqlite.measures import add_measures
from mainspring.storage.sqlite.operations import SqliteOperations
from mainspring.storage.sqlite.pruning import SqlitePruning, farewell
from mainspring.storage.sqlite.publishing import Routes, routed
from mainspring.storage.sqlite.values import micros, names, numbers, storable, told
from mainspring.storage.walking import CHOICE, STRETCH, pruned


class SqliteUpkeep(SqliteOperations):
    """``Upkeep`` on SQLite. What is asked again and again writes only when there is something to write."""

    @operation("write")
    def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Script[Standing]:
        at = yield from self._sql.read_clock()
        return (yield from declare(SqliteRegistry(self._sql, at), Wishes(declarations, declarer)))

    @operation("write")
    def beat(self, beat: Beat) -> Script[Orders]:
        sql = self._sql
        at = yield from sql.turn_clock()
        served = names(beat.groups)
        told = yield sql("beat_worker", *_seen(beat, served, at))
        if not told:
            told = yield sql("beat_drain", beat.worker)
            return Orders(drain=told[0][0] is not None)
        for group, runs in beat.runs.items():
            yield sql("beat_tally", beat.worker, group, runs.handled, runs.failed)
        yield from add_measures(sql, beat.measures, at)
        yield sql("beat_served", served, at)
        return Orders(drain=told[0][0] is not None)

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
        yield self._sql("report", told(latest), at, owner)

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
    said = (storable(text) for text in (run.error, run.traceback, run.output))
    times = (micros(run.started_at), micros(run.finished_at))
    asked = None if run.scheduled_for is None else micros(run.scheduled_for)
    where = (run.message_id.bytes, run.group, run.topic, run.attempt, run.status, *times, run.node, run.kind)
    return *where, *said, run.source, run.schedule, asked
