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
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.declaring import PostgresRegistry
from mainspring.storage.postgres.measures import slot_of
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.pruning import PostgresPruning
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql import Now
from mainspring.storage.sql.declaring import declare
from mainspring.storage.walking import CHOICE, STRETCH, pruned


class PostgresUpkeep:
    """``UpkeepScripts`` for PostgreSQL."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._channel = names.bell
        self._sql = names.sql

    def declare(
        self, declarations: Sequence[Declaration], now: Now, declarer: Declarer | None = None
    ) -> Script[Standing]:
        """See ``Upkeep.declare``."""
        return declare(PostgresRegistry(self._names, now), Wishes(declarations, declarer))

    def beat(self, beat: Beat, now: Now) -> Script[Orders]:
        """See ``Upkeep.beat``."""
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
                now,
                *columns(map(_measured, with_totals(beat.measures)), 4),
                list(SPANS),
                slot_of(beat.worker),
                beat.start_id,
                beat.number,
                beat.draining,
            ),
        )
        return Orders(drain=told[0][0])

    def farewell(self, worker: str, start_id: str = "") -> Script[None]:
        """See ``Upkeep.farewell``."""
        yield Statement(self._sql("farewell"), ([worker], start_id))

    def record(self, runs: Sequence[RunView]) -> Script[None]:
        """See ``Upkeep.record``."""
        if runs:
            yield Statement(self._sql("record"), columns(map(_recorded, runs), 15))

    def reroute(self, limit: int, now: Now, after: str | None = None) -> Script[Rerouted]:
        """See ``Upkeep.reroute``."""
        asked = (limit, self._channel, now, after or "", STRETCH, CHOICE)
        ((routed, topics, last),) = yield Statement(self._sql("reroute"), asked)
        return Rerouted(routed, after if routed >= limit else last if topics >= STRETCH else None)

    def recount(self, after: UUID | None, limit: int) -> Script[Recount]:
        """See ``Upkeep.recount``."""
        ((gone, last),) = yield Statement(self._sql("joint_gone"), (beyond(after), limit))
        if not gone:
            return Recount(last=last)
        return Recount(_count((yield Statement(self._sql("joint_recount"), (gone, self._channel)))), last)

    def report(self, progress: Sequence[Progress], owner: str, now: Now) -> Script[None]:
        """See ``Upkeep.report``."""
        latest = {each.claim: clean(each.text) for each in progress}
        told = sorted((*claim, text) for claim, text in latest.items())
        yield Statement(self._sql("report"), (*columns(told, 4), owner, now))

    def prune(
        self,
        retention: Retention,
        limit: int,
        now: Now,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Script[Pruned]:
        """See ``Upkeep.prune``. Each statement is a transaction by itself: locks are held for one of them only."""
        pruning = PostgresPruning(self._names, retention, limit, now, topic)
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
