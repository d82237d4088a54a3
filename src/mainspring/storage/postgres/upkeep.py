"""Upkeep on PostgreSQL: declarations, heartbeats, measures, pruning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID
from zlib import crc32

from mainspring.model.join import Recount
from mainspring.model.measures import SPANS, Measure, with_totals
from mainspring.model.message import LEAST, Progress
from mainspring.model.retention import Kind, Rerouted
from mainspring.model.views import Beat, Orders, RunView
from mainspring.storage.operation import Now, operation
from mainspring.storage.portable.declarations import SqlDeclarations
from mainspring.storage.portable.dialect import written_links
from mainspring.storage.portable.ledger import SqlMeasures, id_after
from mainspring.storage.portable.retention import CHOICE, STATUSES, STRETCH, Found, SqlPruning
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.dialect import PostgresOperations
from mainspring.storage.script import Row, Script

_PRUNE: dict[Kind, str] = {
    "done": "prune_runs",
    "failures": "prune_runs",
    "dead": "prune_dead",
    "parked": "prune_parked",
}
_MERGES = 10
_KEPT = (list(SPANS), [int(kept.total_seconds()) for kept in SPANS.values()])
_SLOTS = 64
"""Over how many rows concurrent beats are spread. At most so many are read for one count of the present span."""


def slot_of(worker: str) -> int:
    """Where a worker counts: always at the same place, so that there are few rows."""
    return crc32(worker.encode()) % _SLOTS


class PostgresMeasures(SqlMeasures, PostgresOperations):
    """``Measures`` on PostgreSQL."""


class PostgresUpkeep(SqlDeclarations, SqlPruning, PostgresOperations):
    """``Upkeep`` on PostgreSQL."""

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
            written_links(beat.links),
        )
        return Orders(drain=rows[0][0])

    @operation("write")
    def deregister(self, worker: str, start_id: str = "") -> Script[None]:
        yield self._sql("deregister", [worker], start_id)

    @operation("write")
    def record(self, runs: Sequence[RunView]) -> Script[None]:
        if runs:
            yield self._sql("record", *columns(map(_recorded, runs), 15))

    @operation("write")
    def reroute(self, limit: int, after: str | None = None) -> Script[Rerouted]:
        args = (limit, self._channel, self.now, after or "", STRETCH, CHOICE)
        ((routed, topics, last),) = yield self._sql("reroute", *args)
        return Rerouted(routed, after if routed >= limit else last if topics >= STRETCH else None)

    @operation("read")
    def outlook(self, app: str, groups: Sequence[str]) -> Script[timedelta | None]:
        rows = yield self._sql("outlook", app, list(groups), self.now)
        until: timedelta | None = rows[0][0]
        return until

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

    def _lock_groups(self, groups: Sequence[str]) -> Script[None]:
        yield self._sql("declare_lock", groups)

    def _deregister(self, workers: list[str]) -> Script[None]:
        if workers:
            yield self._sql("deregister", workers, "")

    def _removed(self, name: str, *args: Any) -> Script[int]:
        return _count((yield self._sql(name, *args)))

    def _prune_messages(self, age: timedelta, limit: int, at: Now) -> Script[Found]:
        ((removed, goes_on),) = yield self._sql("prune_messages", age, limit, at)
        return removed, "" if goes_on else None

    def _prune_topic(self, kind: Kind, topic: str | None, age: timedelta, limit: int, at: Now) -> Script[int]:
        of = (list(STATUSES[kind]),) if kind in STATUSES else ()
        return self._removed(_PRUNE[kind], *of, age, limit, at, topic)

    def _prune_unique_keys(self, limit: int, at: Now) -> Script[int]:
        return self._removed("unique_prune", limit, LEAST, at)

    def _prune_measures(self, limit: int, at: Now) -> Script[int]:
        # Nothing is lost by merging, so that it does not count as pruned: a few batches, and the next janitor goes on.
        for _ in range(_MERGES):
            if (yield from self._removed("measure_merge", _KEPT[0], limit, at)) < limit:
                break
        return (yield from self._removed("prune_measures", *_KEPT, limit, at))

    def _prune_bells(self, limit: int, at: Now) -> Script[None]:
        yield self._sql("prune_bells", at)
        yield self._sql("prune_spent", limit, at)


def _measured(measure: Measure) -> tuple[object, ...]:
    return measure.group, measure.what, measure.bin, measure.count


def _recorded(run: RunView) -> tuple[object, ...]:
    texts = (None if text is None else clean(text) for text in (run.error, run.traceback, run.output))
    where = (run.message_id, run.group, run.topic, run.attempt, run.status, run.started_at, run.finished_at)
    return *where, run.node, run.kind, *texts, run.source, run.schedule, run.scheduled_for


def _count(rows: Sequence[Row]) -> int:
    count: int = rows[0][0]
    return count
