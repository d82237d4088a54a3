"""The upkeep in memory: declarations, beats, re-routing and pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.errors import Conflict
from mainspring.model.join import Recount
from mainspring.model.message import Progress
from mainspring.model.views import Beat, Declaration, GroupView, Orders, Pruned, Retention, RunView, WorkerView
from mainspring.storage.memory.measures import add_measures
from mainspring.storage.memory.pruning import prune
from mainspring.storage.memory.rows import DeliveryRow
from mainspring.storage.memory.state import State

_SERVED_EVERY = timedelta(seconds=60)


class MemoryUpkeep:
    """``Upkeep`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """See ``Upkeep.declare``."""
        state = self._state
        with state.lock:
            now = state.now()
            for each in declarations:
                known = state.groups.get(each.group)
                if known is not None and known.app != each.app:
                    raise Conflict(
                        f"group {each.group!r} belongs to app {known.app!r}: choose another group=… "
                        f"or run `mainspring groups retire {each.group}`"
                    )
            for each in declarations:
                known = state.groups.get(each.group)
                patterns = tuple(sorted(set(each.patterns)))
                options = dict(each.options)
                state.groups[each.group] = (
                    GroupView(each.group, each.app, patterns, each.handler, options, now, served_at=None)
                    if known is None
                    else replace(known, patterns=patterns, handler=each.handler, options=options)
                )

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

    async def farewell(self, worker: str) -> None:
        """See ``Upkeep.farewell``."""
        with self._state.lock:
            self._state.fold(worker)

    async def record(self, runs: Sequence[RunView]) -> None:
        """See ``Upkeep.record``."""
        with self._state.lock:
            for run in runs:
                self._state.keep_run(run)

    async def reroute(self, limit: int) -> int:
        """See ``Upkeep.reroute``."""
        state = self._state
        rung: set[str] = set()
        routed = 0
        with state.lock:
            now = state.now()
            for parked in list(state.parked.values()):
                draft = parked.message.draft
                groups = state.subscribers(draft.topic) if routed < limit else []
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
        return routed

    async def recount(self, after: UUID | None, limit: int) -> Recount:
        """See ``Upkeep.recount``. Nobody but us ends a member here, so that none goes without a note."""
        with self._state.lock:
            ids = sorted(id for id in self._state.joints if after is None or id > after)[:limit]
        return Recount(last=ids[-1] if len(ids) == limit else None)

    async def report(self, progress: Sequence[Progress]) -> None:
        """See ``Upkeep.report``."""
        state = self._state
        with state.lock:
            now = state.now()
            for each in progress:
                state.progress.note(each, state.deliveries, now)

    async def prune(self, retention: Retention, limit: int, topic: str | None = None) -> Pruned:
        """See ``Upkeep.prune``."""
        with self._state.lock:
            return prune(self._state, retention, limit, topic)
