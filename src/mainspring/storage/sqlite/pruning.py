"""Removing what is over, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mainspring.model.views import Pruned, Retention
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import before, numbers

_UNROUTED = "no group subscribed to its topic in time"
_ID = 16
_PAGE = 64


def prune(
    sql: Dialect, retention: Retention, limit: int, now: datetime | None, topic: str | None = None
) -> Script[Pruned]:
    """Remove up to ``limit`` of each kind of what is over."""
    at = yield from sql.read_clock(now)
    pruning = _Pruning(sql, at, limit, topic)
    messages = 0 if topic is not None else (yield from pruning.messages(retention.repeats))
    runs = yield from pruning.runs(retention)
    dead = yield from pruning.dead(retention.dead)
    parked = yield from pruning.parked(retention.parked)
    if topic is not None:
        return Pruned(runs=runs, dead=dead, parked=parked)
    workers = yield from pruning.workers(retention.workers)
    audit = yield from pruning.audit(retention.audit)
    schedules = yield from pruning.schedules(retention.done)
    return Pruned(messages, runs, dead, parked, workers, audit, schedules)


def farewell(sql: Dialect, worker: str) -> Script[None]:
    """Take a worker off the roster; what it has done stays counted, under nobody's name."""
    yield sql("farewell_fold", worker)
    yield sql("farewell_tally", worker)
    yield sql("farewell_worker", worker)


class _Pruning:
    def __init__(self, sql: Dialect, at: int, limit: int, topic: str | None) -> None:
        self._topic = topic
        self._sql = sql
        self._at = at
        self._limit = limit

    def messages(self, repeats: timedelta) -> Script[int]:
        """Look at the messages a reference to which ended long enough ago."""
        sql = self._sql
        batches = yield from self._batches(before(self._at, repeats))
        if not batches:
            return 0
        yield sql("prune_ended_delete", numbers(batch for batch, *_ in batches))
        removed = 0
        for _, at, second, ids in batches:
            # What is still referred to is merely dropped here: it is enlisted again when that reference ends.
            # What went to several groups is looked at once more: another may have ended it later than this one did.
            shared = () if second else (yield sql("prune_messages_shared", ids, at))
            if shared:
                yield sql("ended_enlist", self._at, 1, b"".join(raw for (raw,) in shared))
            yield sql("prune_messages", ids, second, at)
            ((more,),) = yield sql("changes")
            removed += more
        return removed

    def _batches(self, cut: int) -> Script[list[Row]]:
        """The oldest batches, as many as hold no more ids than the limit, but one at least."""
        batches: list[Row] = []
        room = self._limit * _ID
        page = yield self._sql("prune_ended_read", cut, _PAGE, 0)
        while page:
            for batch in page:
                if batches and len(batch[-1]) > room:
                    return batches
                batches.append(batch)
                room -= len(batch[-1])
            page = () if room <= 0 else (yield self._sql("prune_ended_read", cut, _PAGE, len(batches)))
        return batches

    def runs(self, retention: Retention) -> Script[int]:
        """Forget old runs, except those of what is not over yet."""
        removed = 0
        kept_for = {
            "done": retention.done,
            "snoozed": retention.done,
            "cancelled": retention.done,
            "failed": retention.failures,
            "dead": retention.failures,
        }
        for status, age in kept_for.items():
            if age is None or removed >= self._limit:
                continue
            room = self._limit - removed
            over = yield self._sql("prune_runs_read", status, before(self._at, age), room, self._topic)
            if over:
                yield self._sql("prune_runs_delete", numbers(id for id, _ in over))
                yield from self._enlist(raw for _, raw in over)
                removed += len(over)
        return removed

    def dead(self, age: timedelta | None) -> Script[int]:
        """Discard old dead letters."""
        if age is None:
            return 0
        over = yield self._sql("prune_dead_read", before(self._at, age), self._limit, self._topic)
        if over:
            yield self._sql("dead_delete", numbers(seq for seq, _ in over))
            yield from self._enlist(raw for _, raw in over)
        return len(over)

    def parked(self, age: timedelta | None) -> Script[int]:
        """Give up on messages that nobody has subscribed to, and count them."""
        if age is None:
            return 0
        over = yield self._sql("prune_parked_read", before(self._at, age), self._limit, self._topic)
        if over:
            seqs = numbers(seq for seq, _ in over)
            yield self._sql("parked_cancelled", seqs, self._at, _UNROUTED)
            yield self._sql("parked_delete", seqs)
            yield self._sql("prune_parked_count", len(over))
            yield from self._enlist(raw for _, raw in over)
        return len(over)

    def workers(self, age: timedelta) -> Script[int]:
        """Take workers off the roster that have fallen silent."""
        over = yield self._sql("prune_workers_read", before(self._at, age), self._limit)
        for (name,) in over:
            yield from farewell(self._sql, name)
        return len(over)

    def audit(self, age: timedelta | None) -> Script[int]:
        """Forget what operators did long ago."""
        if age is None:
            return 0
        yield self._sql("prune_audit", before(self._at, age), self._limit)
        ((removed,),) = yield self._sql("changes")
        return int(removed)

    def schedules(self, age: timedelta | None) -> Script[int]:
        """Forget the schedules made at run time that have no further occurrence."""
        if age is None:
            return 0
        yield self._sql("prune_schedules", before(self._at, age), self._limit)
        ((removed,),) = yield self._sql("changes")
        return int(removed)

    def _enlist(self, ids: Iterable[bytes]) -> Script[None]:
        yield self._sql("ended_enlist", self._at, 0, b"".join(dict.fromkeys(ids)))
