"""The inbox, leases and fan-out on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.fanout import FanoutPolicy, subject
from mainspring.model.inbox import Admission, AdmitStatus, InboxKey, InboxView, admitted, differs, may_admit, rejected
from mainspring.model.lease import Granted, Renewal, Renewed
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Note
from mainspring.storage.operation import operation
from mainspring.storage.portable.coordination import SqlFanouts, SqlInbox, SqlLeases
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import publish
from mainspring.storage.sqlite.values import after, instant, micros, storable


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
