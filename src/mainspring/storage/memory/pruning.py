"""Removing what is over from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.retention import CHORES, KINDS, Chore, Kind, Pruned, Retention
from mainspring.model.standing import FORGOTTEN_AFTER
from mainspring.model.views import RunView
from mainspring.storage.ages import STATUSES, Ages
from mainspring.storage.memory.fanouts import prune_cursors
from mainspring.storage.memory.leases import prune_leases
from mainspring.storage.memory.measures import prune_measures
from mainspring.storage.memory.rows import EndedRow
from mainspring.storage.memory.state import State
from mainspring.storage.memory.unique import prune_likenesses

_UNROUTED = "no group subscribed to its topic in time"
_KINDS: dict[str, Kind] = {status: kind for kind, statuses in STATUSES.items() for status in statuses}


def prune(state: State, retention: Retention, limit: int, topic: str | None, chore: Chore | None) -> Pruned:
    """See ``Upkeep.prune``; the lock is held."""
    pruning = _Pruning(state, limit, Ages(retention, topic))
    chores: dict[Chore, Callable[[], Pruned]] = {
        "messages": lambda: pruning.messages(retention.repeats),
        "done": lambda: Pruned(runs=pruning.runs("done")),
        "failures": lambda: Pruned(runs=pruning.runs("failures")),
        "dead": lambda: Pruned(dead=pruning.dead()),
        "parked": lambda: Pruned(parked=pruning.parked()),
        "workers": lambda: Pruned(workers=pruning.workers(retention.workers)),
        "audit": lambda: Pruned(audit=pruning.audit(retention.audit)),
        "schedules": lambda: Pruned(schedules=pruning.schedules(retention.done)),
        "inbox": lambda: Pruned(inbox=pruning.inbox(retention.inbox)),
        "leases": lambda: Pruned(leases=prune_leases(state, retention.leases, limit)),
        "progress": lambda: Pruned(progress=state.progress.prune(state.deliveries, limit)),
        "likenesses": lambda: Pruned(likenesses=prune_likenesses(state, limit)),
        "cursors": lambda: Pruned(cursors=prune_cursors(state, retention.cursors, limit)),
        "measures": lambda: Pruned(measures=prune_measures(state, limit)),
        "bells": pruning.limits,
    }
    meant = (chore,) if chore is not None else CHORES if topic is None else KINDS
    return sum((chores[each]() for each in meant), Pruned())


class _Pruning:
    def __init__(self, state: State, limit: int, ages: Ages) -> None:
        self._state = state
        self._now = state.now()
        self._limit = limit
        self._ages = ages

    def messages(self, repeats: timedelta) -> Pruned:
        """Look at the messages a reference to which ended long enough ago."""
        state = self._state
        taken: list[EndedRow] = []
        room = self._limit
        last: str | None = None
        state.ended.sort(key=lambda each: each.at)
        for batch in state.ended:
            if batch.at >= self._now - repeats:
                break
            if taken and len(batch.message_ids) > room:
                last = ""
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
        state.enlist(again, self._now, second=True)
        return Pruned(messages=removed, last=last)

    def limits(self) -> Pruned:
        """Forget what limits have counted long ago."""
        self._state.limits.prune(self._now)
        return Pruned()

    def runs(self, kind: Kind) -> int:
        """Forget old runs, except those of what is not over yet."""
        runs = [run for run in self._state.runs.values() if _KINDS[run.status] == kind]
        over = [run for run in runs if self._is_over(run)][: self._limit]
        for run in over:
            self._state.forget_run(run)
        self._enlist(run.message_id for run in over)
        return len(over)

    def _is_over(self, run: RunView) -> bool:
        if not self._is_old(_KINDS[run.status], run.topic, run.finished_at):
            return False
        unfinished = (self._state.live, self._state.buried)
        return not any(run.group in rows.get(run.message_id, {}) for rows in unfinished)

    def dead(self) -> int:
        """Discard old dead letters."""
        letters = self._state.dead.values()
        old = [dead for dead in letters if self._is_old("dead", dead.delivery.message.draft.topic, dead.buried_at)]
        over = old[: self._limit]
        for dead in over:
            self._state.unbury(dead)
        self._enlist(dead.delivery.message_id for dead in over)
        return len(over)

    def parked(self) -> int:
        """Give up on messages that nobody has subscribed to, and count them."""
        state = self._state
        rows = state.parked.values()
        old = [parked for parked in rows if self._is_old("parked", parked.message.draft.topic, parked.parked_at)]
        over = old[: self._limit]
        for parked in over:
            state.record_unrouted(parked, _UNROUTED, self._now)
            state.unpark(parked)
        self._enlist(parked.message.draft.id for parked in over)
        state.expired_parked += len(over)
        return len(over)

    def inbox(self, kept_for: timedelta | None) -> int:
        """Forget messages of others, but for those that somebody is at."""
        rows = self._state.inbox
        if kept_for is None:
            return 0
        cut = self._now - kept_for
        ages = sorted((row.changed_at, key) for key, row in rows.items() if row.status != "processing")
        over = [key for at, key in ages if at < cut][: self._limit]
        for key in over:
            del rows[key]
        return len(over)

    def workers(self, kept_for: timedelta) -> int:
        """Take workers off the roster that have fallen silent."""
        workers = self._state.workers.values()
        over = [worker.name for worker in workers if worker.beat_at < self._now - kept_for][: self._limit]
        for name in over:
            self._state.fold(name)
        declared = self._state.declared
        cut = self._now - max(kept_for, FORGOTTEN_AFTER)
        for by in [by for by, row in declared.items() if row.seen_at < cut][: self._limit]:
            del declared[by]
        return len(over)

    def audit(self, kept_for: timedelta | None) -> int:
        """Forget what operators did long ago."""
        state = self._state
        if kept_for is None:
            return 0
        over = [each.id for each in state.audit if each.at < self._now - kept_for][: self._limit]
        state.audit = [each for each in state.audit if each.id not in over]
        return len(over)

    def schedules(self, kept_for: timedelta | None) -> int:
        """Forget the schedules made at run time that have no further occurrence."""
        rows = self._state.schedules
        if kept_for is None:
            return 0
        ended = (row for row in rows.values() if row.origin == "api" and row.next_at is None and row.paused_at is None)
        over = sorted(row.name for row in ended if row.base_at < self._now - kept_for)[: self._limit]
        for name in over:
            del rows[name]
        return len(over)

    def _is_old(self, kind: Kind, topic: str, since: datetime) -> bool:
        age = self._ages.of(kind, topic)
        return age is not None and self._now - since > age

    def _enlist(self, ids: Iterable[UUID]) -> None:
        self._state.enlist(ids, self._now)
