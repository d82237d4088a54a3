"""The inbox, leases and fan-out: the operations on which dialects agree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.model.fanout import Candidate, CursorKey, CursorTally, CursorView, FanoutPolicy, FanoutPolicyView
from mainspring.model.inbox import InboxFilter, InboxKey, InboxView, MarkStatus
from mainspring.model.lease import LeaseView
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
