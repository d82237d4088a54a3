"""The upkeep in memory: declarations, beats, re-routing and pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.message import Progress
from mainspring.model.retention import Chore, Pruned, Rerouted, Retention
from mainspring.model.standing import Declarer, Standing
from mainspring.model.views import Beat, Declaration, Orders, RunView, WorkerView
from mainspring.storage.declaring import Wishes
from mainspring.storage.memory.declaring import declare
from mainspring.storage.memory.measures import add_measures
from mainspring.storage.memory.pruning import prune
from mainspring.storage.memory.rows import DeliveryRow
from mainspring.storage.memory.state import State
from mainspring.storage.routing import is_wild
from mainspring.storage.walking import STRETCH

_SERVED_EVERY = timedelta(seconds=60)


class MemoryUpkeep:
    """``Upkeep`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Standing:
        """See ``Upkeep.declare``."""
        with self._state.lock:
            return declare(self._state, Wishes(declarations, declarer))

    async def beat(self, beat: Beat) -> Orders:
        """See ``Upkeep.beat``."""
        state = self._state
        with state.lock:
            now = state.now()
            if not self._see(beat, now):
                return Orders(drain=state.workers[beat.worker].draining_at is not None)
            for group, runs in beat.runs.items():
                state.count(beat.worker, group, runs.handled, runs.failed)
            add_measures(state, beat.measures, now)
            for group in beat.groups:
                declared = state.groups.get(group)
                if declared is None:
                    continue
                if declared.served_at is None or declared.served_at < now - _SERVED_EVERY:
                    state.groups[group] = replace(declared, served_at=now)
            return Orders(drain=state.workers[beat.worker].draining_at is not None)

    def _see(self, beat: Beat, now: datetime) -> bool:
        """Put it on the roster. False: this very beat was taken already."""
        state = self._state
        known = state.workers.get(beat.worker)
        start_id, number = state.beats.get(beat.worker, ("", 0))
        if known is not None and beat.number and start_id == beat.start_id and beat.number <= number:
            return False
        # Only the first beat of another start is of one that has begun anew: two may be at work under one name.
        anew = known is None or (start_id != beat.start_id and beat.number == 1)
        seen = WorkerView(
            name=beat.worker,
            app=beat.app,
            host=beat.host,
            pid=beat.pid,
            groups=beat.groups,
            in_hand=beat.in_hand,
            bell=beat.bell,
            started_at=now,
            beat_at=now,
            tripped=beat.tripped,
            drains=beat.draining,
            draining_at=now if known is None and beat.draining else None,  # the roster had forgotten it
        )
        if known is not None and not anew:
            drained = known.draining_at, known.drained_by
            seen = replace(seen, started_at=known.started_at, draining_at=drained[0], drained_by=drained[1])
        state.workers[beat.worker] = seen
        state.beats[beat.worker] = beat.start_id, beat.number
        return True

    async def farewell(self, worker: str, start_id: str = "") -> None:
        """See ``Upkeep.farewell``."""
        with self._state.lock:
            self._state.fold(worker)
            if start_id:
                self._state.declared.pop((worker, start_id), None)

    async def record(self, runs: Sequence[RunView]) -> None:
        """See ``Upkeep.record``."""
        with self._state.lock:
            for run in runs:
                self._state.keep_run(run)

    async def reroute(self, limit: int, after: str | None = None) -> Rerouted:
        """See ``Upkeep.reroute``."""
        state = self._state
        rung: set[str] = set()
        routed = 0
        with state.lock:
            now = state.now()
            topics = {parked.message.draft.topic for parked in state.parked.values()}
            patterns = {pattern for group in state.groups.values() for pattern in group.patterns}
            wild = any(map(is_wild, patterns))
            walked = sorted(topic for topic in topics if topic > (after or ""))[:STRETCH] if wild else []
            routes = {topic: state.subscribers(topic) for topic in {*walked, *(topics & patterns)}}
            for parked in list(state.parked.values()):
                draft = parked.message.draft
                groups = routes.get(draft.topic) if routed < limit else None
                if not groups:
                    continue
                routed += 1
                state.unpark(parked)
                due_at = max(parked.due_at, now)
                for group in groups:
                    seq = next(state.seqs)
                    asked = parked.scheduled_for
                    state.add(DeliveryRow(seq, parked.message, group, int(draft.priority), due_at, asked))
                if due_at <= now:
                    rung.update(groups)
            state.ring(rung)
        end = walked[-1] if len(walked) >= STRETCH else None
        return Rerouted(routed, after if routed >= limit else end)

    async def recount(self, after: UUID | None, limit: int) -> Recount:
        """See ``Upkeep.recount``. Nobody but us ends a member here, so that none goes without a note."""
        with self._state.lock:
            ids = sorted(id for id in self._state.joints if after is None or id > after)[:limit]
        return Recount(last=ids[-1] if len(ids) == limit else None)

    async def report(self, progress: Sequence[Progress], owner: str) -> None:
        """See ``Upkeep.report``."""
        state = self._state
        with state.lock:
            now = state.now()
            for each in progress:
                state.progress.note(each, owner, state.deliveries, now)

    async def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,  # noqa: ARG002 - no walk is too long to be made at once
    ) -> Pruned:
        """See ``Upkeep.prune``."""
        with self._state.lock:
            return prune(self._state, retention, limit, topic, chore)
