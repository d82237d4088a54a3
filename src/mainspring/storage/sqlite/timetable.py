"""The timetable of SQLite, as scripts: under the one write lock nothing changes while it is decided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.model.message import Published
from mainspring.model.schedule import Decide, Due, Freeze, Look, Move, Note, Occurrence, Rewrite, Schedule, Timesheet
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.fan_in import Fired, fire
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from mainspring.storage.sqlite.values import (
    before,
    instant,
    instant_or_none,
    layer,
    micros,
    micros_or_none,
    names,
    numbers,
    read_layer,
    storable,
)

_REPLACED = "replaced by the next occurrence of its schedule"
_DROPPED = "its schedule was paused or removed"
_CANCELLED_AT_ONCE = 1000


class _Glance(NamedTuple):
    next_at: int | None
    waiting: int
    frozen: int
    complete: int


class SqliteTimetable:
    """``TimetableScripts`` for SQLite. What is asked again and again writes only when there is something to write.

    What may join a caller's transaction (``rewrite``, ``enter``, ``freeze``, ``thaw``) takes the lock first of all.
    """

    def __init__(self, sql: Dialect, mailbox: SqliteMailbox) -> None:
        self._sql = sql
        self._mailbox = mailbox

    def look(self, app: str, decide: Decide, limit: int, leave: Collection[str], now: datetime | None) -> Script[Look]:
        """See ``Timetable.look``."""
        sql = self._sql
        # The clock is only read: a look that finds nothing writes nothing, and so wakes nobody.
        at = yield from sql.read_clock(now)
        left = set(leave)
        glance = yield from self._glance(app, left)
        is_due = glance.next_at is not None and glance.next_at <= at and not glance.frozen
        found = Look()
        moves: list[tuple[Schedule, Move]] = []
        if is_due:
            for row in (yield sql("timetable_due", app, names(left), at, limit)):
                due = Due(_schedule(row[:-2]), *row[-2:])
                move = decide(due, instant(at))
                if move is None:
                    left.add(due.schedule.name)
                else:
                    moves.append((due.schedule, move))
            found = yield from self._go_on(moves, at, now)
            glance = yield from self._glance(app, left)
        released = 0
        if glance.waiting:
            free = [schedule.name for schedule, move in moves if move.release_waiting]
            released = yield from self._release(at, now, free)
            glance = yield from self._glance(app, left)
        fired = Fired()
        if glance.complete:
            fired = yield from fire(sql, limit, at, now)
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
            more=bool(glance.complete),
        )

    def _glance(self, app: str, leave: Collection[str]) -> Script[_Glance]:
        (row,) = yield self._sql("timetable_peek", app, names(leave))
        return _Glance(*row)

    def _go_on(self, moves: Sequence[tuple[Schedule, Move]], at: int, now: datetime | None) -> Script[Look]:
        """Write the moves. Returns what was published and moved, and how many runs were asked to stop."""
        sql = self._sql
        if moves:
            yield from sql.mark_clock(at, now)
        going: dict[str, Move] = {}
        for schedule, move in moves:
            if (yield _moving(sql, schedule, move)):
                going[schedule.name] = move
        stopped = [name for name, move in going.items() if move.stop_running]
        asked = yield from self._cancel(stopped, _REPLACED, now, waiting_only=False)
        published = yield from self._publish([each for move in going.values() for each in move.occurrences], now)
        return Look(fired=len(published.stored), moved=len(going), asked=asked)

    def _publish(self, occurrences: Sequence[Occurrence], now: datetime | None) -> Script[Published]:
        published = yield from self._mailbox.publish([each.draft for each in occurrences], now)
        for each in occurrences:
            # What was there already may be in somebody's hands: its due time is no longer ours to set.
            if each.due_at is not None and each.draft.id in published.stored:
                later = (each.draft.id.bytes, micros(each.due_at))
                yield self._sql("timetable_later", *later)
                yield self._sql("timetable_later_parked", *later)
        return published

    def _release(self, at: int, now: datetime | None, free: Sequence[str] = ()) -> Script[int]:
        rows = yield self._sql("timetable_waiting", names(free))
        if rows:
            yield from self._sql.mark_clock(at, now)
            yield self._sql("timetable_release", numbers(seq for (seq,) in rows), at)
            # They have their old seqs, so no new one rings for them.
            yield self._sql("bell_ring")
        return len(rows)

    def _cancel(
        self, schedules: Sequence[str], reason: str, now: datetime | None, *, waiting_only: bool
    ) -> Script[int]:
        asked, more = 0, bool(schedules)
        while more:
            rows = yield self._sql("timetable_unfinished", names(schedules), waiting_only)
            for (raw,) in rows:
                asked += (yield from self._mailbox.cancel(UUID(bytes=raw), reason, now)).asked
            # What waits is nobody's and gone by that. What runs stays until it has stopped.
            more = waiting_only and len(rows) == _CANCELLED_AT_ONCE
        return asked

    def rewrite(
        self, wanted: Sequence[str], how: Rewrite, note: Note | None, now: datetime | None
    ) -> Script[list[Schedule | None]]:
        """See ``Timetable.rewrite``."""
        sql = self._sql
        at = yield from sql.turn_clock(now)
        rows = yield sql("timetable_read", names(wanted), None)
        known = {row[0]: _schedule(row) for row in rows}
        # All is decided before anything is written: in a caller's transaction nobody would roll it back.
        decided = {name: how(name, known.get(name), instant(at)) for name in sorted(set(wanted))}
        changed = [name for name, row in decided.items() if row is not known.get(name)]
        stored = {name: _grown(decided[name], known.get(name)) for name in changed}
        writes = [_write(name, row, is_new=name not in known) for name, row in stored.items()]
        for statement, values in writes:
            yield sql(statement, *values)
        silenced = [name for name, row in stored.items() if _is_silenced(known.get(name), row)]
        yield from self._cancel(silenced, _DROPPED, now, waiting_only=True)
        if note is not None:
            for name in changed:
                yield self._note(at, name, note)
        if changed:
            yield sql("bell_ring")
        return [stored.get(name, decided[name]) for name in wanted]

    def enter(self, occurrences: Sequence[Occurrence], note: Note, now: datetime | None) -> Script[Published]:
        """See ``Timetable.enter``."""
        at = yield from self._sql.turn_clock(now)
        published = yield from self._publish(occurrences, now)
        for schedule in sorted({each.draft.schedule or "" for each in occurrences}):
            yield self._note(at, schedule, note)
        yield from self._release(at, now)
        return published

    def read(self, wanted: Collection[str] | None, app: str | None, now: datetime | None) -> Script[Timesheet]:
        """See ``Timetable.read``."""
        at = yield from self._sql.read_clock(now)
        rows = yield self._sql("timetable_read", None if wanted is None else names(wanted), app)
        freezes = yield self._sql("timetable_freezes")
        return Timesheet(
            instant(at),
            tuple(_schedule(row) for row in rows),
            tuple(Freeze(frozen, instant(since), by, reason) for frozen, since, by, reason in freezes),
        )

    def declared(self, app: str, has: Collection[str], every: timedelta, now: datetime | None) -> Script[None]:
        """See ``Timetable.declared``."""
        at = yield from self._sql.read_clock(now)
        if (yield self._sql("timetable_declared", app, names(has), before(at, every), at)):
            yield from self._sql.mark_clock(at, now)

    def retire(self, app: str, silent: timedelta, now: datetime | None) -> Script[list[str]]:
        """See ``Timetable.retire``."""
        at = yield from self._sql.read_clock(now)
        rows = yield self._sql("timetable_retire", app, before(at, silent), at)
        if rows:
            yield from self._sql.mark_clock(at, now)
        return sorted(name for (name,) in rows)

    def freeze(self, app: str, by: str, reason: str, now: datetime | None) -> Script[None]:
        """See ``Timetable.freeze``."""
        at = yield from self._sql.turn_clock(now)
        yield self._sql("timetable_freeze", app, at, storable(by), storable(reason))
        yield self._note(at, app or "*", Note(by, "freeze", reason))

    def thaw(self, app: str, by: str, now: datetime | None) -> Script[bool]:
        """See ``Timetable.thaw``."""
        at = yield from self._sql.turn_clock(now)
        if not (yield self._sql("timetable_thaw", app)):
            return False
        yield self._note(at, app or "*", Note(by, "thaw"))
        yield self._sql("bell_ring")
        return True

    def _note(self, at: int, subject: str, note: Note) -> Statement:
        return self._sql("audit_note", at, storable(note.by), note.action, subject, storable(note.detail))


def _moving(sql: Dialect, schedule: Schedule, move: Move) -> Statement:
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


def _write(name: str, row: Schedule | None, *, is_new: bool) -> tuple[str, tuple[Any, ...]]:
    if row is None:
        return "timetable_delete", (name,)
    return "timetable_insert" if is_new else "timetable_update", _columns(row)


def _is_silenced(known: Schedule | None, row: Schedule | None) -> bool:
    """Whether nothing that waits shall ever start."""
    if row is None:
        return True
    return row.paused_at is not None and known is not None and known.paused_at is None


def _grown(row: Schedule | None, known: Schedule | None) -> Schedule | None:
    """The row as it is written over the one that was there."""
    if row is None or known is None:
        return row
    return replace(row, created_at=known.created_at, revision=known.revision + 1)


def _schedule(row: Row) -> Schedule:
    (name, app, origin, definition, created, declared, base, next_at, overrides, edits, *rest) = row
    (version, revision, paused, paused_by, reason, retired, fired, missed, skipped) = rest
    return Schedule(
        name=name,
        app=app,
        origin=origin,
        definition=read_layer(definition),
        created_at=instant(created),
        declared_at=instant(declared),
        base_at=instant(base),
        next_at=instant_or_none(next_at),
        overrides=read_layer(overrides),
        edits=read_layer(edits),
        version=version,
        revision=revision,
        paused_at=instant_or_none(paused),
        paused_by=paused_by,
        pause_reason=reason,
        retired_at=instant_or_none(retired),
        fired=fired,
        missed=missed,
        skipped=skipped,
    )


def _columns(row: Schedule) -> tuple[Any, ...]:
    return (
        row.name,
        row.app,
        row.origin,
        layer(row.definition),
        micros(row.created_at),
        micros(row.declared_at),
        micros(row.base_at),
        micros_or_none(row.next_at),
        layer(row.overrides),
        layer(row.edits),
        row.version,
        row.revision,
        micros_or_none(row.paused_at),
        storable(row.paused_by),
        storable(row.pause_reason),
        micros_or_none(row.retired_at),
        row.fired,
        row.missed,
        row.skipped,
    )
