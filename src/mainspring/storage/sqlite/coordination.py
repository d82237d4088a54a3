"""The timetable, the inbox, leases and fan-out on SQLite. A tick writes only when something has changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.model.fanout import FanoutPolicy, subject
from mainspring.model.inbox import Admission, AdmitStatus, InboxKey, InboxView, admitted, differs, may_admit, rejected
from mainspring.model.join import Join
from mainspring.model.lease import Granted, Renewal, Renewed
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import DELETED, NEVER, REPLACED, UNSERVED_AFTER, Note, Occurrence
from mainspring.storage.operation import operation
from mainspring.storage.portable.coordination import SqlFanouts, SqlInbox, SqlLeases
from mainspring.storage.portable.timetable import SqlTimetable, read_join
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import publish
from mainspring.storage.sqlite.values import after, before, instant, micros, numbers, storable
from mainspring.storage.sqlite.values import names as listed
from mainspring.storage.sqlite.verdicts import cancel_deliveries


class SqliteTimetable(SqlTimetable, SqliteOperations):
    """``Timetable`` on SQLite.

    Operations that run in a caller's transaction (``rewrite``, ``enter``, ``freeze``, ``thaw``) take the lock first of
    all.
    """

    @operation("write")
    def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Script[Published]:
        at = yield from self._sql.turn_clock()
        published = yield from self._publish(occurrences, at)
        entered = sorted({each.draft.schedule or "" for each in occurrences})
        yield self._note(at, note, *entered)
        yield from self._release(at, entered=entered)
        if any(each.due_at == NEVER for each in occurrences):
            yield self._ring()  # the worker that ends the run they wait for must know of them
        return published

    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        return publish(self._sql, drafts)

    def _delay(self, later: Sequence[tuple[UUID, datetime]]) -> Script[None]:
        for message_id, due_at in later:
            args = (message_id.bytes, micros(due_at))
            yield self._sql("timetable_later", *args)
            yield self._sql("timetable_later_parked", *args)

    def _release(
        self, at: int, *, app: str | None = None, entered: Sequence[str] = (), free: Sequence[str] = ()
    ) -> Script[int]:
        served_since = before(at, UNSERVED_AFTER)
        rows = yield self._sql("timetable_waiting", app, listed(entered), listed(free), served_since)
        if rows:
            yield from self._sql.mark_clock(at)
            yield self._sql("timetable_release", numbers(seq for (seq,) in rows), at)
            # They have their old seqs, so no new one rings for them.
            yield self._sql("bell_ring")
        return len(rows)

    def _cancel(self, schedules: Sequence[str], reason: str, at: int) -> Script[tuple[int, Collection[str]]]:
        by_hand = reason == DELETED
        found = yield self._sql("timetable_unfinished", listed(schedules), reason == REPLACED, by_hand)
        parked = () if reason == REPLACED else (yield self._sql("timetable_parked", listed(schedules), by_hand))
        return (yield from cancel_deliveries(self._sql, found, parked, reason, at)).asked, ()

    def _complete_joins(self, limit: int, at: int) -> Script[list[tuple[Join, int, int]]]:
        yield from self._mark_clock(at)
        rows = yield self._sql("joint_complete", limit)
        for raw, *_ in rows:
            # The row is removed in the transaction that publishes: the next tick finds no join.
            yield self._sql("joint_delete", raw)
        return [
            (read_join(UUID(bytes=raw), then, otherwise), done, failed) for raw, then, otherwise, done, failed in rows
        ]

    def _lock(
        self,
        names: Sequence[str],
        at: int,
        *,
        waits: bool,  # noqa: ARG002 - a writer has the whole file, so no row is ever locked
    ) -> Script[tuple[datetime, Collection[str], Sequence[Row]]]:
        rows = yield self._sql("timetable_read", listed(names), None, at)
        return instant(at), (), [row[1:] for row in rows if row[1] is not None]

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> Script[Collection[str]]:
        yield from self._sql.many("timetable_insert", rows)
        return [row[0] for row in rows]

    def _update(self, rows: Sequence[tuple[Any, ...]]) -> Script[None]:
        for row in rows:
            yield self._sql("timetable_update", *row)


class SqliteInbox(SqlInbox, SqliteOperations):
    """``Inbox`` on SQLite. Operations that run in a caller's transaction take the lock first of all."""

    @operation("write")
    def admit(
        self, key: InboxKey, hash: bytes | None, status: AdmitStatus, retry_after: timedelta | None
    ) -> Script[Admission]:
        sql = self._sql
        at = yield from sql.turn_clock()
        if (yield sql("inbox_insert", *key, status, at, hash)):
            return admitted(key, status, 1, instant(at), instant(at))
        known = self._view(InboxView, (yield sql("inbox_read", *key))[0])
        if differs(known, hash):
            if known.mismatched_at is None:
                yield sql("inbox_mismatch", *key, at)
            return rejected(known, mismatch=True)
        if not may_admit(known, instant(at), retry_after):
            return rejected(known)
        yield sql("inbox_again", *key, status, at, hash)
        return admitted(key, status, known.attempts + 1, known.first_seen_at, instant(at))

    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        return publish(self._sql, drafts)

    @operation("write")
    def release(self, key: InboxKey, by: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("inbox_release", *key, at)):
            return False
        yield self._note(at, Note(by, "inbox release", f"{key.source} in {key.group}"), key.message_id)
        return True


class SqliteLeases(SqlLeases, SqliteOperations):
    """``Leases`` on SQLite. Every write holds the write lock, so no other comes in between."""

    @operation("write")
    def acquire(self, name: str, holder: str, ttl: timedelta) -> Script[Granted | None]:
        """A caller that is rejected has only read, so that waiting costs the holder nothing."""
        sql = self._sql
        at = yield from sql.read_clock()
        held = yield sql("lease_held", name, at)
        if held and held[0][1] != holder:
            return None
        yield from sql.mark_clock(at)
        if held:  # the call was sent again, because its reply was lost
            ((epoch, _, acquired_at),) = held
        else:
            ((epoch,),) = yield sql("lease_count")
            acquired_at = at
        expires_at = after(at, ttl)
        yield sql("lease_take", name, epoch, holder, acquired_at, at, expires_at)
        return Granted(epoch, instant(acquired_at), instant(expires_at))

    @operation("write")
    def renew(self, renewals: Sequence[Renewal]) -> Script[Renewed]:
        """All of them are one transaction."""
        sql = self._sql
        at = yield from sql.turn_clock()
        lost = set()
        for hold, ttl in renewals:
            if not (yield sql("lease_renew", *hold, at, after(at, ttl))):
                lost.add(hold)
        return Renewed(lost=frozenset(lost))

    @operation("write")
    def revoke(self, name: str, by: str, reason: str) -> Script[bool]:
        sql = self._sql
        at = yield from sql.turn_clock()
        held = yield sql("lease_held", name, at)
        if not held:
            return False
        epoch, holder, _ = held[0]
        yield sql("lease_release", name, epoch, holder, at)
        detail = f"held by {holder}" + (f": {reason}" if reason else "")
        yield self._note(at, Note(by, "lease release", detail), name)
        return True


class SqliteFanouts(SqlFanouts, SqliteOperations):
    """``Fanouts`` on SQLite: under the one write lock nothing changes while it is planned."""

    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        return publish(self._sql, drafts)

    def _busy(
        self,
        topic: str,  # noqa: ARG002 - a writer has the whole file, so no row is ever locked
        shards: Sequence[tuple[str, str]],  # noqa: ARG002
        *,
        opens: bool = False,  # noqa: ARG002
    ) -> Script[set[tuple[str, str]]]:
        yield from ()
        return set()

    def _record_planned(
        self, topic: str, slices: Sequence[tuple[str, str, UUID]], window: datetime, at: int
    ) -> Script[None]:
        rows = [(topic, work, shard, micros(window), at, at, id.bytes) for work, shard, id in slices]
        yield from self._sql.many("fanout_planned", rows)

    @operation("write")
    def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> Script[FanoutPolicy]:
        at = yield from self._sql.turn_clock()
        wanted = (policy.enabled, self._values.span(policy.every), self._values.span(policy.jitter))
        rows = yield self._sql("fanout_edit", topic, work, shard, *wanted, at, storable(note.by))
        yield self._note(at, note, subject(topic, work, shard))
        return self._policy(rows[0])

    @operation("write")
    def reset(self, topic: str, work: str, shard: str, note: Note) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("fanout_reset", topic, work, shard)):
            return False
        yield self._note(at, note, subject(topic, work, shard))
        return True
