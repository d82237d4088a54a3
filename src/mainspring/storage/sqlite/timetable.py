"""The timetable on SQLite, whose ticks write only when something has changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import DELETED, NEVER, REPLACED, UNSERVED_AFTER, Note, Occurrence
from mainspring.storage.operation import operation
from mainspring.storage.portable.timetable import SqlTimetable, read_join
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import publish
from mainspring.storage.sqlite.values import before, instant, micros, numbers
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
        published = yield from self._publish(occurrences)
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
