"""The timetable, the inbox, leases and fan-out on PostgreSQL. Due schedules are locked until the transaction ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.model.fanout import FanoutPolicy, subject
from mainspring.model.inbox import Admission, AdmitStatus, InboxKey
from mainspring.model.join import Join
from mainspring.model.lease import Granted, Hold, Renewal, Renewed
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import DELETED, NEVER, PAUSED, REPLACED, UNSERVED_AFTER, Note, Occurrence
from mainspring.storage.operation import Clocked, Gateway, Now, operation
from mainspring.storage.portable.coordination import SqlFanouts, SqlInbox, SqlLeases
from mainspring.storage.portable.timetable import WIDTH, SqlTimetable, read_join
from mainspring.storage.postgres.columns import EPOCH, clean, columns, of_drafts
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import Row, Script


class PostgresTimetable(SqlTimetable, PostgresOperations):
    """``Timetable`` on PostgreSQL."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(names, gateway, clock)
        self._mailbox = PostgresMailbox(names, gateway, clock)

    @operation("write")
    def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Script[Published]:
        subjects = sorted({each.draft.schedule or "" for each in occurrences})
        yield self._sql.opening("audit_note", self.now, clean(note.by), note.action, subjects, clean(note.detail))
        published = yield from self._publish(occurrences, self.now)
        yield from self._release(self.now, entered=subjects)
        if any(each.due_at == NEVER for each in occurrences):
            # The worker that ends the run they wait for must know.
            yield self._ring()
        return published

    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        return self._mailbox.publish.script(drafts)

    def _delay(self, later: Sequence[tuple[UUID, datetime]]) -> Script[None]:
        yield self._sql("timetable_later", *columns(later, 2))

    def _release(
        self, at: Now, *, app: str | None = None, entered: Sequence[str] = (), free: Sequence[str] = ()
    ) -> Script[int]:
        args = (self._channel, app, list(entered), list(free), UNSERVED_AFTER, at)
        released: int = (yield self._sql("timetable_release", *args))[0][0]
        return released

    def _cancel(self, schedules: Sequence[str], reason: str, at: Now) -> Script[tuple[int, Collection[str]]]:
        begun, parked = reason == REPLACED, reason != REPLACED
        by_hand, waits = reason == DELETED, reason in (PAUSED, DELETED)
        asked, got_away = 0, True
        busy: Collection[str] = ()
        while got_away:
            args = (schedules, reason, begun, by_hand, parked, waits, self._channel, at)
            [(asked, got_away, busy)] = yield self._sql("timetable_cancel", *args)
        return asked, busy

    def _complete_joins(self, limit: int, at: Now) -> Script[list[tuple[Join, int, int]]]:  # noqa: ARG002 - for SQLite
        rows = yield self._sql.opening("joint_count", limit)
        return [(read_join(id, then, otherwise), done, failed) for id, then, otherwise, done, failed in rows]

    def _lock(
        self, names: Sequence[str], at: Now, *, waits: bool
    ) -> Script[tuple[datetime, Collection[str], Sequence[Row]]]:
        rows = yield self._sql.opening("timetable_lock", names, waits, at)
        return rows[0][0], rows[0][1], [row[2:] for row in rows if row[2] is not None]

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> Script[Collection[str]]:
        return [name for (name,) in (yield self._sql("timetable_insert", *columns(rows, WIDTH)))]

    def _update(self, rows: Sequence[tuple[Any, ...]]) -> Script[None]:
        yield self._sql("timetable_update", *columns(rows, WIDTH))


class PostgresInbox(SqlInbox, PostgresOperations):
    """``Inbox`` on PostgreSQL: one statement admits a message, also among concurrent callers."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(names, gateway, clock)
        self._mailbox = PostgresMailbox(names, gateway, clock)

    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        return self._mailbox.publish.script(drafts)

    def _receive_all(
        self, group: str, source: str, hashed: Sequence[str], drafts: Sequence[Draft], at: Now
    ) -> Script[bool]:
        batch = of_drafts(drafts)
        if len(batch[5]) < len(drafts):
            return False  # two of them have one id
        rows = yield self._sql("inbox_receive_all", group, source, hashed, *batch, self._channel, at)
        return bool(rows[0][0])

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

    def _busy(
        self, topic: str, shards: Sequence[tuple[str, str]], *, opens: bool = False
    ) -> Script[set[tuple[str, str]]]:
        statement = self._sql.opening if opens else self._sql
        return {(work, shard) for work, shard in (yield statement("fanout_busy", topic, *columns(shards, 2)))}

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
