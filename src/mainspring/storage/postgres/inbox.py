"""The inbox on PostgreSQL: one statement admits a message, also among concurrent callers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mainspring.model.inbox import Admission, Entering, Fate, InboxFilter, InboxKey, InboxView
from mainspring.storage.operation import operation
from mainspring.storage.postgres.columns import clean
from mainspring.storage.postgres.dialect import PostgresOperations
from mainspring.storage.script import Script, Statement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresInbox(PostgresOperations):
    """``Inbox`` on PostgreSQL."""

    @operation("write")
    def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None
    ) -> Script[Admission]:
        rows = yield Statement(self._sql("inbox_admit"), (*key, hash, status, retry_after, self.now))
        admitted, stands, times, since, mismatch, news, at = rows[0]
        admission = Admission(*key, admitted, stands, times, _instant(since), mismatch, news)
        return replace(admission, admitted_at=_instant(at)) if admission else admission

    @operation("write")
    def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None = None
    ) -> Script[bool]:
        said = None if error is None else clean(error)
        rows = yield Statement(
            self._sql("inbox_mark"), (*key, attempt, fate, said, self.now, _microseconds(admitted_at))
        )
        return bool(rows)

    @operation("write")
    def release(self, key: InboxKey, by: str) -> Script[bool]:
        rows = yield Statement(self._sql("inbox_release"), (*key, clean(by), self.now))
        return bool(rows)

    @operation("read")
    def browse(self, filter: InboxFilter) -> Script[list[InboxView]]:
        bounds = (filter.stuck, filter.before, filter.limit, self.now, *filter.past_columns)
        asked = (filter.group, filter.source, filter.status, *bounds)
        if filter.message_id is None:
            rows = yield Statement(self._sql("inbox_browse"), asked)
        else:
            rows = yield Statement(self._sql("inbox_find"), (*asked, filter.message_id))
        return [InboxView(*row) for row in rows]


def _instant(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // timedelta(microseconds=1)
