"""The timetable in SQL: due rows are locked, what becomes of them is decided in between, all in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.model.message import Published
from mainspring.model.schedule import (
    DELETED,
    NEVER,
    PAUSED,
    REPLACED,
    UNSERVED_AFTER,
    Decide,
    Due,
    Freeze,
    Note,
    Occurrence,
    Rewrite,
    Schedule,
    ScheduleAdvance,
    ScheduleTick,
    Timesheet,
)
from mainspring.storage.operation import Clocked, Gateway, operation
from mainspring.storage.portable.timetable import SqlTimetable, revised
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.postgres.publish import Fired, fire
from mainspring.storage.script import Script

_WIDTH = 19


class _Glance(NamedTuple):
    next_in: timedelta | None
    waiting: bool
    frozen: bool
    ended: bool


class PostgresTimetable(SqlTimetable, PostgresOperations):
    """``Timetable`` on PostgreSQL."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(names, gateway, clock)
        self._mailbox = PostgresMailbox(names, gateway, clock)

    @operation("write")
    def tick(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> Script[ScheduleTick]:
        """One statement that only reads, where there is nothing to do."""
        left = set(leave)
        glance = yield from self._peek(app, left)
        is_due = glance.next_in is not None and glance.next_in <= timedelta() and not glance.frozen
        gone_on, fired = ScheduleTick(), Fired()
        if is_due:
            gone_on = yield from self._let_go_on(app, decide, limit, left)
        elif glance.waiting:
            gone_on = ScheduleTick(released=(yield from self._release(app=app)))
        if glance.ended:
            fired = yield from fire(self._sql, self._mailbox.publish.script, limit)
        if is_due or gone_on.released or glance.ended:
            glance = yield from self._peek(app, left)
        return replace(
            gone_on,
            next_in=glance.next_in,
            waiting=glance.waiting,
            frozen=glance.frozen,
            left=frozenset(left.difference(leave)),
            joined=fired.joined,
            continuations=fired.continuations,
            conflicts=(*gone_on.conflicts, *fired.conflicts),
            more=glance.ended,
        )

    def _let_go_on(self, app: str, decide: Decide, limit: int, left: set[str]) -> Script[ScheduleTick]:
        rows = yield self._sql.opening("timetable_due", app, sorted(left), limit, UNSERVED_AFTER, self.now)
        moves: list[tuple[Schedule, ScheduleAdvance]] = []
        for row in rows:
            due = Due(self._schedule(row[:_WIDTH]), row[_WIDTH], row[_WIDTH + 1])
            move = decide(due, row[_WIDTH + 2])
            if move is None:
                left.add(due.schedule.name)
            else:
                moves.append((due.schedule, move))
        gone_on = yield from self._go_on(moves)
        free = [schedule.name for schedule, move in moves if move.release_waiting]
        return replace(gone_on, released=(yield from self._release(app=app, free=free)))

    def _release(self, *, app: str | None = None, entered: Sequence[str] = (), free: Sequence[str] = ()) -> Script[int]:
        """Release what waits of an app or of some schedules, and whatever waits of those that are free to overlap."""
        args = (self._channel, app, list(entered), list(free), UNSERVED_AFTER, self.now)
        released: int = (yield self._sql("timetable_release", *args))[0][0]
        return released

    def _peek(self, app: str, leave: Collection[str]) -> Script[_Glance]:
        rows = yield self._sql("timetable_peek", app, sorted(leave), self.now)
        return _Glance(*rows[0])

    def _go_on(self, moves: Sequence[tuple[Schedule, ScheduleAdvance]]) -> Script[ScheduleTick]:
        """Write the moves. Returns what was published and moved, and how many runs were asked to stop.

        A schedule whose earlier run cannot be asked to stop, since its row is locked, stays where it is.
        """
        asked = 0
        if stopped := [schedule.name for schedule, move in moves if move.stop_running]:
            asked, busy = yield from self._cancel(stopped, REPLACED)
            moves = [(schedule, move) for schedule, move in moves if schedule.name not in busy]
        if not moves:
            return ScheduleTick(asked=asked)
        rows = [
            (
                schedule.name,
                schedule.next_at,
                schedule.revision,
                move.next_at,
                move.base_at,
                len(move.occurrences),
                move.missed,
                move.skipped,
            )
            for schedule, move in moves
        ]
        moved = {name for (name,) in (yield self._sql("timetable_move", *columns(rows, 8)))}
        going = {schedule.name: move for schedule, move in moves if schedule.name in moved}
        occurrences = [each for move in going.values() for each in move.occurrences]
        published = yield from self._publish(occurrences)
        conflicts = published.conflicting([each.draft for each in occurrences])
        return ScheduleTick(fired=len(published.stored), moved=len(going), asked=asked, conflicts=conflicts)

    def _publish(self, occurrences: Sequence[Occurrence]) -> Script[Published]:
        published = yield from self._mailbox.publish.script([each.draft for each in occurrences])
        # A message that existed before may be held: its due time must not be changed.
        fresh = [each for each in occurrences if each.draft.id in published.stored]
        later = [(each.draft.id, each.due_at) for each in fresh if each.due_at is not None]
        if later:
            yield self._sql("timetable_later", *columns(later, 2))
        return published

    def _cancel(self, schedules: Sequence[str], reason: str) -> Script[tuple[int, Collection[str]]]:
        """Cancel what these have published. Returns how many runs were asked to stop, and what was left alone as busy.

        Replaced, that is all of the rhythm, and what is locked is left alone. Paused, it is what has not begun of
        it; deleted, also what was asked for by hand.
        """
        begun, by_hand, parked = reason == REPLACED, reason == DELETED, reason != REPLACED
        asked, got_away = 0, True
        busy: Collection[str] = ()
        while got_away:
            args = (schedules, reason, begun, by_hand, parked, self._channel, self.now)
            [(asked, got_away, busy)] = yield self._sql("timetable_cancel", *args)
        return asked, busy

    @operation("write")
    def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> Script[list[Schedule | None]]:
        known: dict[str, Schedule] = {}
        wanted: dict[str, Schedule | None] = {}
        added: set[str] = set()
        busy: set[str] = set()
        # Where another was faster to add a row, it is there to be seen in the next round; what we have added stands.
        while open_names := sorted(set(names) - added - busy):
            rows = yield self._sql.opening("timetable_lock", open_names, waits, self.now)
            moment: datetime = rows[0][0]
            busy |= set(rows[0][1])
            open_names = [name for name in open_names if name not in busy]
            known = {row[2]: self._schedule(row[2:]) for row in rows if row[2] is not None}
            wanted |= {name: how(name, known.get(name), moment) for name in open_names}
            # In the order of names, so that concurrent calls do not deadlock.
            fresh = [row for name in open_names if (row := wanted[name]) is not None and name not in known]
            if fresh:
                new = yield self._sql("timetable_insert", *columns(map(self._columns, fresh), _WIDTH))
                added |= {name for (name,) in new}
            if added.issuperset(row.name for row in fresh):
                break
        changed = [name for name, row in wanted.items() if row is not known.get(name)]
        old = [row for name in changed if (row := wanted[name]) is not None and name in known]
        written = {row.name: revised(row, known[row.name]) for row in old}
        if written:
            yield self._sql("timetable_update", *columns(map(self._columns, written.values()), _WIDTH))
        gone = [name for name in changed if wanted[name] is None]
        if gone:
            yield self._sql("timetable_delete", gone)
            yield from self._cancel(gone, DELETED)
        paused = [row.name for row in old if row.paused_at and known[row.name].paused_at is None]
        if paused:
            yield from self._cancel(paused, PAUSED)
        if changed:
            if note is not None:
                noted = (clean(note.by), note.action, clean(note.detail))
                yield self._sql("timetable_note", changed, *noted, self.now)
            yield self._sql("timetable_ring", self._channel)
        return [written.get(name, wanted.get(name)) for name in names]

    @operation("write")
    def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Script[Published]:
        subjects = sorted({each.draft.schedule or "" for each in occurrences})
        noted = (clean(note.by), note.action, clean(note.detail))
        yield self._sql.opening("timetable_note", subjects, *noted, self.now)
        published = yield from self._publish(occurrences)
        yield from self._release(entered=subjects)
        if any(each.due_at == NEVER for each in occurrences):
            # The worker that ends the run they wait for must know.
            yield self._sql("timetable_ring", self._channel)
        return published

    @operation("read")
    def read(self, names: Collection[str] | None = None, app: str | None = None) -> Script[Timesheet]:
        rows = yield self._sql("timetable_read", None if names is None else sorted(names), app, self.now)
        freezes = yield self._sql("timetable_freezes")
        schedules = tuple(self._schedule(row[1:]) for row in rows if row[1] is not None)
        return Timesheet(rows[0][0], schedules, tuple(Freeze(*row) for row in freezes))

    @operation("write")
    def declared(self, app: str, names: Collection[str], every: timedelta) -> Script[None]:
        yield self._sql("timetable_declared", app, sorted(names), every, self.now)

    @operation("write")
    def retire(self, app: str, silent: timedelta) -> Script[list[str]]:
        rows = yield self._sql("timetable_retire", app, silent, self.now)
        return sorted(row[0] for row in rows)

    @operation("write")
    def freeze(self, app: str, by: str, reason: str) -> Script[None]:
        yield self._sql.opening("timetable_freeze", app, clean(by), clean(reason), self.now)
        yield self._sql("timetable_note", [app or "*"], clean(by), "freeze", clean(reason), self.now)

    @operation("write")
    def thaw(self, app: str, by: str) -> Script[bool]:
        rows = yield self._sql.opening("timetable_thaw", app)
        if rows:
            yield self._sql("timetable_note", [app or "*"], clean(by), "thaw", "", self.now)
            yield self._sql("timetable_ring", self._channel)
        return bool(rows)
