"""Removing what is over, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mainspring.model.views import Kind, Pruned, Retention
from mainspring.storage.ages import STATUSES, Ages
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.measures import prune_measures
from mainspring.storage.sqlite.unique import prune_likenesses
from mainspring.storage.sqlite.values import before, names, numbers

_UNROUTED = "no group subscribed to its topic in time"
_ID = 16
_PAGE = 64


def prune(
    sql: Dialect, retention: Retention, limit: int, now: datetime | None, topic: str | None = None
) -> Script[Pruned]:
    """Remove up to ``limit`` of each kind of what is over."""
    at = yield from sql.read_clock(now)
    pruning = _Pruning(sql, at, limit, Ages(retention, topic))
    messages = 0 if topic is not None else (yield from pruning.messages(retention.repeats))
    runs = yield from pruning.runs()
    dead = yield from pruning.dead()
    parked = yield from pruning.parked()
    if topic is not None:
        return Pruned(runs=runs, dead=dead, parked=parked)
    workers = yield from pruning.workers(retention.workers)
    audit = yield from pruning.audit(retention.audit)
    schedules = yield from pruning.schedules(retention.done)
    inbox = yield from pruning.inbox(retention.inbox)
    leases = yield from pruning.leases(retention.leases)
    progress = yield from pruning.progress()
    yield sql("prune_spent", at, limit)
    likenesses = yield from prune_likenesses(sql, at, limit)
    cursors = yield from pruning.cursors(retention.cursors)
    measures = yield from prune_measures(sql, at, limit)
    told = (workers, audit, schedules, inbox, leases, progress, likenesses, cursors, measures)
    return Pruned(messages, runs, dead, parked, *told)


def farewell(sql: Dialect, worker: str) -> Script[None]:
    """Take a worker off the roster; what it has done stays counted, under nobody's name."""
    yield sql("farewell_fold", worker)
    yield sql("farewell_tally", worker)
    yield sql("farewell_worker", worker)


class _Pruning:
    def __init__(self, sql: Dialect, at: int, limit: int, ages: Ages) -> None:
        self._ages = ages
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

    def runs(self) -> Script[int]:
        """Forget old runs, except those of what is not over yet."""
        removed = 0
        for kind, statuses in STATUSES.items():
            for topic, cut in (yield from self._meant(kind, "topics_ran", names(statuses))):
                for status in statuses:
                    if removed >= self._limit:
                        return removed
                    asked = (status, cut, self._limit - removed)
                    every = topic is None
                    over = yield (
                        self._sql("prune_runs_read", *asked) if every else self._sql("prune_runs_of", *asked, topic)
                    )
                    if over:
                        yield self._sql("prune_runs_delete", numbers(id for id, _ in over))
                        yield from self._enlist(raw for _, raw in over)
                        removed += len(over)
        return removed

    def dead(self) -> Script[int]:
        """Discard old dead letters."""
        over = yield from self._over("dead", "topics_dead", "prune_dead_read", "prune_dead_of")
        if over:
            yield self._sql("dead_delete", numbers(seq for seq, _ in over))
            yield from self._enlist(raw for _, raw in over)
        return len(over)

    def parked(self) -> Script[int]:
        """Give up on messages that nobody has subscribed to, and count them."""
        over = yield from self._over("parked", "topics_parked", "prune_parked_read", "prune_parked_of")
        if over:
            seqs = numbers(seq for seq, _ in over)
            yield self._sql("parked_cancelled", seqs, self._at, _UNROUTED)
            yield self._sql("parked_delete", seqs)
            yield self._sql("prune_parked_count", len(over))
            yield from self._enlist(raw for _, raw in over)
        return len(over)

    def _over(self, kind: Kind, topics: str, every: str, one: str) -> Script[list[Row]]:
        """What is older than its topic keeps it, up to the limit."""
        over: list[Row] = []
        for topic, cut in (yield from self._meant(kind, topics)):
            room = self._limit - len(over)
            if topic is None:
                over += yield self._sql(every, cut, room)
            elif room:
                over += yield self._sql(one, cut, room, topic)
        return over

    def _meant(self, kind: Kind, topics: str, *of: str) -> Script[list[tuple[str | None, int]]]:
        """The topics to look at, or None for all of them at once, and before when."""
        meant = self._ages.known(kind)
        if meant is None:
            there = yield self._sql(topics, *of)
            meant = self._ages.over(kind, ((topic, timedelta(microseconds=self._at - since)) for topic, since in there))
        return [(topic, before(self._at, age)) for topic, age in meant]

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

    def leases(self, age: timedelta | None) -> Script[int]:
        """Forget the leases that nobody has held for so long."""
        if age is None:
            return 0
        yield self._sql("prune_leases", before(self._at, age), self._limit)
        ((removed,),) = yield self._sql("changes")
        return int(removed)

    def cursors(self, age: timedelta | None) -> Script[int]:
        """Forget the cursors of shards that nobody has named for so long."""
        if age is None:
            return 0
        yield self._sql("prune_cursors", before(self._at, age), self._limit)
        ((removed,),) = yield self._sql("changes")
        return int(removed)

    def inbox(self, age: timedelta | None) -> Script[int]:
        """Forget messages of others, but for those that somebody is at."""
        if age is None:
            return 0
        yield self._sql("prune_inbox", before(self._at, age), self._limit)
        ((removed,),) = yield self._sql("changes")
        return int(removed)

    def progress(self) -> Script[int]:
        """Forget what was said of runs that are over."""
        yield self._sql("prune_progress", self._limit)
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
