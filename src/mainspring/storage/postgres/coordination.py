"""The inbox, leases and fan-out on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.fanout import FanoutPolicy, subject
from mainspring.model.inbox import Admission, AdmitStatus, InboxKey
from mainspring.model.lease import Granted, Hold, Renewal, Renewed
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import Note
from mainspring.storage.operation import Clocked, Gateway, Now, operation
from mainspring.storage.portable.coordination import SqlFanouts, SqlInbox, SqlLeases
from mainspring.storage.postgres.columns import EPOCH, clean, columns
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import Script


class PostgresInbox(SqlInbox, PostgresOperations):
    """``Inbox`` on PostgreSQL: one statement admits a message, also among concurrent callers."""

    @operation("write")
    def admit(
        self, key: InboxKey, hash: bytes | None, status: AdmitStatus, retry_after: timedelta | None
    ) -> Script[Admission]:
        rows = yield self._sql("inbox_admit", *key, hash, status, retry_after, self.now)
        admitted, stands, times, since, mismatch, news, at = rows[0]
        admission = Admission(*key, admitted, stands, times, _instant(since), mismatch, news)
        return replace(admission, admitted_at=_instant(at)) if admission else admission

    @operation("write")
    def release(self, key: InboxKey, by: str) -> Script[bool]:
        rows = yield self._sql("inbox_release", *key, clean(by), self.now)
        return bool(rows)


def _instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


class PostgresLeases(SqlLeases, PostgresOperations):
    """``Leases`` on PostgreSQL, one statement each."""

    @operation("write")
    def acquire(self, name: str, holder: str, ttl: timedelta) -> Script[Granted | None]:
        rows = yield self._sql("lease_acquire", name, holder, ttl, self.now)
        return Granted(*rows[0]) if rows else None

    @operation("write")
    def renew(self, renewals: Sequence[Renewal]) -> Script[Renewed]:
        batch = sorted((*each.hold, each.ttl) for each in renewals)
        rows = yield self._sql("lease_renew", *columns(batch, 4), self.now)
        lost, busy = (frozenset(Hold(*hold) for *hold, what in rows if what == word) for word in ("lost", "busy"))
        return Renewed(lost, busy)

    @operation("write")
    def revoke(self, name: str, by: str, reason: str) -> Script[bool]:
        return bool((yield self._sql("lease_revoke", name, clean(by), clean(reason), self.now)))


class PostgresFanouts(SqlFanouts, PostgresOperations):
    """``Fanouts`` on PostgreSQL: a batch is planned in one transaction."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(names, gateway, clock)
        self._mailbox = PostgresMailbox(names, gateway, clock)

    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        return self._mailbox.publish.script(drafts)

    def _busy(self, topic: str, shards: Sequence[tuple[str, str]]) -> Script[set[tuple[str, str]]]:
        return {(work, shard) for work, shard in (yield self._sql("fanout_busy", topic, *columns(shards, 2)))}

    def _record_planned(
        self, topic: str, slices: Sequence[tuple[str, str, UUID]], window: datetime, at: Now
    ) -> Script[None]:
        yield self._sql("fanout_planned", topic, *columns(slices, 3), window, at)

    @operation("write")
    def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> Script[FanoutPolicy]:
        noted = (clean(note.by), note.action, subject(topic, work, shard), clean(note.detail))
        wanted = (policy.enabled, policy.every, policy.jitter)
        rows = yield self._sql("fanout_edit", topic, work, shard, *wanted, *noted, self.now)
        return self._policy(rows[0])

    @operation("write")
    def reset(self, topic: str, work: str, shard: str, note: Note) -> Script[bool]:
        noted = (clean(note.by), note.action, subject(topic, work, shard), clean(note.detail))
        return bool((yield self._sql("fanout_reset", topic, work, shard, *noted, self.now)))
