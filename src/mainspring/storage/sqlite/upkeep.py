"""The upkeep of SQLite, as scripts: declarations, beats and re-routing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.model.errors import Conflict
from mainspring.model.join import Recount
from mainspring.model.message import Progress
from mainspring.model.views import Beat, Declaration, Orders, Pruned, Retention, RunView
from mainspring.storage.routing import expression, is_wild
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.fan_in import recount
from mainspring.storage.sqlite.measures import add_measures
from mainspring.storage.sqlite.pruning import farewell, prune
from mainspring.storage.sqlite.publishing import routed
from mainspring.storage.sqlite.values import mapping, micros, names, numbers, storable, told


class SqliteUpkeep:
    """``UpkeepScripts`` for SQLite. What is asked again and again writes only when there is something to write."""

    def __init__(self, sql: Dialect) -> None:
        self._sql = sql

    def declare(self, declarations: Sequence[Declaration], now: datetime | None) -> Script[None]:
        """See ``Upkeep.declare``."""
        sql = self._sql
        at = yield from sql.read_clock(now)
        for each in declarations:
            known = yield sql("group_there", each.group)
            options = mapping(each.options)
            if not known:
                yield sql("declare_insert", each.group, each.app, each.handler, options, at)
            elif known[0][0] != each.app:
                raise Conflict(
                    f"group {each.group!r} belongs to app {known[0][0]!r}: choose another group=… "
                    f"or run `mainspring groups retire {each.group}`"
                )
            elif tuple(known[0][1:]) != (each.handler, options):
                yield sql("declare_update", each.group, each.handler, options)
            there = {pattern for (pattern,) in (yield sql("declare_patterns", each.group))}
            for pattern in sorted(there.difference(each.patterns)):
                yield sql("declare_unsubscribe", pattern, each.group)
            for pattern in sorted(set(each.patterns) - there):
                wild = int(is_wild(pattern))
                yield sql("declare_subscribe", pattern, each.group, wild, expression(pattern))

    def beat(self, beat: Beat, now: datetime | None) -> Script[Orders]:
        """See ``Upkeep.beat``."""
        sql = self._sql
        at = yield from sql.turn_clock(now)
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

    def farewell(self, worker: str) -> Script[None]:
        """See ``Upkeep.farewell``."""
        return farewell(self._sql, worker)

    def record(self, runs: Sequence[RunView]) -> Script[None]:
        """See ``Upkeep.record``."""
        yield from self._sql.many("record", [_recorded(run) for run in runs])

    def reroute(self, limit: int, now: datetime | None) -> Script[int]:
        """See ``Upkeep.reroute``."""
        sql = self._sql
        topics = [topic for (topic,) in (yield sql("reroute_topics"))]
        routes = {topic: groups for topic, groups in (yield from routed(sql, topics)).items() if groups}
        if not routes:
            return 0
        parked: list[Row] = []
        for topic in routes:
            parked += yield sql("reroute_read", topic, limit)
        rows = sorted(parked, key=lambda row: row[0])[:limit]
        at = yield from sql.turn_clock(now)
        deliveries = [
            (raw, group, priority, max(due, at), asked, published, key, schedule, manual, None)
            for _, raw, topic, key, priority, due, asked, published, schedule, manual in rows
            for group in routes[topic]
        ]
        yield from sql.many("publish_delivery", deliveries)
        yield sql("parked_delete", numbers(row[0] for row in rows))
        return len(rows)

    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        """See ``Upkeep.recount``."""
        return recount(self._sql, after, limit)

    def report(self, progress: Sequence[Progress], now: datetime | None) -> Script[None]:
        """See ``Upkeep.report``."""
        latest = {each.claim: each.text for each in progress}
        at = yield from self._sql.turn_clock(now)
        yield self._sql("report", told((*claim, text) for claim, text in latest.items()), at)

    def prune(self, retention: Retention, limit: int, now: datetime | None, topic: str | None = None) -> Script[Pruned]:
        """See ``Upkeep.prune``."""
        return prune(self._sql, retention, limit, now, topic)


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
