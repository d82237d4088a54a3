"""Reconciles and advances the timetable for one node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mainspring.model.errors import StorageUnavailable
from mainspring.model.schedule import Due, ScheduleAdvance, ScheduleTick
from mainspring.runtime.schedules.decisions import COUNTED, decide
from mainspring.runtime.schedules.plan import CannotPlan, Plan, read_plan
from mainspring.runtime.schedules.reconciliation import Declared, reconciled
from mainspring.storage.contract import Timetable

_BATCH = 500
_LEAST_COUNTED = 50
_PUBLISHED = 1000
"""How many occurrences one tick publishes, before it leaves the rest to the next: on SQLite it blocks all writers."""
_PLANS = 10_000


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The schedules a worker knows: their app, and those that its own code declares."""

    app: str
    declared: Mapping[str, Declared] = field(default_factory=dict)
    version: int = 0


class Timekeeper:
    """Fires schedules; any number may share one timetable. ``complain(name, why)`` reports those it cannot follow."""

    def __init__(self, timetable: Timetable, scheduling: Scheduling, complain: Callable[[str, str], None]) -> None:
        self._timetable = timetable
        self._scheduling = scheduling
        self._complain = complain
        self._batch = _BATCH
        self._countable = COUNTED
        self._publishable = _PUBLISHED
        self._put_off: set[str] = set()
        self._plans: dict[tuple[str, datetime, int], Plan] = {}

    async def reconcile(self, *, waits: bool = True) -> bool:
        """Bring the rows in line with this app's code and configuration. If nothing differs, it only reads.

        Without ``waits``, a row that another session has locked is left unchanged, and the result is False.
        """
        app, declared = self._scheduling.app, self._scheduling.declared
        how = reconciled(declared, app, self._scheduling.version, self._complain)
        sheet = await self._timetable.read(app=app)
        known = {row.name: row for row in sheet.schedules}
        changed = [
            name for name in sorted({*known, *declared}) if how(name, known.get(name), sheet.now) is not known.get(name)
        ]
        return not changed or None not in await self._timetable.rewrite(changed, how, waits=waits)

    async def look(self, leave: Collection[str] = ()) -> ScheduleTick:
        """Fire due schedules and advance them, except those in ``leave``."""
        # Rows are locked during a tick: if hundreds are far behind, it does not count all of them to the end.
        self._countable, self._publishable = COUNTED, _PUBLISHED
        self._put_off.clear()
        try:
            found = await self._timetable.look(self._scheduling.app, self._decide, self._batch, leave)
        except StorageUnavailable:
            # It may have been too much for one transaction; the same batch would fail for ever.
            self._batch = max(1, self._batch // 4)
            raise
        self._batch = min(_BATCH, self._batch * 2)
        if self._put_off:
            return replace(found, left=found.left - self._put_off, more=True)
        return found

    async def declare(self, every: timedelta) -> None:
        """Declare that the code of this process has its schedules, unless that was done within ``every``."""
        if self._scheduling.declared:
            await self._timetable.declared(self._scheduling.app, self._scheduling.declared, every)

    async def retire(self, silent: timedelta) -> list[str]:
        """Retire the schedules of this app that no code has declared for so long."""
        return await self._timetable.retire(self._scheduling.app, silent)

    def _decide(self, due: Due, now: datetime) -> ScheduleAdvance | None:
        if self._publishable <= 0:
            self._put_off.add(due.schedule.name)
            return None
        try:
            move = decide(self._plan(due), due, now, max(self._countable, _LEAST_COUNTED))
        except CannotPlan as error:
            self._complain(due.schedule.name, str(error))
        except Exception as error:  # noqa: BLE001 - an error in one row must not affect the others
            self._complain(due.schedule.name, f"it cannot be followed: {type(error).__name__}: {error}")
        else:
            self._countable -= move.missed + move.skipped + len(move.occurrences)
            self._publishable -= len(move.occurrences)
            return move
        return None

    def _plan(self, due: Due) -> Plan:
        row = due.schedule
        # A schedule that was deleted and recreated counts its revisions from the start.
        key = row.name, row.created_at, row.revision
        plan = self._plans.get(key)
        if plan is None:
            declared = self._scheduling.declared.get(row.name)
            plan = read_plan(row.layers, None if declared is None else declared.code)
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan
