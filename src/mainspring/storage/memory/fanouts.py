"""Fan-out in memory: cursors and policies by shard, under the one lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.model.fanout import (
    EVERYTHING,
    SEEN_EVERY,
    Batch,
    Candidate,
    Choose,
    CursorKey,
    CursorTally,
    CursorView,
    FanoutPolicy,
    FanoutPolicyView,
    subject,
)
from mainspring.model.message import Published
from mainspring.model.schedule import Note
from mainspring.storage.memory.fanout_rows import CursorRow
from mainspring.storage.memory.publishing import publish
from mainspring.storage.memory.state import State


class MemoryFanouts:
    """``Fanouts`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.fanouts

    async def plan(self, batch: Batch, choose: Choose) -> Published | None:
        """See ``Fanouts.plan``."""
        state, cursors = self._state, self._table.cursors
        with state.lock:
            now = state.now()
            lease = state.leases.rows.get(batch.hold.name)
            if lease is None or not lease.is_under(batch.hold, now):
                return None
            if batch.note is not None:
                self._note(batch.subject, batch.note, now)
            candidates = [
                self._candidate(CursorKey(batch.topic, *each), batch.consumers.get(each[0])) for each in batch.shards
            ]
            chosen = choose(candidates)
            drafts = [each.draft for each in chosen]
            published = publish(state, drafts, now)
            for each in chosen:
                key = CursorKey(batch.topic, each.work, each.shard)
                row = cursors.get(key, CursorRow(now))
                if row.planned is None or row.planned < batch.window:  # a cursor never goes back
                    cursors[key] = replace(
                        row, planned=batch.window, planned_at=now, slice_id=each.draft.id, seen_at=now
                    )
            for candidate in candidates:
                key = CursorKey(batch.topic, candidate.work, candidate.shard)
                known = cursors.get(key)
                if known is not None and known.seen_at < now - SEEN_EVERY:
                    cursors[key] = replace(known, seen_at=now)
            return published

    async def advance(self, key: CursorKey, window: datetime) -> bool:
        """See ``Fanouts.advance``."""
        with self._state.lock:
            now = self._state.now()
            row = self._table.cursors.get(key)
            # A cursor goes no further than what was planned, and never back.
            if row is None or row.planned is None or row.planned < window:
                return False
            if row.completed is not None and row.completed >= window:
                return False
            self._table.cursors[key] = replace(row, completed=window, completed_at=now, seen_at=now)
            return True

    async def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> FanoutPolicy:
        """See ``Fanouts.edit``."""
        with self._state.lock:
            now = self._state.now()
            key = CursorKey(topic, work, shard)
            known = self._table.policies.get(key)
            merged = policy if known is None else _over(policy, known.policy)
            self._table.policies[key] = FanoutPolicyView(topic, work, shard or None, merged, now, note.by)
            self._note(subject(*key), note, now)
            return merged

    async def reset(self, topic: str, work: str, shard: str, note: Note) -> bool:
        """See ``Fanouts.reset``."""
        with self._state.lock:
            key = CursorKey(topic, work, shard)
            if self._table.policies.pop(key, None) is None:
                return False
            self._note(subject(*key), note, self._state.now())
            return True

    async def policies(self, topic: str, work: str, after: str | None, limit: int) -> Sequence[FanoutPolicyView]:
        """See ``Fanouts.policies``."""
        with self._state.lock:
            keys = _of(self._table.policies, topic, work, after)
            return [self._table.policies[key] for key in keys][:limit]

    async def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Sequence[CursorView]:
        """See ``Fanouts.cursors``."""
        with self._state.lock:
            views = [self._view(key) for key in _of(self._table.cursors, topic, work, after)]
            return [view for view in views if view.is_behind or not behind][:limit]

    async def tally(self, topic: str | None = None, work: str | None = None) -> Sequence[CursorTally]:
        """See ``Fanouts.tally``."""
        with self._state.lock:
            works: dict[tuple[str, str], list[CursorView]] = {}
            for key in self._table.cursors:
                if topic in (None, key.topic) and work in (None, key.work):
                    works.setdefault(key[:2], []).append(self._view(key))
        names = sorted(works, key=lambda each: (each[0].encode(), each[1].encode()))
        return [_tallied(*name, works[name]) for name in names]

    def _candidate(self, key: CursorKey, consumer: str | None) -> Candidate:
        policies = self._table.policies
        own, of_work = policies.get(key), policies.get(key._replace(shard=EVERYTHING))
        policy = FanoutPolicy() if own is None else own.policy
        if of_work is not None:
            policy = _over(policy, of_work.policy)
        row = self._table.cursors.get(key)
        if row is None:
            return Candidate(key.work, key.shard, policy)
        state, id = self._state, row.slice_id
        copies = {} if id is None else state.live.get(id, {})
        unfinished = bool(copies) if consumer is None else consumer in copies
        unfinished = unfinished or id in state.unrouted
        return Candidate(key.work, key.shard, policy, row.completed, row.planned, unfinished)

    def _view(self, key: CursorKey) -> CursorView:
        row = self._table.cursors[key]
        return CursorView(*key, row.completed, row.completed_at, row.planned, row.planned_at)

    def _note(self, about: str, note: Note, now: datetime) -> None:
        self._state.note(note.by, note.action, about, note.detail, now)


def prune_cursors(state: State, kept_for: timedelta | None, limit: int) -> int:
    """Forget the cursors of shards that nobody has named for so long; the lock is held."""
    if kept_for is None:
        return 0
    now, rows = state.now(), state.fanouts.cursors
    old = sorted((row.seen_at, key) for key, row in rows.items() if row.seen_at < now - kept_for)[:limit]
    for _, key in old:
        del rows[key]
    return len(old)


def _over(policy: FanoutPolicy, beneath: FanoutPolicy) -> FanoutPolicy:
    return FanoutPolicy(
        beneath.enabled if policy.enabled is None else policy.enabled,
        beneath.every if policy.every is None else policy.every,
        beneath.jitter if policy.jitter is None else policy.jitter,
    )


def _of(keys: Iterable[CursorKey], topic: str, work: str, after: str | None) -> list[CursorKey]:
    # By their bytes, as databases compare them.
    found = (key for key in keys if key.topic == topic and key.work == work)
    later = (key for key in found if after is None or key.shard.encode() > after.encode())
    return sorted(later, key=lambda key: key.shard.encode())


def _tallied(topic: str, work: str, views: Sequence[CursorView]) -> CursorTally:
    last = max((view.planned for view in views if view.planned is not None), default=None)
    completed = [view.completed for view in views if view.completed is not None]
    return CursorTally(
        topic,
        work,
        shards=len(views),
        last_window=last,
        completed=0 if last is None else sum(each >= last for each in completed),
        behind=sum(view.is_behind for view in views),
        oldest=min(completed, default=None),
    )
