"""The timetable on SQLite: schedules, and the rows they are stored in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

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
from mainspring.storage.operation import operation
from mainspring.storage.portable.timetable import SqlTimetable, revised
from mainspring.storage.script import Script, Statement
from mainspring.storage.sqlite.dialect import Dialect, SqliteOperations
from mainspring.storage.sqlite.publish import Fired, fire, publish
from mainspring.storage.sqlite.values import (
    before,
    instant,
    micros,
    micros_or_none,
    numbers,
    storable,
)
from mainspring.storage.sqlite.values import names as listed
from mainspring.storage.sqlite.verdicts import cancel_deliveries


def moving(sql: Dialect, schedule: Schedule, move: ScheduleAdvance) -> Statement:
    return sql(
        "timetable_move",
        schedule.name,
        micros_or_none(schedule.next_at),
        schedule.revision,
        micros_or_none(move.next_at),
        micros(move.base_at),
        len(move.occurrences),
        move.missed,
        move.skipped,
    )


class _Glance(NamedTuple):
    next_at: int | None
    waiting: int
    frozen: int
    complete: int


class SqliteTimetable(SqlTimetable, SqliteOperations):
    """``Timetable`` on SQLite. Frequent operations write only when something has changed.

    Operations that run in a caller's transaction (``rewrite``, ``enter``, ``freeze``, ``thaw``) take the lock first of
    all.
    """

    @operation("write")
    def tick(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> Script[ScheduleTick]:
        sql = self._sql
        # The clock is only read: a tick that finds nothing writes nothing, and wakes no process.
        at = yield from sql.read_clock()
        left = set(leave)
        glance = yield from self._glance(app, left)
        is_due = glance.next_at is not None and glance.next_at <= at and not glance.frozen
        found = ScheduleTick()
        moves: list[tuple[Schedule, ScheduleAdvance]] = []
        if is_due:
            served_since = before(at, UNSERVED_AFTER)
            for row in (yield sql("timetable_due", app, listed(left), at, limit, served_since)):
                due = Due(self._schedule(row[:-2]), *row[-2:])
                move = decide(due, instant(at))
                if move is None:
                    left.add(due.schedule.name)
                else:
                    moves.append((due.schedule, move))
            found = yield from self._go_on(moves, at)
            glance = yield from self._glance(app, left)
        released = 0
        if glance.waiting:
            free = [schedule.name for schedule, move in moves if move.release_waiting]
            released = yield from self._release(at, app=app, free=free)
        if released:
            glance = yield from self._glance(app, left)
        fired = Fired()
        if glance.complete:
            fired = yield from fire(sql, limit, at)
            glance = yield from self._glance(app, left)
        return replace(
            found,
            released=released,
            next_in=None if glance.next_at is None else timedelta(microseconds=glance.next_at - at),
            waiting=bool(glance.waiting),
            frozen=bool(glance.frozen),
            left=frozenset(left.difference(leave)),
            joined=fired.joined,
            continuations=fired.continuations,
            conflicts=(*found.conflicts, *fired.conflicts),
            more=bool(glance.complete),
        )

    def _glance(self, app: str, leave: Collection[str]) -> Script[_Glance]:
        (row,) = yield self._sql("timetable_peek", app, listed(leave))
        return _Glance(*row)

    def _go_on(self, moves: Sequence[tuple[Schedule, ScheduleAdvance]], at: int) -> Script[ScheduleTick]:
        """Write the moves. Returns what was published and moved, and how many runs were asked to stop."""
        sql = self._sql
        if moves:
            yield from sql.mark_clock(at)
        going: dict[str, ScheduleAdvance] = {}
        for schedule, move in moves:
            if (yield moving(sql, schedule, move)):
                going[schedule.name] = move
        stopped = [name for name, move in going.items() if move.stop_running]
        asked = yield from self._cancel(stopped, REPLACED, at)
        occurrences = [each for move in going.values() for each in move.occurrences]
        published = yield from self._publish(occurrences)
        conflicts = published.conflicting([each.draft for each in occurrences])
        return ScheduleTick(fired=len(published.stored), moved=len(going), asked=asked, conflicts=conflicts)

    def _publish(self, occurrences: Sequence[Occurrence]) -> Script[Published]:
        published = yield from publish(self._sql, [each.draft for each in occurrences])
        for each in occurrences:
            # A message that existed before may be held: its due time must not be changed.
            if each.due_at is not None and each.draft.id in published.stored:
                later = (each.draft.id.bytes, micros(each.due_at))
                yield self._sql("timetable_later", *later)
                yield self._sql("timetable_later_parked", *later)
        return published

    def _release(
        self,
        at: int,
        *,
        app: str | None = None,
        entered: Sequence[str] = (),
        free: Sequence[str] = (),
    ) -> Script[int]:
        """Release what waits of an app or of some schedules, and whatever waits of those that are free to overlap."""
        served_since = before(at, UNSERVED_AFTER)
        rows = yield self._sql("timetable_waiting", app, listed(entered), listed(free), served_since)
        if rows:
            yield from self._sql.mark_clock(at)
            yield self._sql("timetable_release", numbers(seq for (seq,) in rows), at)
            # They have their old seqs, so no new one rings for them.
            yield self._sql("bell_ring")
        return len(rows)

    def _cancel(self, schedules: Sequence[str], reason: str, at: int) -> Script[int]:
        """Cancel what these have published, in so many statements however much it is.

        Replaced, that is all of the rhythm. Paused, it is what has not begun of it; deleted, also what was
        asked for by hand. Returns how many runs were asked to stop.
        """
        if not schedules:
            return 0
        by_hand = reason == DELETED
        found = yield self._sql("timetable_unfinished", listed(schedules), reason == REPLACED, by_hand)
        parked = () if reason == REPLACED else (yield self._sql("timetable_parked", listed(schedules), by_hand))
        return (yield from cancel_deliveries(self._sql, found, parked, reason, at)).asked

    @operation("write")
    def rewrite(
        self,
        names: Sequence[str],
        how: Rewrite,
        note: Note | None = None,
        *,
        waits: bool = True,  # noqa: ARG002 - a writer has the whole file, so no row is ever locked
    ) -> Script[list[Schedule | None]]:
        sql = self._sql
        at = yield from sql.turn_clock()
        rows = yield sql("timetable_read", listed(names), None)
        known = {row[0]: self._schedule(row) for row in rows}
        # All is decided before anything is written: in a caller's transaction nothing would roll it back.
        decided = {name: how(name, known.get(name), instant(at)) for name in sorted(set(names))}
        changed = [name for name, row in decided.items() if row is not known.get(name)]
        stored = {name: _written(decided[name], known.get(name)) for name in changed}
        writes = [self._write(name, row, is_new=name not in known) for name, row in stored.items()]
        for statement, values in writes:
            yield sql(statement, *values)
        yield from self._cancel([name for name, row in stored.items() if row is None], DELETED, at)
        yield from self._cancel([name for name, row in stored.items() if _is_paused(known.get(name), row)], PAUSED, at)
        if note is not None:
            for name in changed:
                yield self._note(at, name, note)
        if changed:
            yield sql("bell_ring")
        return [stored.get(name, decided[name]) for name in names]

    @operation("write")
    def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Script[Published]:
        at = yield from self._sql.turn_clock()
        published = yield from self._publish(occurrences)
        entered = sorted({each.draft.schedule or "" for each in occurrences})
        for schedule in entered:
            yield self._note(at, schedule, note)
        yield from self._release(at, entered=entered)
        if any(each.due_at == NEVER for each in occurrences):
            yield self._sql("bell_ring")  # the worker that ends the run they wait for must know of them
        return published

    @operation("read")
    def read(self, names: Collection[str] | None = None, app: str | None = None) -> Script[Timesheet]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("timetable_read", None if names is None else listed(names), app)
        freezes = yield self._sql("timetable_freezes")
        return Timesheet(
            instant(at),
            tuple(self._schedule(row) for row in rows),
            tuple(Freeze(frozen, instant(since), by, reason) for frozen, since, by, reason in freezes),
        )

    @operation("write")
    def declared(self, app: str, names: Collection[str], every: timedelta) -> Script[None]:
        at = yield from self._sql.read_clock()
        if (yield self._sql("timetable_declared", app, listed(names), before(at, every), at)):
            yield from self._sql.mark_clock(at)

    @operation("write")
    def retire(self, app: str, silent: timedelta) -> Script[list[str]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("timetable_retire", app, before(at, silent), at)
        if rows:
            yield from self._sql.mark_clock(at)
        return sorted(name for (name,) in rows)

    @operation("write")
    def freeze(self, app: str, by: str, reason: str) -> Script[None]:
        at = yield from self._sql.turn_clock()
        yield self._sql("timetable_freeze", app, storable(by), storable(reason), at)
        yield self._note(at, app or "*", Note(by, "freeze", reason))

    @operation("write")
    def thaw(self, app: str, by: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        if not (yield self._sql("timetable_thaw", app)):
            return False
        yield self._note(at, app or "*", Note(by, "thaw"))
        yield self._sql("bell_ring")
        return True

    def _write(self, name: str, row: Schedule | None, *, is_new: bool) -> tuple[str, tuple[Any, ...]]:
        if row is None:
            return "timetable_delete", (name,)
        return "timetable_insert" if is_new else "timetable_update", self._columns(row)

    def _note(self, at: int, subject: str, note: Note) -> Statement:
        return self._sql("audit_note", at, storable(note.by), note.action, subject, storable(note.detail))


def _is_paused(known: Schedule | None, row: Schedule | None) -> bool:
    """Whether it goes on no more, from now on."""
    return row is not None and row.paused_at is not None and known is not None and known.paused_at is None


def _written(row: Schedule | None, known: Schedule | None) -> Schedule | None:
    return row if row is None or known is None else revised(row, known)
