"""Fan-out of SQLite, as scripts: under the one write lock nothing changes while it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.model.fanout import (
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
from mainspring.storage.operation import operation
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import publish
from mainspring.storage.sqlite.values import before, instant, instant_or_none, mapping, micros, pairs, storable

_MICROSECOND = timedelta(microseconds=1)


class SqliteFanouts(SqliteOperations):
    """``Fanouts`` on SQLite."""

    @operation("write")
    def plan(self, batch: Batch, choose: Choose) -> Script[Published | None]:
        sql, topic = self._sql, batch.topic
        at = yield from sql.turn_clock()
        held = yield sql("lease_held", batch.hold.name, at)
        if not held or held[0][:2] != batch.hold[1:]:
            return None
        if batch.note is not None:
            yield self._note(batch.subject, batch.note, at)
        rows = yield sql(
            "fanout_candidates", topic, pairs(batch.shards), before(at, SEEN_EVERY), mapping(batch.consumers)
        )
        chosen = choose([_candidate(row) for row in rows])
        published = Published(frozenset())
        if chosen:
            published = yield from publish(sql, [each.draft for each in chosen])
            window = micros(batch.window)
            yield from sql.many(
                "fanout_planned",
                [(topic, each.work, each.shard, window, at, at, each.draft.id.bytes) for each in chosen],
            )
        # Also where its slice is on its way, since that may take longer than cursors are kept.
        due = {(each.work, each.shard) for each in chosen}
        seen = [(row[0], row[1]) for row in rows if row[8] and (row[0], row[1]) not in due]
        if seen:
            yield sql("fanout_seen", topic, pairs(seen), at)
        return published

    @operation("write")
    def advance(self, key: CursorKey, window: datetime) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        return bool((yield self._sql("fanout_advance", *key, micros(window), at)))

    @operation("write")
    def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> Script[FanoutPolicy]:
        at = yield from self._sql.turn_clock()
        wanted = (policy.enabled, _span(policy.every), _span(policy.jitter))
        rows = yield self._sql("fanout_edit", topic, work, shard, *wanted, at, storable(note.by))
        yield self._note(subject(topic, work, shard), note, at)
        return _policy(rows[0])

    @operation("write")
    def reset(self, topic: str, work: str, shard: str, note: Note) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("fanout_reset", topic, work, shard)):
            return False
        yield self._note(subject(topic, work, shard), note, at)
        return True

    @operation("read")
    def policies(self, topic: str, work: str, after: str | None, limit: int) -> Script[Sequence[FanoutPolicyView]]:
        rows = yield self._sql("fanout_policies", topic, work, after, limit)
        return [FanoutPolicyView(row[0], row[1], row[2], _policy(row[3:6]), instant(row[6]), row[7]) for row in rows]

    @operation("read")
    def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Script[Sequence[CursorView]]:
        rows = yield self._sql("fanout_cursors", topic, work, after, limit, behind)
        return [CursorView(*row[:3], *map(instant_or_none, row[3:])) for row in rows]

    @operation("read")
    def tally(self, topic: str | None = None, work: str | None = None) -> Script[Sequence[CursorTally]]:
        rows = yield self._sql("fanout_tally", topic, work)
        return [_tally(row) for row in rows]

    def _note(self, about: str, note: Note, at: int) -> Statement:
        return self._sql("audit_note", at, storable(note.by), note.action, storable(about), storable(note.detail))


def _candidate(row: Row) -> Candidate:
    work, shard, completed, planned = row[0], row[1], row[5], row[6]
    policy, unfinished = _policy(row[2:5]), bool(row[7])
    return Candidate(work, shard, policy, instant_or_none(completed), instant_or_none(planned), unfinished)


def _tally(row: Row) -> CursorTally:
    topic, work, shards, last_window, completed, behind, oldest = row
    return CursorTally(topic, work, shards, instant_or_none(last_window), completed, behind, instant_or_none(oldest))


def _policy(row: Row) -> FanoutPolicy:
    enabled, every, jitter = row
    return FanoutPolicy(None if enabled is None else bool(enabled), _length(every), _length(jitter))


def _span(length: timedelta | None) -> int | None:
    return None if length is None else length // _MICROSECOND


def _length(span: int | None) -> timedelta | None:
    return None if span is None else timedelta(microseconds=span)
