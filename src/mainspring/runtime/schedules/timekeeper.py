"""Reconciles and advances the timetable for one node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mainspring.model.errors import StorageUnavailable
from mainspring.model.schedule import Due, Layer, Rewrite, Schedule, ScheduleAdvance, ScheduleTick
from mainspring.runtime.schedules.decisions import COUNTED, decide
from mainspring.runtime.schedules.plan import CannotPlan, Code, Plan, read_plan
from mainspring.storage.contract import Timetable

_logger = logging.getLogger("mainspring.scheduler")
_WHEN = ("rhythm", "timezone", "day_match", "on_gap", "start", "end", "holidays", "workdays")
"""The fields that decide when it is due next."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as code and configuration define it."""

    definition: Layer
    overrides: Layer = field(default_factory=dict)
    code: Code = field(default_factory=dict)
    """The callables and containers that decide on days."""
    offline: bool = False
    """Whether it keeps firing while the database is unreachable."""


def reconciled(declared: Mapping[str, Declared], app: str, version: int, report: Callable[[str, str], None]) -> Rewrite:
    """Return a function that computes each row. ``report(name, why)`` reports those that must stay unchanged."""

    def rewrite(name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        try:
            return desired(name, row, now)
        except CannotPlan as error:
            report(name, str(error))
        except Exception as error:  # noqa: BLE001 - an error in one row must not affect the others
            report(name, f"it cannot be reconciled: {type(error).__name__}: {error}")
        return row

    def desired(name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        wanted = declared.get(name)
        if wanted is None:
            return row if row is None else _retimed(row, now)
        if row is None:
            fresh = Schedule(name, app, "code", wanted.definition, now, now, now, None, wanted.overrides, {}, version)
            return rescheduled(fresh, now, wanted.code)
        if row.app != app:
            report(name, f"it belongs to the app {row.app!r}: give it another name=…")
            return row
        if row.origin != "code":
            report(name, "a schedule of this name was created at run time: delete that one, or give it another name=…")
            return row
        if row.version > version:
            return row  # defined by a newer version of this app
        return _updated(row, wanted, version, now)

    return rewrite


def rescheduled(row: Schedule, now: datetime, code: Code | None = None) -> Schedule:
    """Return the row with its next time computed from now on. Raises CannotPlan."""
    return replace(row, base_at=now, next_at=read_plan(row.layers, code).next(now))


def changes_due_time(row: Schedule, fresh: Schedule) -> bool:
    """Return whether the fields that decide the due time have changed. If not, the next time is kept, even if past."""
    return any(fresh.layers.get(each) != row.layers.get(each) for each in _WHEN)


def _updated(row: Schedule, wanted: Declared, version: int, now: datetime) -> Schedule:
    fresh = replace(
        row,
        definition=dict(wanted.definition),
        overrides=dict(wanted.overrides),
        version=version,
        retired_at=None,
    )
    if row.retired_at is not None:
        return rescheduled(replace(fresh, declared_at=now), now, wanted.code)
    if changes_due_time(row, fresh):
        return rescheduled(fresh, now, wanted.code)
    return _retimed(row if fresh == row else fresh, now, wanted.code)


def _retimed(row: Schedule, now: datetime, code: Code | None = None) -> Schedule:
    """Return the same row, unless its next time has changed, as after an update of the time zone rules."""
    if row.next_at is None or row.next_at <= now or row.paused_at is not None or row.retired_at is not None:
        return row
    try:
        plan = read_plan(row.layers, code)
        expected = plan.next(row.base_at)
        if expected is not None and expected <= now:
            # That time has passed and is not made up for, but occurrences before the stored time are kept.
            expected = plan.next(now)
            if expected is None or expected > row.next_at:
                return row
    except CannotPlan:
        return row
    if expected is None or expected == row.next_at:
        return row
    _logger.warning("%s: the next occurrence is now %s, it was %s", row.name, expected, row.next_at)
    return replace(row, next_at=expected)


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
    """Fires schedules; any number may share one timetable. ``report(name, why)`` reports those it cannot follow."""

    def __init__(self, timetable: Timetable, scheduling: Scheduling, report: Callable[[str, str], None]) -> None:
        self._timetable = timetable
        self._scheduling = scheduling
        self._report = report
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
        rewrite = reconciled(declared, app, self._scheduling.version, self._report)
        sheet = await self._timetable.read(app=app)
        known = {row.name: row for row in sheet.schedules}
        names = sorted({*known, *declared})
        changed = [name for name in names if rewrite(name, known.get(name), sheet.now) is not known.get(name)]
        return not changed or None not in await self._timetable.rewrite(changed, rewrite, waits=waits)

    async def tick(self, leave: Collection[str] = ()) -> ScheduleTick:
        """Fire due schedules and advance them, except those in ``leave``."""
        # Rows are locked during a tick: if hundreds are far behind, it does not count all of them to the end.
        self._countable, self._publishable = COUNTED, _PUBLISHED
        self._put_off.clear()
        try:
            found = await self._timetable.tick(self._scheduling.app, self._decide, self._batch, leave)
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
            advance = decide(self._plan(due), due, now, max(self._countable, _LEAST_COUNTED))
        except CannotPlan as error:
            self._report(due.schedule.name, str(error))
        except Exception as error:  # noqa: BLE001 - an error in one row must not affect the others
            self._report(due.schedule.name, f"it cannot be followed: {type(error).__name__}: {error}")
        else:
            self._countable -= advance.missed + advance.skipped + len(advance.occurrences)
            self._publishable -= len(advance.occurrences)
            return advance
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
