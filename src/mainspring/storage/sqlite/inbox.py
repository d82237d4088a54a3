"""The inbox on SQLite, under the one write lock."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.model.inbox import (
    Admission,
    Entering,
    Fate,
    InboxFilter,
    InboxKey,
    InboxView,
    differs,
    entered,
    may_enter,
    refused,
)
from mainspring.storage.operation import operation
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.values import instant, instant_or_none, micros_or_none, span, storable


class SqliteInbox(SqliteOperations):
    """``Inbox`` on SQLite. Operations that run in a caller's transaction take the lock first of all."""

    @operation("write")
    def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None
    ) -> Script[Admission]:
        sql = self._sql
        at = yield from sql.turn_clock()
        if (yield sql("inbox_insert", *key, status, at, hash)):
            return entered(key, status, 1, instant(at), instant(at))
        known = _view((yield sql("inbox_read", *key))[0])
        if differs(known, hash):
            if known.mismatched_at is None:
                yield sql("inbox_mismatch", *key, at)
            return refused(known, mismatch=True)
        if not may_enter(known, instant(at), retry_after):
            return refused(known)
        yield sql("inbox_again", *key, status, at, hash)
        return entered(key, status, known.attempts + 1, known.first_seen_at, instant(at))

    @operation("write")
    def mark(
        self,
        key: InboxKey,
        attempt: int,
        fate: Fate,
        error: str | None,
        admitted_at: datetime | None = None,
    ) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        told = (attempt, fate, storable(error), at, micros_or_none(admitted_at))
        return bool((yield self._sql("inbox_mark", *key, *told)))

    @operation("write")
    def release(self, key: InboxKey, by: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("inbox_release", *key, at)):
            return False
        detail = f"{key.source} in {key.group}"
        yield self._sql("audit_note", at, storable(by), "inbox release", key.message_id, detail)
        return True

    @operation("read")
    def browse(self, filter: InboxFilter) -> Script[list[InboxView]]:
        at = yield from self._sql.read_clock()
        stuck = None if filter.stuck is None else span(filter.stuck)
        bounds = (stuck, micros_or_none(filter.before), filter.limit, at, *filter.past_columns)
        asked = (filter.group, filter.source, filter.status, *bounds)
        if filter.message_id is None:
            rows = yield self._sql("inbox_browse", *asked)
        else:
            rows = yield self._sql("inbox_find", *asked, filter.message_id)
        return [_view(row) for row in rows]


def _view(row: Row) -> InboxView:
    group, source, message_id, status, attempts, first, changed, hash, error, mismatched = row
    times = (instant(first), instant(changed))
    return InboxView(
        group, source, message_id, status, attempts, *times, hash, error, mismatched_at=instant_or_none(mismatched)
    )
