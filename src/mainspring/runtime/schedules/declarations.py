"""Schedules as code declares them, and how the rows of the timetable are reconciled with that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mainspring.model.schedule import Layer, Rewrite, Schedule
from mainspring.runtime.schedules.middleware import Around
from mainspring.runtime.schedules.plan import CannotPlan, Code, read_plan
from mainspring.storage.contract import Timetable

_logger = logging.getLogger("mainspring.scheduler")
_WHEN = ("rhythm", "timezone", "day_match", "on_gap", "start", "end", "holidays", "workdays")
"""The fields that decide when it is due next."""
_KEEPS_PLACE = timedelta(hours=1)
"""A retired schedule that returns within this time goes on where it was: its worker may only have been away."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as code and configuration define it."""

    definition: Layer
    overrides: Layer = field(default_factory=dict)
    code: Code = field(default_factory=dict)
    """The callables and containers that decide on days."""
    offline: bool = False
    """Whether it keeps firing while the database is unreachable."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The schedules a worker knows: their app, and those that its own code declares."""

    app: str
    declared: Mapping[str, Declared] = field(default_factory=dict)
    version: int = 0
    around: Around | None = None
    """The publishing middleware; None without any."""


async def reconcile(
    timetable: Timetable,
    scheduling: Scheduling,
    report: Callable[[str, str], None],
    returned: Collection[str] = (),
    *,
    waits: bool = True,
) -> bool:
    """Bring the rows in line with an app's code and configuration. If nothing differs, it only reads.

    Those in ``returned`` are no longer retired, also if a newer version has defined them. Without ``waits``, a row that
    another session has locked is left unchanged, and the result is False.
    """
    app, declared = scheduling.app, scheduling.declared
    rewrite = reconciled(declared, app, scheduling.version, report, returned)
    sheet = await timetable.read(app=app)
    known = {row.name: row for row in sheet.schedules}
    names = sorted({*known, *declared})
    changed = [name for name in names if rewrite(name, known.get(name), sheet.now) is not known.get(name)]
    if not changed:
        return True
    rows = await timetable.rewrite(changed, rewrite, waits=waits)
    for row in filter(None, rows):
        before = known.get(row.name)
        if before is not None and before.retired_at is not None and row.retired_at is None:
            _logger.warning("%s: no longer retired, since this worker of %s has it in its code", row.name, app)
    return None not in rows


def reconciled(
    declared: Mapping[str, Declared],
    app: str,
    version: int,
    report: Callable[[str, str], None],
    returned: Collection[str] = (),
) -> Rewrite:
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
        if row.version > version and (row.retired_at is None or name not in returned):
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
        fresh = replace(fresh, declared_at=now)
        if now - row.retired_at > _KEEPS_PLACE:
            return rescheduled(fresh, now, wanted.code)
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
