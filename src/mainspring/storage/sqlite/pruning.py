"""Removing what is over, in bounded batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from mainspring.model.retention import Chore, Kind, Retention
from mainspring.model.standing import FORGOTTEN_AFTER
from mainspring.storage.ages import STATUSES, Ages
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.measures import prune_measures
from mainspring.storage.sqlite.unique import prune_likenesses
from mainspring.storage.sqlite.values import before, names, numbers
from mainspring.storage.walking import STRETCH, Found

_UNROUTED = "no group subscribed to its topic in time"
_ID = 16
_PAGE = 64


def farewell(sql: Dialect, worker: str, start_id: str = "") -> Script[None]:
    """Take a worker off the roster; what it has done stays counted, under no name."""
    yield sql("farewell_declared", worker, start_id)
    yield sql("farewell_fold", worker)
    yield sql("farewell_tally", worker)
    yield sql("farewell_worker", worker)


class SqlitePruning:
    """The chores; each is a transaction by itself when it is asked for alone."""

    def __init__(self, sql: Dialect, at: int, retention: Retention, limit: int, topic: str | None) -> None:
        self._ages = Ages(retention, topic)
        self._retention = retention
        self._sql = sql
        self._at = at
        self._limit = limit

    def chores(self, after: str) -> dict[Chore, Callable[[], Script[Found]]]:
        """How each is done; those that go from topic to topic, after this one."""
        keeps, at, limit = self._retention, self._at, self._limit
        return {
            "messages": lambda: self._messages(keeps.repeats),
            "done": lambda: self._runs("done", after),
            "failures": lambda: self._runs("failures", after),
            "dead": lambda: self._dead(after),
            "parked": lambda: self._parked(after),
            "workers": lambda: self._workers(keeps.workers),
            "audit": lambda: self._kept_for("prune_audit", keeps.audit),
            "schedules": lambda: self._kept_for("prune_schedules", keeps.done),
            "inbox": lambda: self._kept_for("prune_inbox", keeps.inbox),
            "leases": lambda: self._kept_for("prune_leases", keeps.leases),
            "progress": lambda: self._changed("prune_progress", limit),
            "likenesses": lambda: _alone(prune_likenesses(self._sql, at, limit)),
            "cursors": lambda: self._kept_for("prune_cursors", keeps.cursors),
            "measures": lambda: _alone(prune_measures(self._sql, at, limit)),
            "bells": self._spent,
        }

    def _spent(self) -> Script[Found]:
        yield self._sql("prune_spent", self._at, self._limit)
        return 0, None

    def _messages(self, repeats: timedelta) -> Script[Found]:
        """Look at the messages a reference to which ended long enough ago."""
        sql = self._sql
        batches, last = yield from self._batches(before(self._at, repeats))
        if not batches:
            return 0, None
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
        return removed, last

    def _batches(self, cut: int) -> Script[tuple[list[Row], str | None]]:
        """The oldest batches, as many as hold no more ids than the limit, but one at least; and whether to go on."""
        batches: list[Row] = []
        room = self._limit * _ID
        page = yield self._sql("prune_ended_read", cut, _PAGE, 0)
        while page:
            for batch in page:
                if batches and len(batch[-1]) > room:
                    return batches, ""
                batches.append(batch)
                room -= len(batch[-1])
            page = yield self._sql("prune_ended_read", cut, _PAGE, len(batches))
        return batches, None

    def _runs(self, kind: Kind, after: str) -> Script[Found]:
        """Forget old runs, except those of what is not over yet."""
        meant, end = yield from self._meant(kind, after, "topics_ran", names(STATUSES[kind]))
        removed, passed = 0, after
        for topic, cut in meant:
            for status in STATUSES[kind]:
                asked = (status, cut, self._limit - removed)
                every = topic is None
                over = yield (
                    self._sql("prune_runs_read", *asked) if every else self._sql("prune_runs_of", *asked, topic)
                )
                if over:
                    yield self._sql("prune_runs_delete", numbers(id for id, _ in over))
                    yield from self._enlist(raw for _, raw in over)
                    removed += len(over)
                if removed >= self._limit:
                    return removed, passed
            passed = topic or after
        return removed, end

    def _dead(self, after: str) -> Script[Found]:
        """Discard old dead letters."""
        over, last = yield from self._over("dead", after, "topics_dead", "prune_dead_read", "prune_dead_of")
        if over:
            yield self._sql("dead_delete", numbers(seq for seq, _ in over))
            yield from self._enlist(raw for _, raw in over)
        return len(over), last

    def _parked(self, after: str) -> Script[Found]:
        """Give up on messages that no group has subscribed to, and count them."""
        over, last = yield from self._over("parked", after, "topics_parked", "prune_parked_read", "prune_parked_of")
        if over:
            seqs = numbers(seq for seq, _ in over)
            yield self._sql("parked_cancelled", seqs, self._at, _UNROUTED)
            yield self._sql("parked_delete", seqs)
            yield self._sql("prune_parked_count", len(over))
            yield from self._enlist(raw for _, raw in over)
        return len(over), last

    def _over(self, kind: Kind, after: str, topics: str, every: str, one: str) -> Script[tuple[list[Row], str | None]]:
        """What is older than its topic keeps it, up to the limit, and where to go on."""
        meant, end = yield from self._meant(kind, after, topics)
        over: list[Row] = []
        passed = after
        for topic, cut in meant:
            room = self._limit - len(over)
            over += yield self._sql(every, cut, room) if topic is None else self._sql(one, cut, room, topic)
            if len(over) >= self._limit:
                return over, passed
            passed = topic or after
        return over, end

    def _meant(
        self, kind: Kind, after: str, topics: str, *of: str
    ) -> Script[tuple[list[tuple[str | None, int]], str | None]]:
        """The topics to look at, or None for all of them at once, and before when; and the end of the stretch."""
        meant, end = self._ages.known(kind), None
        if meant is None:
            there = yield self._sql(topics, *of, after, STRETCH)
            ages = ((topic, timedelta(microseconds=self._at - since)) for topic, since in there if since is not None)
            meant = self._ages.over(kind, ages)
            end = there[-1][0] if len(there) >= STRETCH else None
        return [(topic, before(self._at, age)) for topic, age in meant], end

    def _workers(self, age: timedelta) -> Script[Found]:
        """Take workers off the roster that have fallen silent."""
        over = yield self._sql("prune_workers_read", before(self._at, age), self._limit)
        for (name,) in over:
            yield from farewell(self._sql, name)
        yield self._sql("prune_declarations", before(self._at, max(age, FORGOTTEN_AFTER)), self._limit)
        return len(over), None

    def _kept_for(self, name: str, age: timedelta | None) -> Script[Found]:
        return (0, None) if age is None else (yield from self._changed(name, before(self._at, age), self._limit))

    def _changed(self, name: str, *args: int) -> Script[Found]:
        yield self._sql(name, *args)
        ((removed,),) = yield self._sql("changes")
        return int(removed), None

    def _enlist(self, ids: Iterable[bytes]) -> Script[None]:
        yield self._sql("ended_enlist", self._at, 0, b"".join(dict.fromkeys(ids)))


def _alone(script: Script[int]) -> Script[Found]:
    return (yield from script), None
