"""Schedules that are silent because a run of theirs does not end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.model.browsing import Filter
from mainspring.model.schedule import Schedule
from mainspring.model.views import DeliveryView
from mainspring.runtime.schedules.decisions import occurrence
from mainspring.runtime.schedules.plan import CannotPlan, Plan, read_plan
from mainspring.storage.contract import Storage

_PAGE = 500
_PAGES = 4
_MISSED = 3
"""How many occurrences in a row a run may outlast: one or two may well be a busy day."""


class Silenced(NamedTuple):
    """A schedule, and the run that it waits for."""

    schedule: str
    group: str
    row: DeliveryView
    since: timedelta
    """How long ago that run was due."""


async def silenced(storage: Storage, now: datetime, after: timedelta) -> list[Silenced]:
    """The schedules whose run goes on for ``after``, and for longer than their next three occurrences; longest first.

    Where nothing runs for so long, which is the rule, schedules are not even looked at.
    """
    running = [row for row in await _running(storage) if now - row.scheduled_for > after]
    if not running:
        return []
    sheet = await storage.timetable.read()
    found = [each for schedule in sheet.schedules for each in _of(schedule, running, now)]
    return sorted(found, key=lambda each: each.since, reverse=True)


async def _running(storage: Storage) -> list[DeliveryView]:
    rows: list[DeliveryView] = []
    before: int | None = None
    for _ in range(_PAGES):
        page = await storage.ledger.browse(Filter(state="running", before=before, limit=_PAGE))
        rows += page.rows
        before = page.before
        if before is None:
            break
    return rows


def _of(schedule: Schedule, running: Sequence[DeliveryView], now: datetime) -> Iterator[Silenced]:
    if schedule.retired_at is not None or schedule.paused_at is not None:
        return
    try:
        plan = read_plan(schedule.layers)
    except CannotPlan:
        return  # its days are told by code that is not here
    if plan.fields.overlap not in ("skip", "queue"):
        return
    for row in running:
        if row.topic == plan.fields.topic and _is_its(row, plan, schedule) and _outlasts(row, plan, now):
            yield Silenced(schedule.name, row.group, row, now - row.scheduled_for)


def _is_its(row: DeliveryView, plan: Plan, schedule: Schedule) -> bool:
    return occurrence(plan, schedule, row.scheduled_for).draft.id == row.message_id


def _outlasts(row: DeliveryView, plan: Plan, now: datetime) -> bool:
    at: datetime | None = row.scheduled_for
    for _ in range(_MISSED):
        at = None if at is None else plan.next(at)
    return at is not None and at < now
