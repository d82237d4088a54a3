"""The inbox in SQL: one statement lets a message in, whoever else tries at the same time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mainspring.model.inbox import Admission, Entering, Fate, InboxFilter, InboxKey, InboxView
from mainspring.storage.postgres.columns import clean
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Script, Statement
from mainspring.storage.sql import Now

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresInbox:
    """``InboxScripts`` for PostgreSQL."""

    def __init__(self, names: Names) -> None:
        self._sql = names.sql

    def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None, now: Now
    ) -> Script[Admission]:
        """See ``Inbox.admit``."""
        rows = yield Statement(self._sql("inbox_admit"), (*key, hash, status, retry_after, now))
        admitted, stands, times, since, mismatch, news, at = rows[0]
        admission = Admission(*key, admitted, stands, times, _instant(since), mismatch, news)
        return replace(admission, admitted_at=_instant(at)) if admission else admission

    def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None, now: Now
    ) -> Script[bool]:
        """See ``Inbox.mark``."""
        said = None if error is None else clean(error)
        rows = yield Statement(self._sql("inbox_mark"), (*key, attempt, fate, said, now, _microseconds(admitted_at)))
        return bool(rows)

    def release(self, key: InboxKey, by: str, now: Now) -> Script[bool]:
        """See ``Inbox.release``."""
        rows = yield Statement(self._sql("inbox_release"), (*key, clean(by), now))
        return bool(rows)

    def browse(self, filter: InboxFilter, now: Now) -> Script[list[InboxView]]:
        """See ``Inbox.browse``."""
        asked = (filter.prefix, filter.group, filter.source, filter.status, filter.stuck, filter.before)
        if filter.message_id is None:
            rows = yield Statement(self._sql("inbox_browse"), (*asked, filter.limit, now))
        else:
            rows = yield Statement(self._sql("inbox_find"), (*asked, filter.limit, now, filter.message_id))
        return [InboxView(*row) for row in rows]


def _instant(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // timedelta(microseconds=1)
