"""Reconciles the schedules declared in code with the rows of the timetable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from mainspring.model.schedule import Layer, Rewrite, Schedule
from mainspring.runtime.schedules.plan import CannotPlan, Code, read_plan

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


def reconciled(
    declared: Mapping[str, Declared], app: str, version: int, complain: Callable[[str, str], None]
) -> Rewrite:
    """Return a function that computes each row. ``complain(name, why)`` reports those that must stay unchanged."""

    def how(name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        try:
            return wished(name, row, now)
        except CannotPlan as error:
            complain(name, str(error))
        except Exception as error:  # noqa: BLE001 - an error in one row must not affect the others
            complain(name, f"it cannot be reconciled: {type(error).__name__}: {error}")
        return row

    def wished(name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        wanted = declared.get(name)
        if wanted is None:
            return row if row is None else _timed_anew(row, now)
        if row is None:
            fresh = Schedule(name, app, "code", wanted.definition, now, now, now, None, wanted.overrides, {}, version)
            return scheduled_anew(fresh, now, wanted.code)
        if row.app != app:
            complain(name, f"it belongs to the app {row.app!r}: give it another name=…")
            return row
        if row.origin != "code":
            complain(
                name, "a schedule of this name was created at run time: delete that one, or give it another name=…"
            )
            return row
        if row.version > version:
            return row  # defined by a newer version of this app
        return _updated(row, wanted, version, now)

    return how


def scheduled_anew(row: Schedule, now: datetime, code: Code | None = None) -> Schedule:
    """Return the row with its next time computed from now on. Raises CannotPlan."""
    return replace(row, base_at=now, next_at=read_plan(row.layers, code).next(now))


def is_due_otherwise(row: Schedule, fresh: Schedule) -> bool:
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
        return scheduled_anew(replace(fresh, declared_at=now), now, wanted.code)
    if is_due_otherwise(row, fresh):
        return scheduled_anew(fresh, now, wanted.code)
    return _timed_anew(row if fresh == row else fresh, now, wanted.code)


def _timed_anew(row: Schedule, now: datetime, code: Code | None = None) -> Schedule:
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
