"""The timetable in memory: what is due goes on as it is decided, in one step under the one lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from mainspring.model.message import Published
from mainspring.model.schedule import (
    DELETED,
    NEVER,
    PAUSED,
    REPLACED,
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
from mainspring.storage.memory.fan_in import fire, has_complete
from mainspring.storage.memory.occurrences import cancel_pending, is_unfinished, rows_of, waits
from mainspring.storage.memory.publishing import publish, withdraw
from mainspring.storage.memory.rows import DeliveryRow
from mainspring.storage.memory.state import State


class MemoryTimetable:
    """``Timetable`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def look(self, app: str, decide: Decide, limit: int, leave: Collection[str] = ()) -> ScheduleTick:
        """See ``Timetable.look``."""
        state = self._state
        with state.lock:
            now = state.now()
            left = set(leave)
            moves: list[tuple[Schedule, ScheduleAdvance]] = []
            # All is decided before anything is written: should a decision fail, nothing has happened.
            for schedule in self._due(app, left, now)[:limit]:
                move = decide(self._doing(schedule, now), now)
                if move is None:
                    left.add(schedule.name)
                else:
                    moves.append((schedule, move))
            gone_on = [self._go_on(schedule, move, now) for schedule, move in moves]
            free = [row for schedule, move in moves if move.release_waiting for row in rows_of(state, schedule.name)]
            released = self._start([row for row in free if waits(row)], now)
            ours = [name for name in state.scheduled if self._owns(app, name)]
            released += self._release(ours, now)
            over = fire(state, limit, now)
            return ScheduleTick(
                fired=sum(each.fired for each in gone_on),
                moved=len(moves),
                released=released,
                next_in=min((at - now for at, _ in self._upcoming(app, left)), default=None),
                waiting=any(waits(row) for name in ours for row in state.scheduled[name].values()),
                frozen=self._is_frozen(app),
                left=frozenset(left.difference(leave)),
                asked=sum(each.asked for each in gone_on),
                joined=over.joined,
                continuations=over.continuations,
                conflicts=(*(conflict for each in gone_on for conflict in each.conflicts), *over.conflicts),
                more=has_complete(state),
            )

    def _due(self, app: str, leave: Collection[str], now: datetime) -> list[Schedule]:
        if self._is_frozen(app):
            return []
        return [self._state.schedules[name] for at, name in sorted(self._upcoming(app, leave)) if at <= now]

    def _upcoming(self, app: str, leave: Collection[str]) -> list[tuple[datetime, str]]:
        return [
            (each.next_at, each.name)
            for each in self._state.schedules.values()
            if each.app == app
            and each.next_at is not None
            and each.paused_at is None
            and each.retired_at is None
            and each.name not in leave
        ]

    def _is_frozen(self, app: str) -> bool:
        return "" in self._state.freezes or app in self._state.freezes

    def _owns(self, app: str, name: str) -> bool:
        """Whether it is for this app to release; what is left of a schedule that is gone, is for everybody."""
        schedule = self._state.schedules.get(name)
        return schedule is None or schedule.app == app

    def _doing(self, schedule: Schedule, now: datetime) -> Due:
        rows = rows_of(self._state, schedule.name)
        unfinished = sum(is_unfinished(self._state, row, now) for row in rows)
        return Due(schedule, unfinished, waiting=sum(map(waits, rows)))

    def _go_on(self, schedule: Schedule, move: ScheduleAdvance, now: datetime) -> ScheduleTick:
        """Write the move. Returns what was published, and how many runs were asked to stop."""
        state = self._state
        asked = 0
        # The row moves in the step that publishes: whoever looks next finds the occurrence passed (invariant 5).
        state.schedules[schedule.name] = replace(
            schedule,
            base_at=move.base_at,
            next_at=move.next_at,
            fired=schedule.fired + len(move.occurrences),
            missed=schedule.missed + move.missed,
            skipped=schedule.skipped + move.skipped,
        )
        if move.stop_running:
            of_the_rhythm = [row for row in rows_of(state, schedule.name) if not row.message.draft.manual]
            asked = withdraw(state, of_the_rhythm, (), REPLACED, now).asked
        published = self._publish(move.occurrences, now)
        conflicts = published.conflicting([each.draft for each in move.occurrences])
        return ScheduleTick(fired=len(published.stored), asked=asked, conflicts=conflicts)

    def _publish(self, occurrences: Sequence[Occurrence], now: datetime) -> Published:
        published = publish(self._state, [each.draft for each in occurrences], now)
        for each in occurrences:
            # What was there already may be in somebody's hands: its due time is no longer ours to set.
            if each.due_at is not None and each.draft.id in published.stored:
                self._start_later(each.draft.id, each.due_at)
        return published

    def _start_later(self, message_id: UUID, due_at: datetime) -> None:
        state = self._state
        for row in state.live.get(message_id, {}).values():
            state.move(row, max(row.due_at, due_at), row.held_by)
        parked = state.unrouted.get(message_id)
        if parked is not None and due_at < NEVER:  # who is nobody's waits for no earlier run
            parked.due_at = max(parked.due_at, due_at)

    def _release(self, names: Collection[str], now: datetime) -> int:
        """Of each that has nothing unfinished, let the oldest that waits start."""
        state, freed = self._state, list[DeliveryRow]()
        for name in names:
            rows = rows_of(state, name)
            waiting = [row for row in rows if waits(row)]
            if waiting and not any(is_unfinished(state, row, now) for row in rows):
                freed.extend(row for row in waiting if row.message_id == waiting[0].message_id)
        return self._start(freed, now)

    def _start(self, waiting: Sequence[DeliveryRow], now: datetime) -> int:
        for row in waiting:
            self._state.move(row, now, None)
        self._state.ring({row.group for row in waiting})
        return len(waiting)

    async def rewrite(
        self,
        names: Sequence[str],
        how: Rewrite,
        note: Note | None = None,
        *,
        waits: bool = True,  # noqa: ARG002 - no row is ever locked here
    ) -> list[Schedule | None]:
        """See ``Timetable.rewrite``."""
        state = self._state
        with state.lock:
            now = state.now()
            wanted = {name: how(name, state.schedules.get(name), now) for name in sorted(set(names))}
            changed = {name: row for name, row in wanted.items() if row is not state.schedules.get(name)}
            written = {
                name: None if row is None else _stored(row, state.schedules.get(name)) for name, row in changed.items()
            }
            for name, row in written.items():
                known = state.schedules.pop(name, None)
                if row is not None:
                    state.schedules[name] = row
                if row is None:
                    cancel_pending(state, name, DELETED, now)
                elif row.paused_at and known is not None and known.paused_at is None:
                    cancel_pending(state, name, PAUSED, now)
                if note is not None:
                    state.note(note.by, note.action, name, note.detail, now)
            if written:
                state.ring([""])
            return [state.schedules.get(name) for name in names]

    async def enter(self, occurrences: Sequence[Occurrence], note: Note) -> Published:
        """See ``Timetable.enter``."""
        with self._state.lock:
            now = self._state.now()
            published = self._publish(occurrences, now)
            entered = sorted({each.draft.schedule or "" for each in occurrences})
            for schedule in entered:
                self._state.note(note.by, note.action, schedule, note.detail, now)
            self._release(entered, now)
            if any(each.due_at == NEVER for each in occurrences):
                self._state.ring([""])  # whoever ends the run they wait for is to know of them
            return published

    async def read(self, names: Collection[str] | None = None, app: str | None = None) -> Timesheet:
        """See ``Timetable.read``."""
        state = self._state
        with state.lock:
            return Timesheet(
                now=state.now(),
                schedules=tuple(
                    row
                    for name, row in sorted(state.schedules.items())
                    if (names is None or name in names) and (app is None or row.app == app)
                ),
                freezes=tuple(state.freezes[each] for each in sorted(state.freezes)),
            )

    async def declared(self, app: str, names: Collection[str], every: timedelta) -> None:
        """See ``Timetable.declared``."""
        state = self._state
        with state.lock:
            now = state.now()
            for row in list(state.schedules.values()):
                if row.app == app and row.name in names and row.declared_at <= now - every:
                    state.schedules[row.name] = replace(row, declared_at=now)

    async def retire(self, app: str, silent: timedelta) -> list[str]:
        """See ``Timetable.retire``."""
        state = self._state
        with state.lock:
            now = state.now()
            # What an API call has made is not the code's to take away (invariant 13).
            silenced = sorted(
                row.name
                for row in state.schedules.values()
                if row.app == app
                and row.origin == "code"
                and row.retired_at is None
                and row.declared_at <= now - silent
            )
            for name in silenced:
                row = state.schedules[name]
                state.schedules[name] = replace(row, retired_at=now, revision=row.revision + 1)
            return silenced

    async def freeze(self, app: str, by: str, reason: str) -> None:
        """See ``Timetable.freeze``."""
        state = self._state
        with state.lock:
            now = state.now()
            state.freezes[app] = Freeze(app, now, by, reason)
            state.note(by, "freeze", app or "*", reason, now)

    async def thaw(self, app: str, by: str) -> bool:
        """See ``Timetable.thaw``."""
        state = self._state
        with state.lock:
            if state.freezes.pop(app, None) is None:
                return False
            state.note(by, "thaw", app or "*", "", state.now())
            state.ring([""])
            return True


def _stored(row: Schedule, known: Schedule | None) -> Schedule:
    """The row as a database would keep it: a copy that its writer cannot change, counted by the storage."""
    if known is not None:
        row = replace(row, created_at=known.created_at, revision=known.revision + 1)
    return replace(row, definition=_copy(row.definition), overrides=_copy(row.overrides), edits=_copy(row.edits))


def _copy(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(layer)))
    return copied
