"""The timetable on PostgreSQL: due rows are locked until the transaction ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.model.join import Join
from mainspring.model.message import Draft, Published
from mainspring.model.schedule import DELETED, NEVER, REPLACED, UNSERVED_AFTER, Note, Occurrence
from mainspring.storage.operation import Clocked, Gateway, Now, operation
from mainspring.storage.portable.timetable import WIDTH, SqlTimetable, read_join
from mainspring.storage.postgres.columns import clean, columns
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
        published = yield from self._publish(occurrences)
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
        begun, by_hand, parked = reason == REPLACED, reason == DELETED, reason != REPLACED
        asked, got_away = 0, True
        busy: Collection[str] = ()
        while got_away:
            args = (schedules, reason, begun, by_hand, parked, self._channel, at)
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
