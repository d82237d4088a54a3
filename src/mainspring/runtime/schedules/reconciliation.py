"""What the code of an app says of its schedules, and what follows for the rows."""

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
    """A schedule as code and configuration have it."""

    definition: Layer
    overrides: Layer = field(default_factory=dict)
    code: Code = field(default_factory=dict)
    """What only code can tell of days."""
    offline: bool = False
    """Whether it goes on while the database is away."""


def reconciled(
    declared: Mapping[str, Declared], app: str, version: int, complain: Callable[[str, str], None]
) -> Rewrite:
    """How the rows are to be. ``complain(name, why)`` is told of those that must stay as they are."""

    def how(name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        try:
            return wished(name, row, now)
        except CannotPlan as error:
            complain(name, str(error))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one row, the others are brought in line
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
            complain(name, "a schedule of this name was made at run time: delete that one, or give it another name=…")
            return row
        if row.version > version:
            return row  # a newer version of this app has defined it
        return _updated(row, wanted, version, now)

    return how


def scheduled_anew(row: Schedule, now: datetime, code: Code | None = None) -> Schedule:
    """The row with its next time reckoned from now on. Raises CannotPlan."""
    return replace(row, base_at=now, next_at=read_plan(row.layers, code).next(now))


def is_due_otherwise(row: Schedule, fresh: Schedule) -> bool:
    """Whether what decides when it is due has changed. Otherwise its next time stands, also if it has come already."""
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
    """The same row, unless its next time is another by now: zones change their rules, and hosts learn of it."""
    if row.next_at is None or row.next_at <= now or row.paused_at is not None or row.retired_at is not None:
        return row
    try:
        plan = read_plan(row.layers, code)
        expected = plan.next(row.base_at)
        if expected is not None and expected <= now:
            # That one has passed and is not made up for, but what comes before the stored time is not passed over.
            expected = plan.next(now)
            if expected is None or expected > row.next_at:
                return row
    except CannotPlan:
        return row
    if expected is None or expected == row.next_at:
        return row
    _logger.warning("%s: the next occurrence is %s by now, it was %s", row.name, expected, row.next_at)
    return replace(row, next_at=expected)
