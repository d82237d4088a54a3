"""The timetable: a tick over the due schedules, rewrites of schedules, and the joins that complete with a tick."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from mainspring.model.join import Join, continuation
from mainspring.model.message import Conflict, Draft, Published
from mainspring.model.schedule import (
    DELETED,
    NEVER,
    PAUSED,
    QUEUE_EMPTY,
    REMOVED,
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
    Standing,
    Timesheet,
)
from mainspring.model.worker import SEEN_EVERY, SILENT_AFTER, Declarer
from mainspring.storage.operation import operation
from mainspring.storage.portable.dialect import SqlOperations, written_mapping
from mainspring.storage.script import Row, Script

WIDTH = 19
"""How many columns a schedule has."""
_CONFIRM_EVERY = timedelta(minutes=5)
"""How often the time of a schedule's last declaration is written."""
_TRUSTED_FOR = timedelta(hours=1)
"""How long a schedule is kept by a process of a release that does not list its schedules."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_draft = msgspec.json.Decoder(Draft).decode


class Glance(NamedTuple):
    """Whether there is anything to do for an app."""

    next_in: timedelta | None
    waiting: bool
    frozen: bool
    ended: bool
    """Whether some join may be complete."""


class Fired(NamedTuple):
    """The joins that were complete: how many, what they have published, and what they could not."""

    joined: int = 0
    continuations: tuple[Draft, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class SqlTimetable(SqlOperations):
    """``Timetable``, for every SQL database. The columns of a schedule are its fields."""

    @operation("write")
    def tick(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> Script[ScheduleTick]:
        """Only reads where there is nothing to do: then it wakes no process."""
        at = yield from self._read_clock()
        left = set(leave)
        glance = yield from self._glance(app, left, at)
        is_due = glance.next_in is not None and glance.next_in <= timedelta() and not glance.frozen
        found, fired = ScheduleTick(), Fired()
        if is_due:
            found = yield from self._advance(app, decide, limit, left, at, waiting=glance.waiting)
        elif glance.waiting:
            found = ScheduleTick(released=(yield from self._release(at, app=app)))
        if glance.ended:
            fired = yield from self._fire(limit, at)
        if is_due or found.released or glance.ended:
            glance = yield from self._glance(app, left, at)
        return replace(
            found,
            next_in=glance.next_in,
            waiting=glance.waiting,
            frozen=glance.frozen,
            left=frozenset(left.difference(leave)),
            joined=fired.joined,
            continuations=fired.continuations,
            conflicts=(*found.conflicts, *fired.conflicts),
            more=glance.ended,
        )

    def _glance(self, app: str, leave: Collection[str], at: Any) -> Script[Glance]:
        rows = yield self._sql("timetable_peek", app, self._values.texts(sorted(leave)), at)
        return self._view(Glance, rows[0])

    def _advance(
        self, app: str, decide: Decide, limit: int, left: set[str], at: Any, *, waiting: bool
    ) -> Script[ScheduleTick]:
        """Advance the due schedules, and release deliveries that need not wait any more."""
        args = (app, self._values.texts(sorted(left)), limit, self._values.span(UNSERVED_AFTER), at)
        moves: list[tuple[Schedule, ScheduleAdvance]] = []
        rows = yield self._sql.opening("timetable_due", *args)
        found_due = [(self._schedule(row[:WIDTH]), row[WIDTH:]) for row in rows]
        busy = yield from self._busy([schedule for schedule, _ in found_due], at)
        for schedule, (unfinished, waits, now) in found_due:
            due = Due(schedule, unfinished, waits, busy=schedule.name in busy)
            move = decide(due, self._values.read_instant(now))
            if move is None:
                left.add(due.schedule.name)
            else:
                moves.append((due.schedule, move))
        found = yield from self._move(moves, at)
        waits = any(each.due_at == NEVER for _, move in moves for each in move.occurrences)
        if not waiting and not (found.fired and waits):
            return found
        free = [schedule.name for schedule, move in moves if move.release_waiting]
        return replace(found, released=(yield from self._release(at, app=app, free=free)))

    def _busy(self, schedules: Sequence[Schedule], at: Any) -> Script[set[str]]:
        """Return those whose group has anything ready or running, of those that ask."""
        groups = {each.name: str(each.layers.get("group")) for each in schedules if _asks(each)}
        if not groups:
            return set()
        rows = yield self._sql("timetable_busy", self._values.texts(sorted({*groups.values()})), at)
        busy = {group for (group,) in rows}
        return {name for name, group in groups.items() if group in busy}

    def _move(self, moves: Sequence[tuple[Schedule, ScheduleAdvance]], at: Any) -> Script[ScheduleTick]:
        """Write the moves. Returns what was published and moved, and how many runs were asked to stop.

        A schedule whose earlier run cannot be asked to stop, since its row is locked, stays where it is.
        """
        asked = 0
        if moves:
            yield from self._mark_clock(at)
        if stopped := [schedule.name for schedule, move in moves if move.stop_running]:
            asked, busy = yield from self._cancel(stopped, REPLACED, at)
            moves = [(schedule, move) for schedule, move in moves if schedule.name not in busy]
        if not moves:
            return ScheduleTick(asked=asked)
        instant = self._values.instant
        rows = [
            (
                schedule.name,
                instant(schedule.next_at),
                schedule.revision,
                instant(move.next_at),
                instant(move.base_at),
                len(move.occurrences),
                move.missed,
                move.skipped,
            )
            for schedule, move in moves
        ]
        moved = {name for (name,) in (yield self._sql("timetable_move", *self._values.rows(rows, 8)))}
        occurrences = [each for schedule, move in moves if schedule.name in moved for each in move.occurrences]
        published = yield from self._publish(occurrences, at)
        conflicts = published.conflicting([each.draft for each in occurrences])
        dropped = tuple(
            (schedule.name, move) for schedule, move in moves if schedule.name in moved and move.missed + move.skipped
        )
        return ScheduleTick(
            fired=len(published.stored), moved=len(moved), asked=asked, conflicts=conflicts, dropped=dropped
        )

    def _publish(self, occurrences: Sequence[Occurrence], at: Any) -> Script[Published]:
        published = yield from self._store([each.draft for each in occurrences])
        # A message that existed before may be held: its due time must not be changed.
        fresh = [each for each in occurrences if each.draft.id in published.stored]
        later = [(each.draft.id, each.due_at) for each in fresh if each.due_at is not None]
        if later:
            yield from self._delay(later)
        for join in (each.join for each in fresh if each.join is not None):
            following = written_draft(join.then), written_draft(join.failed)
            yield self._sql("joint_open", self._values.id(join.id), 1, *following, at)
        return published

    def _fire(self, limit: int, at: Any) -> Script[Fired]:
        """Publish what follows complete joins: one transaction, so exactly once."""
        joins = yield from self._complete_joins(limit, at)
        following = [continuation(join, done, failed) for join, done, failed in joins]
        drafts = tuple(draft for draft in following if draft is not None)
        published = yield from self._store(drafts)
        return Fired(len(joins), drafts, published.conflicting(drafts))

    @operation("write")
    def rewrite(
        self, names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> Script[list[Schedule | None]]:
        at = yield from self._turn_clock()
        known: dict[str, Schedule] = {}
        wanted: dict[str, Schedule | None] = {}
        written: dict[str, Schedule] = {}
        updates: list[tuple[Any, ...]] = []
        added: set[str] = set()
        busy: set[str] = set()
        # Where another was faster to add a row, it is found in the next round; the rows that were added stay.
        while open_names := sorted(set(names) - added - busy):
            moment, locked, rows = yield from self._lock(open_names, at, waits=waits)
            busy |= set(locked)
            open_names = [name for name in open_names if name not in busy]
            known = {row[0]: self._schedule(row) for row in rows}
            # All is decided and encoded before a round writes: in a caller's transaction nothing would roll it back.
            wanted |= {name: how(name, known.get(name), moment) for name in open_names}
            kept = [(name, row) for name in open_names if (row := wanted[name]) is not None]
            # In the order of names, so that concurrent calls do not deadlock.
            fresh = [row for name, row in kept if name not in known]
            written = {name: _revised(row, old) for name, row in kept if row is not (old := known.get(name, row))}
            inserts, updates = [self._columns(row) for row in fresh], [self._columns(row) for row in written.values()]
            if inserts:
                added |= set((yield from self._insert(inserts)))
            if added.issuperset(row.name for row in fresh):
                break
        changed = [name for name, row in wanted.items() if row is not known.get(name)]
        if updates:
            yield from self._update(updates)
        gone = [name for name in changed if wanted[name] is None]
        if gone:
            yield self._sql("timetable_delete", self._values.texts(gone))
            yield from self._cancel(gone, DELETED, at)
        paused = [name for name, row in written.items() if row.paused_at and known[name].paused_at is None]
        if paused:
            yield from self._cancel(paused, PAUSED, at)
        if changed:
            if note is not None:
                yield self._note(at, note, *changed)
            yield self._ring()
        return [written.get(name, wanted.get(name)) for name in names]

    @operation("read")
    def read(self, names: Collection[str] | None = None, app: str | None = None) -> Script[Timesheet]:
        at = yield from self._read_clock()
        rows = yield self._sql("timetable_read", None if names is None else self._values.texts(sorted(names)), app, at)
        freezes = yield self._sql("timetable_freezes")
        schedules = tuple(self._schedule(row[1:]) for row in rows if row[1] is not None)
        return Timesheet(
            self._values.read_instant(rows[0][0]), schedules, tuple(self._view(Freeze, row) for row in freezes)
        )

    @operation("write")
    def declare(
        self, app: str, version: int, names: Collection[str], by: Declarer, retire: Collection[str] = ()
    ) -> Script[Standing]:
        at = yield from self._read_clock()
        declared, span = self._values.texts(sorted(names)), self._values.span
        spans = (SEEN_EVERY, SILENT_AFTER, _CONFIRM_EVERY, _TRUSTED_FOR)
        args = (app, version, declared, by.worker, by.start_id, *map(span, spans), at)
        recorded, gone, returned = _standing((yield self._sql("timetable_standing", *args)))
        if not recorded:
            yield from self._mark_clock(at)
            away = span(SILENT_AFTER / 5)
            yield self._sql.opening("timetable_seen", by.worker, by.start_id, app, version, declared, away, at)
            # Releases that list no schedules in their declarations go by this alone.
            yield self._sql("timetable_declared", app, declared, span(_CONFIRM_EVERY), at)
        retiring = [name for name in gone if name in retire]
        if not retiring:
            return Standing((), tuple(gone), returned)
        _, _, rows = yield from self._lock(retiring, at, waits=False)
        # Read again under the lock: it is declared by another process by now, or this one was away itself.
        _, still, _ = _standing((yield self._sql("timetable_standing", *args)))
        retired = [row[0] for row in rows if row[0] in still]
        if retired:
            yield from self._mark_clock(at)
            yield self._sql("timetable_retire", self._values.texts(retired), at)
            yield from self._cancel(retired, REMOVED, at)
            yield self._ring()
        return Standing(tuple(retired), tuple(name for name in gone if name not in retired), returned)

    @operation("read")
    def declarers(self, name: str) -> Script[list[Declarer]]:
        at = yield from self._read_clock()
        span = self._values.span
        rows = yield self._sql("timetable_declarers", name, span(SILENT_AFTER), span(_TRUSTED_FOR), at)
        return [Declarer(worker, start_id) for worker, start_id in rows]

    @operation("write")
    def freeze(self, app: str, by: str, reason: str) -> Script[None]:
        at = yield from self._turn_clock()
        text = self._values.text
        yield self._sql.opening("timetable_freeze", app, text(by), text(reason), at)
        yield self._note(at, Note(by, "freeze", reason), app or "*")

    @operation("write")
    def thaw(self, app: str, by: str) -> Script[bool]:
        at = yield from self._turn_clock()
        if not (yield self._sql.opening("timetable_thaw", app)):
            return False
        yield self._note(at, Note(by, "thaw"), app or "*")
        yield self._ring()
        return True

    @abstractmethod
    def _store(self, drafts: Sequence[Draft]) -> Script[Published]:
        """Publish the drafts."""

    @abstractmethod
    def _delay(self, later: Sequence[tuple[UUID, datetime]]) -> Script[None]:
        """Let the deliveries of these messages start later: by a jitter, or when an earlier run has ended."""

    @abstractmethod
    def _release(
        self, at: Any, *, app: str | None = None, entered: Sequence[str] = (), free: Sequence[str] = ()
    ) -> Script[int]:
        """Release what waits of an app or of some schedules, and whatever waits of those that are free to overlap."""

    @abstractmethod
    def _cancel(self, schedules: Sequence[str], reason: str, at: Any) -> Script[tuple[int, Collection[str]]]:
        """Cancel what these have published. Returns how many runs were asked to stop, and what was left alone as busy.

        Replaced, that is all of the rhythm, and what is locked is left alone. Paused or removed from the
        code, it is what has not begun of it; deleted, also what was asked for by hand. Removed, what is locked is left
        alone.
        """

    @abstractmethod
    def _complete_joins(self, limit: int, at: Any) -> Script[list[tuple[Join, int, int]]]:
        """Remove up to ``limit`` complete joins. Returns each with the members that were done and that failed."""

    @abstractmethod
    def _lock(
        self, names: Sequence[str], at: Any, *, waits: bool
    ) -> Script[tuple[datetime, Collection[str], Sequence[Row]]]:
        """Lock these rows. Returns the time, the names that others have locked, and the rows."""

    @abstractmethod
    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> Script[Collection[str]]:
        """Insert rows. Returns the names of those that did not exist yet."""

    @abstractmethod
    def _update(self, rows: Sequence[tuple[Any, ...]]) -> Script[None]:
        """Write rows that are locked."""

    def _schedule(self, row: Row) -> Schedule:
        fields = self._values.fields(Schedule, row)
        name, app, origin, definition, created, declared, base, next_at, overrides, edits, *rest = fields
        code, configured, edited = map(_layer, (definition, overrides, edits))
        return Schedule(name, app, origin, code, created, declared, base, next_at, configured, edited, *rest)

    def _columns(self, row: Schedule) -> tuple[Any, ...]:
        instant, text = self._values.instant, self._values.text
        return (
            row.name,
            row.app,
            row.origin,
            written_mapping(row.definition),
            instant(row.created_at),
            instant(row.declared_at),
            instant(row.base_at),
            instant(row.next_at),
            written_mapping(row.overrides),
            written_mapping(row.edits),
            row.version,
            row.revision,
            instant(row.paused_at),
            None if row.paused_by is None else text(row.paused_by),
            None if row.pause_reason is None else text(row.pause_reason),
            instant(row.retired_at),
            row.fired,
            row.missed,
            row.skipped,
        )


def _asks(schedule: Schedule) -> bool:
    return schedule.layers.get("only_if") == QUEUE_EMPTY


def written_draft(draft: Draft | None) -> str | None:
    """Write a follow-up as JSON. Fields that a later release adds are missing here, and get their defaults there."""
    return None if draft is None else msgspec.json.encode(draft).decode()


def read_join(id: UUID, then: str | None, failed: str | None) -> Join:
    """Read a stored join."""
    return Join(id, None if then is None else _decode_draft(then), None if failed is None else _decode_draft(failed))


def _standing(rows: Sequence[Row]) -> tuple[bool, list[str], tuple[str, ...]]:
    """Return whether a declaration is recorded, what no live process has any more, and what has returned."""
    gone = [name for _, name, is_gone in rows if name is not None and is_gone]
    return bool(rows[0][0]), gone, tuple(name for _, name, is_gone in rows if name is not None and not is_gone)


def _revised(row: Schedule, known: Schedule) -> Schedule:
    """Return the row with the creation time of the stored one and the next revision."""
    return replace(row, created_at=known.created_at, revision=known.revision + 1)


def _layer(text: str) -> dict[str, Any]:
    """What cannot be read is one field, which no plan has: that row alone is bad."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return {"unreadable": text}
