"""The inbox, leases and fan-out: the operations on which dialects agree."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from mainspring.model.errors import Rejected
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
    SeekResult,
)
from mainspring.model.inbox import InboxFilter, InboxKey, InboxReceipt, InboxView, MarkStatus
from mainspring.model.lease import LeaseView
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Note
from mainspring.storage.operation import operation
from mainspring.storage.portable.dialect import SqlOperations
from mainspring.storage.script import Row, Script


class SqlInbox(SqlOperations):
    """The operations of ``Inbox`` on which dialects agree."""

    @operation("write")
    def mark(
        self, key: InboxKey, attempt: int, status: MarkStatus, error: str | None, admitted_at: datetime | None = None
    ) -> Script[bool]:
        at = yield from self._turn_clock()
        text = None if error is None else self._values.text(error)
        admitted = self._values.micros(admitted_at)
        return bool((yield self._sql("inbox_mark", *key, attempt, status, text, at, admitted)))

    @operation("write")
    def receive(self, group: str, source: str, received: Mapping[str, Draft]) -> Script[InboxReceipt]:
        if not received:
            return InboxReceipt()
        at = yield from self._turn_clock()
        # Sorted: of two callers with the same ids one waits for the other, and never each for the other.
        hashed = {id: f"{_hash(received[id].payload)}{id}" for id in sorted(received)}
        if (yield from self._receive_all(group, source, list(hashed.values()), list(received.values()), at)):
            return InboxReceipt(frozenset(received))
        rows = yield self._sql.opening("inbox_receive", group, source, self._values.texts(hashed.values()), at)
        different: Sequence[Row] = ()
        if len(rows) < len(received):
            new = {row[0] for row in rows}
            known = self._values.texts(text for id, text in hashed.items() if id not in new)
            different = yield self._sql("inbox_receive_mismatched", group, source, known, at)
            rows = [*rows, *(yield self._sql("inbox_receive_again", group, source, known, at))]
        stored = frozenset(row[0] for row in rows)
        if stored:
            drafts = [draft for id, draft in received.items() if id in stored]
            for each in (yield from self._store(drafts)).conflicting(drafts):
                raise Rejected(str(each))  # with its mark it would count as stored
        return InboxReceipt(stored, frozenset(row[0] for row in different) - stored)

    @abstractmethod
    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        """Publish."""

    def _receive_all(
        self,
        group: str,  # noqa: ARG002 - for PostgreSQL
        source: str,  # noqa: ARG002
        hashed: Sequence[str],  # noqa: ARG002
        drafts: Sequence[Draft],  # noqa: ARG002
        at: Any,  # noqa: ARG002
    ) -> Script[bool]:
        """Mark and publish them in one trip and return True, or change nothing: if one of them is known, or always."""
        yield from ()
        return False

    @operation("read")
    def browse(self, filter: InboxFilter) -> Script[list[InboxView]]:
        at = yield from self._read_clock()
        times = (self._values.span(filter.stuck), self._values.instant(filter.before))
        args = (filter.group, filter.source, filter.status, *times, filter.limit, at, *filter.past_columns)
        if filter.message_id is None:
            rows = yield self._sql("inbox_browse", *args)
        else:
            rows = yield self._sql("inbox_find", *args, filter.message_id)
        return [self._view(InboxView, row) for row in rows]


class SqlLeases(SqlOperations):
    """The operations of ``Leases`` on which dialects agree."""

    @operation("write")
    def confirm(self, name: str, epoch: int, holder: str) -> Script[bool]:
        at = yield from self._turn_clock()
        return bool((yield self._sql("lease_confirm", name, epoch, holder, at)))

    @operation("write")
    def release(self, name: str, epoch: int, holder: str) -> Script[bool]:
        at = yield from self._turn_clock()
        return bool((yield self._sql("lease_release", name, epoch, holder, at)))

    @operation("read")
    def find(self, name: str) -> Script[LeaseView | None]:
        at = yield from self._read_clock()
        rows = yield self._sql("lease_find", name, at)
        return self._view(LeaseView, rows[0]) if rows else None

    @operation("read")
    def browse(self, after: str | None, limit: int) -> Script[list[LeaseView]]:
        at = yield from self._read_clock()
        return [self._view(LeaseView, row) for row in (yield self._sql("lease_browse", after, limit, at))]


class SqlFanouts(SqlOperations):
    """The operations of ``Fanouts`` on which dialects agree."""

    @operation("write")
    def plan(self, batch: Batch, choose: Choose) -> Script[Published | None]:
        topic, rows = batch.topic, self._values.rows
        at = yield from self._turn_clock()
        # No other process acquires the lease from here until the commit.
        if not (yield self._sql.opening("lease_confirm", *batch.hold, at)):
            return None
        if batch.note is not None:
            yield self._note(at, batch.note, batch.subject)
        shards = rows([(work, shard, batch.consumers.get(work)) for work, shard in batch.shards], 3)
        found = yield self._sql("fanout_candidates", topic, *shards, self._values.span(SEEN_EVERY), at)
        chosen = choose([self._candidate(row) for row in found])
        due = {(each.work, each.shard) for each in chosen}
        # Also where its slice is on its way, since that may take longer than cursors are kept.
        seen = {(row[0], row[1]) for row in found if row[8]} - due
        # Sorted, here and below, because rows are locked in this order by every writer of several.
        if touched := sorted(due | seen):
            # What another session has locked is left to the next plan, and keeps no other shard waiting (invariant 28).
            busy = yield from self._busy(topic, touched)
            chosen = [each for each in chosen if (each.work, each.shard) not in busy]
            seen -= busy
        published = yield from self._store([each.draft for each in chosen])
        planned = sorted((each.work, each.shard, each.draft.id) for each in chosen)
        if planned:
            yield from self._record_planned(topic, planned, batch.window, at)
        if seen:
            yield self._sql("fanout_seen", topic, *rows(sorted(seen), 2), at)
        return published

    @abstractmethod
    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        """Publish the drafts."""

    @operation("write")
    def seek(
        self,
        topic: str,
        work: str,
        shards: Sequence[str],
        to: datetime | None,
        consumer: str | None,
        note: Note | None,
        about: str,
    ) -> Script[SeekResult]:
        named = sorted(set(shards))
        at = yield from self._turn_clock()
        busy = yield from self._busy(topic, [(work, shard) for shard in named], opens=True)
        # Read under the lock: what plans these shards, or has planned them just now, holds it too.
        asked = self._values.rows([(work, shard, consumer) for shard in named], 3)
        found = yield self._sql("fanout_candidates", topic, *asked, self._values.span(SEEN_EVERY), at)
        free = [each for row in found if ((each := self._candidate(row)).work, each.shard) not in busy]
        moving = [each.shard for each in free if not each.is_unfinished]
        texts = self._values.texts(moving)
        rows = yield self._sql("fanout_seek", topic, work, texts, self._values.instant(to), at)
        if note is not None and rows:
            yield self._note(at, note, about)
        return SeekResult(len(rows), len(free) - len(moving), len(busy))

    @abstractmethod
    def _busy(
        self, topic: str, shards: Sequence[tuple[str, str]], *, opens: bool = False
    ) -> Script[set[tuple[str, str]]]:
        """Lock the cursors of these, as (work, shard), and return those that another session has locked.

        ``opens``: as the first statement of the transaction.
        """

    @abstractmethod
    def _record_planned(
        self, topic: str, slices: Sequence[tuple[str, str, UUID]], window: datetime, at: Any
    ) -> Script[None]:
        """Record slices as planned, as (work, shard, message)."""

    @operation("write")
    def advance(self, key: CursorKey, window: datetime) -> Script[bool]:
        at = yield from self._turn_clock()
        return bool((yield self._sql("fanout_advance", *key, self._values.instant(window), at)))

    @operation("read")
    def policies(self, topic: str, work: str, after: str | None, limit: int) -> Script[Sequence[FanoutPolicyView]]:
        rows = yield self._sql("fanout_policies", topic, work, after, limit)
        return [self._view(FanoutPolicyView, (*row[:3], self._policy(row[3:6]), *row[6:])) for row in rows]

    @operation("read")
    def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Script[Sequence[CursorView]]:
        rows = yield self._sql("fanout_cursors", topic, work, after, limit, behind)
        return [self._view(CursorView, row) for row in rows]

    @operation("read")
    def tally(self, topic: str | None = None, work: str | None = None) -> Script[Sequence[CursorTally]]:
        rows = yield self._sql("fanout_tally", topic, work)
        return [self._view(CursorTally, row) for row in rows]

    def _candidate(self, row: Row) -> Candidate:
        return self._view(Candidate, (*row[:2], self._policy(row[2:5]), *row[5:8]))

    def _policy(self, row: Row) -> FanoutPolicy:
        return self._view(FanoutPolicy, row)


def _hash(payload: bytes) -> str:
    """Return 16 characters by which payloads are compared."""
    return blake2b(payload, digest_size=8).hexdigest()
