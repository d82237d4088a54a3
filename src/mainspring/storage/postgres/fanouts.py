"""Fan-out in SQL: a batch is planned in one transaction, a cursor is advanced by one statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

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
from mainspring.storage.operation import Clocked, Gateway, operation
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import Script


class PostgresFanouts(PostgresOperations):
    """``Fanouts`` on PostgreSQL."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(names, gateway, clock)
        self._mailbox = PostgresMailbox(names, gateway, clock)

    @operation("write")
    def plan(self, batch: Batch, choose: Choose) -> Script[Published | None]:
        topic = batch.topic
        # No other process acquires the lease from here until the commit.
        if not (yield self._sql.opening("lease_confirm", *batch.hold, self.now)):
            return None
        if batch.note is not None:
            said = (clean(batch.note.by), batch.note.action, clean(batch.note.detail))
            yield self._sql("timetable_note", [batch.subject], *said, self.now)
        named = columns(((work, shard, batch.consumers.get(work)) for work, shard in batch.shards), 3)
        rows = yield self._sql("fanout_candidates", topic, *named, SEEN_EVERY, self.now)
        candidates = [Candidate(row[0], row[1], FanoutPolicy(*row[2:5]), *row[5:8]) for row in rows]
        chosen = choose(candidates)
        due = {(each.work, each.shard) for each in chosen}
        # Also where its slice is on its way, since that may take longer than cursors are kept.
        seen = {(row[0], row[1]) for row in rows if row[8]} - due
        # Sorted, here and below, because rows are locked in this order by every writer of several.
        if touched := sorted(due | seen):
            # What another session has locked is left to the next plan, and keeps no other shard waiting (invariant 28).
            locked = yield self._sql("fanout_busy", topic, *columns(touched, 2))
            busy = {(work, shard) for work, shard in locked}
            chosen = [each for each in chosen if (each.work, each.shard) not in busy]
            seen -= busy
        published = yield from self._mailbox.publish.script([each.draft for each in chosen])
        planned = sorted((each.work, each.shard, each.draft.id) for each in chosen)
        if planned:
            yield self._sql("fanout_planned", topic, *columns(planned, 3), batch.window, self.now)
        if seen:
            yield self._sql("fanout_seen", topic, *columns(sorted(seen), 2), self.now)
        return published

    @operation("write")
    def advance(self, key: CursorKey, window: datetime) -> Script[bool]:
        return bool((yield self._sql("fanout_advance", *key, window, self.now)))

    @operation("write")
    def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> Script[FanoutPolicy]:
        said = (clean(note.by), note.action, subject(topic, work, shard), clean(note.detail))
        wanted = (policy.enabled, policy.every, policy.jitter)
        rows = yield self._sql("fanout_edit", topic, work, shard, *wanted, *said, self.now)
        return FanoutPolicy(*rows[0])

    @operation("write")
    def reset(self, topic: str, work: str, shard: str, note: Note) -> Script[bool]:
        said = (clean(note.by), note.action, subject(topic, work, shard), clean(note.detail))
        return bool((yield self._sql("fanout_reset", topic, work, shard, *said, self.now)))

    @operation("read")
    def policies(self, topic: str, work: str, after: str | None, limit: int) -> Script[Sequence[FanoutPolicyView]]:
        rows = yield self._sql("fanout_policies", topic, work, after, limit)
        return [FanoutPolicyView(row[0], row[1], row[2], FanoutPolicy(*row[3:6]), row[6], row[7]) for row in rows]

    @operation("read")
    def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Script[Sequence[CursorView]]:
        rows = yield self._sql("fanout_cursors", topic, work, after, limit, behind)
        return [CursorView(*row) for row in rows]

    @operation("read")
    def tally(self, topic: str | None = None, work: str | None = None) -> Script[Sequence[CursorTally]]:
        rows = yield self._sql("fanout_tally", topic, work)
        return [CursorTally(*row) for row in rows]
