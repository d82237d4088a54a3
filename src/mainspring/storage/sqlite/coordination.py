"""The inbox, leases and fan-out on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.fanout import SEEN_EVERY, Batch, Choose, FanoutPolicy, subject
from mainspring.model.inbox import Admission, AdmitStatus, InboxKey, InboxView, admitted, differs, may_admit, rejected
from mainspring.model.lease import Granted, Renewal, Renewed
from mainspring.model.message import Published
from mainspring.model.schedule import Note
from mainspring.storage.operation import operation
from mainspring.storage.portable.coordination import SqlFanouts, SqlInbox, SqlLeases
from mainspring.storage.script import Script, Statement
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import publish
from mainspring.storage.sqlite.values import after, before, instant, mapping, micros, pairs, storable

_MICROSECOND = timedelta(microseconds=1)


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
        detail = f"{key.source} in {key.group}"
        yield self._sql("audit_note", at, storable(by), "inbox release", key.message_id, detail)
        return True


class SqliteLeases(SqlLeases, SqliteOperations):
    """``Leases`` on SQLite. Every write holds the write lock, so no other comes in between."""

    @operation("write")
    def acquire(self, name: str, holder: str, ttl: timedelta) -> Script[Granted | None]:
        """A caller that is refused has only read, so that waiting costs the holder nothing."""
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
    def confirm(self, name: str, epoch: int, holder: str) -> Script[bool]:
        """The clock's statement takes the write lock, which the transaction keeps."""
        at = yield from self._sql.turn_clock()
        held = yield self._sql("lease_held", name, at)
        return bool(held) and held[0][:2] == (epoch, holder)

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
        yield sql("audit_note", at, storable(by), "lease release", name, storable(detail))
        return True


class SqliteFanouts(SqlFanouts, SqliteOperations):
    """``Fanouts`` on SQLite: under the one write lock nothing changes while it is planned."""

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
        chosen = choose([self._candidate(row) for row in rows])
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
    def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> Script[FanoutPolicy]:
        at = yield from self._sql.turn_clock()
        wanted = (policy.enabled, _span(policy.every), _span(policy.jitter))
        rows = yield self._sql("fanout_edit", topic, work, shard, *wanted, at, storable(note.by))
        yield self._note(subject(topic, work, shard), note, at)
        return self._policy(rows[0])

    @operation("write")
    def reset(self, topic: str, work: str, shard: str, note: Note) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("fanout_reset", topic, work, shard)):
            return False
        yield self._note(subject(topic, work, shard), note, at)
        return True

    def _note(self, about: str, note: Note, at: int) -> Statement:
        return self._sql("audit_note", at, storable(note.by), note.action, storable(about), storable(note.detail))


def _span(length: timedelta | None) -> int | None:
    return None if length is None else length // _MICROSECOND
