"""The upkeep in SQL: declarations, beats, re-routing and pruning, in bounded batches."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.measures import SPANS, Measure, with_totals
from mainspring.model.message import Progress
from mainspring.model.retention import Chore, Pruned, Rerouted, Retention
from mainspring.model.standing import Declarer, Standing
from mainspring.model.views import Beat, Declaration, Orders, RunView
from mainspring.storage.continuations import beyond
from mainspring.storage.declaring import Wishes
from mainspring.storage.operation import operation
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.declaring import PostgresRegistry
from mainspring.storage.postgres.measures import slot_of
from mainspring.storage.postgres.operations import PostgresOperations
from mainspring.storage.postgres.pruning import PostgresPruning
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql.declaring import declare
from mainspring.storage.walking import CHOICE, STRETCH, pruned


class PostgresUpkeep(PostgresOperations):
    """``Upkeep`` on PostgreSQL."""

    @operation("write")
    def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Script[Standing]:
        return declare(PostgresRegistry(self._names, self.now), Wishes(declarations, declarer))

    @operation("write")
    def beat(self, beat: Beat) -> Script[Orders]:
        runs = list(beat.runs.values())
        told = yield Statement(
            self._sql("beat"),
            (
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
            ),
        )
        return Orders(drain=told[0][0])

    @operation("write")
    def farewell(self, worker: str, start_id: str = "") -> Script[None]:
        yield Statement(self._sql("farewell"), ([worker], start_id))

    @operation("write")
    def record(self, runs: Sequence[RunView]) -> Script[None]:
        if runs:
            yield Statement(self._sql("record"), columns(map(_recorded, runs), 15))

    @operation("write")
    def reroute(self, limit: int, after: str | None = None) -> Script[Rerouted]:
        asked = (limit, self._channel, self.now, after or "", STRETCH, CHOICE)
        ((routed, topics, last),) = yield Statement(self._sql("reroute"), asked)
        return Rerouted(routed, after if routed >= limit else last if topics >= STRETCH else None)

    @operation("write")
    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        ((gone, last),) = yield Statement(self._sql("joint_gone"), (beyond(after), limit))
        if not gone:
            return Recount(last=last)
        return Recount(_count((yield Statement(self._sql("joint_recount"), (gone, self._channel)))), last)

    @operation("write")
    def report(self, progress: Sequence[Progress], owner: str) -> Script[None]:
        latest = {each.claim: clean(each.text) for each in progress}
        told = sorted((*claim, text) for claim, text in latest.items())
        yield Statement(self._sql("report"), (*columns(told, 4), owner, self.now))

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
        pruning = PostgresPruning(self._names, retention, limit, self.now, topic)
        return pruned(topic, chore, after, limit, pruning.chores)


def _measured(measure: Measure) -> tuple[object, ...]:
    return measure.group, measure.what, measure.bin, measure.count


def _recorded(run: RunView) -> tuple[object, ...]:
    said = (None if text is None else clean(text) for text in (run.error, run.traceback, run.output))
    where = (run.message_id, run.group, run.topic, run.attempt, run.status, run.started_at, run.finished_at)
    return *where, run.node, run.kind, *said, run.source, run.schedule, run.scheduled_for


def _count(rows: Sequence[Row]) -> int:
    count: int = rows[0][0]
    return count
