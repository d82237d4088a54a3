"""The upkeep in memory: declarations, beats, re-routing and pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.errors import Conflict
from mainspring.model.views import Beat, Declaration, GroupView, Pruned, Retention, RunView, WorkerView
from mainspring.storage.memory.rows import DeliveryRow, EndedRow
from mainspring.storage.memory.state import State

_SERVED_EVERY = timedelta(seconds=60)
_UNROUTED = "no group subscribed to its topic in time"


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

    async def beat(self, beat: Beat) -> None:
        """See ``Upkeep.beat``."""
        state = self._state
        with state.lock:
            now = state.now()
            known = state.workers.get(beat.worker)
            state.workers[beat.worker] = WorkerView(
                name=beat.worker,
                app=beat.app,
                host=beat.host,
                pid=beat.pid,
                groups=beat.groups,
                in_hand=beat.in_hand,
                bell=beat.bell,
                started_at=now if known is None else known.started_at,
                beat_at=now,
                tripped=beat.tripped,
            )
            for group, runs in beat.runs.items():
                state.count(beat.worker, group, runs.handled, runs.failed)
            for group in beat.groups:
                declared = state.groups.get(group)
                if declared is None:
                    continue
                if declared.served_at is None or declared.served_at < now - _SERVED_EVERY:
                    state.groups[group] = replace(declared, served_at=now)

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

    async def prune(self, retention: Retention, limit: int, topic: str | None = None) -> Pruned:
        """See ``Upkeep.prune``."""
        with self._state.lock:
            now = self._state.now()
            messages = 0 if topic is not None else self._prune_messages(now, retention.repeats, limit)
            runs = self._prune_runs(now, retention, limit, topic)
            dead = self._prune_dead(now, retention.dead, limit, topic)
            parked = self._prune_parked(now, retention.parked, limit, topic)
            if topic is not None:
                return Pruned(runs=runs, dead=dead, parked=parked)
            return Pruned(
                messages,
                runs,
                dead,
                parked,
                workers=self._prune_workers(now, retention.workers, limit),
                audit=self._prune_audit(now, retention.audit, limit),
                schedules=self._prune_schedules(now, retention.done, limit),
            )

    def _prune_messages(self, now: datetime, repeats: timedelta, limit: int) -> int:
        state = self._state
        taken: list[EndedRow] = []
        room = limit
        state.ended.sort(key=lambda each: each.at)
        for batch in state.ended:
            if batch.at >= now - repeats or (taken and len(batch.message_ids) > room):
                break
            taken.append(batch)
            room -= len(batch.message_ids)
        del state.ended[: len(taken)]
        removed = 0
        again: list[UUID] = []
        for batch in taken:
            for message_id in batch.message_ids:
                message = state.messages.get(message_id)
                if message is None or state.refers_to(message_id):
                    continue  # it is enlisted again when the last reference ends
                if message.published_at > batch.at:
                    continue  # the batch speaks of an earlier life of the same id
                if message.copies != 1 and not batch.second:
                    # Another group may have ended it later than this one did: its hour counts from there.
                    again.append(message_id)
                    continue
                state.forget_message(message_id)
                removed += 1
        state.enlist(again, now, second=True)
        return removed

    def _prune_runs(self, now: datetime, retention: Retention, limit: int, topic: str | None) -> int:
        state = self._state
        meant = (run for run in state.runs.values() if topic in (None, run.topic))
        over = [run for run in meant if self._is_over(run, now, retention)][:limit]
        for run in over:
            state.forget_run(run)
        state.enlist((run.message_id for run in over), now)
        return len(over)

    def _is_over(self, run: RunView, now: datetime, retention: Retention) -> bool:
        kept_for = retention.failures if run.status in ("failed", "dead") else retention.done
        if kept_for is None or run.finished_at >= now - kept_for:
            return False
        unfinished = (self._state.live, self._state.buried)
        return not any(run.group in rows.get(run.message_id, {}) for rows in unfinished)

    def _prune_dead(self, now: datetime, kept_for: timedelta | None, limit: int, topic: str | None) -> int:
        state = self._state
        if kept_for is None:
            return 0
        meant = (dead for dead in state.dead.values() if topic in (None, dead.delivery.message.draft.topic))
        over = [dead for dead in meant if dead.buried_at < now - kept_for][:limit]
        for dead in over:
            state.unbury(dead)
        state.enlist((dead.delivery.message_id for dead in over), now)
        return len(over)

    def _prune_parked(self, now: datetime, kept_for: timedelta | None, limit: int, topic: str | None) -> int:
        state = self._state
        if kept_for is None:
            return 0
        meant = (parked for parked in state.parked.values() if topic in (None, parked.message.draft.topic))
        over = [parked for parked in meant if parked.parked_at < now - kept_for][:limit]
        for parked in over:
            state.record_unrouted(parked, _UNROUTED, now)
            state.unpark(parked)
        state.enlist((parked.message.draft.id for parked in over), now)
        state.expired_parked += len(over)
        return len(over)

    def _prune_workers(self, now: datetime, kept_for: timedelta, limit: int) -> int:
        state = self._state
        over = [worker.name for worker in state.workers.values() if worker.beat_at < now - kept_for][:limit]
        for name in over:
            state.fold(name)
        return len(over)

    def _prune_schedules(self, now: datetime, kept_for: timedelta | None, limit: int) -> int:
        rows = self._state.schedules
        if kept_for is None:
            return 0
        ended = (row for row in rows.values() if row.origin == "api" and row.next_at is None and row.paused_at is None)
        over = sorted(row.name for row in ended if row.base_at < now - kept_for)[:limit]
        for name in over:
            del rows[name]
        return len(over)

    def _prune_audit(self, now: datetime, kept_for: timedelta | None, limit: int) -> int:
        state = self._state
        if kept_for is None:
            return 0
        over = [each.id for each in state.audit if each.at < now - kept_for][:limit]
        state.audit = [each for each in state.audit if each.id not in over]
        return len(over)
