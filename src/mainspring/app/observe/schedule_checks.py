"""The check of schedules: overdue, broken, held up by a run that does not end, or frozen for long."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.model.health import Check, HealthLimits, built_in
from mainspring.model.schedule import Freeze, Schedule, Timesheet
from mainspring.model.search import Filter
from mainspring.model.views import DeliveryView
from mainspring.storage.contract import Storage
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.runtime.overruns import Overrun
    from mainspring.runtime.schedules.plan import Plan

_PAGE = 500
_PAGES = 4
_SHOWN = 5
"""How many schedules a reason names; the data has all."""
_MISSED = 3
"""How many occurrences in a row a run may outlast: one or two may be a busy day."""

Blocked = tuple[str, DeliveryView]
"""A schedule, and the run that blocks it."""
_Key = tuple[str, datetime, int]
"""One revision of a schedule: one that was deleted and created again counts from the start."""


class ScheduleChecks:
    """Checks all schedules. A plan is read once for each revision of its schedule."""

    def __init__(self) -> None:
        self._problems: dict[_Key, str | None] = {}

    async def run(
        self, storage: Storage, limits: HealthLimits, alive: Collection[str], overrunning: Sequence[Overrun]
    ) -> Check:
        """Return the result. ``alive`` are the apps with a live worker, ``overrunning`` the stuck runs of this process.

        Only the workers of a schedule's own app fire it.
        """
        sheet = await storage.timetable.read()
        if not sheet.schedules:
            return built_in("schedules", "healthy", "there are none", {"count": 0})
        frozen = {each.app for each in sheet.freezes}
        moving = [each for each in sheet.schedules if each.paused_at is None and each.retired_at is None]
        problems = self._read(sheet.schedules)
        broken = {each.name: why for each in moving if (why := problems[_key(each)]) is not None}
        late = [
            each
            for each in moving
            if each.name not in broken
            and each.next_at is not None
            and sheet.now - each.next_at > limits.schedule_overdue_after
            and not frozen & {"", each.app}
        ]
        blocked = await _blocked(storage, sheet, limits.silenced_after)
        stuck = sorted({each.schedule for each in overrunning if each.schedule is not None})
        stopped = [each for each in sheet.freezes if sheet.now - each.at > limits.frozen_after]
        reasons = [
            *_of_late(late, alive, sheet.now),
            *_of_broken(broken),
            *_of_blocked(blocked, sheet.now),
            *([f"{_named(stuck)} runs past its end here: see the check `overrunning`"] if stuck else []),
            *(_of_freeze(each, sheet.now) for each in stopped),
        ]
        data: dict[str, object] = {
            "count": len(moving),
            "overdue": sorted(each.name for each in late),
            "broken": broken,
            "silent": sorted({name for name, _ in blocked}),
            "overrunning": stuck,
            "frozen": sorted(each.app or "every app" for each in stopped),
        }
        if blocked:
            longest = blocked[0][1]
            data |= {
                "message_id": str(longest.message_id),
                "seconds": (sheet.now - longest.scheduled_for).total_seconds(),
            }
        if reasons:
            return built_in("schedules", "degraded", "; ".join(reasons), data)
        return built_in("schedules", "healthy", f"{len(moving):,} active, none overdue, broken or blocked", data)

    def _read(self, schedules: Sequence[Schedule]) -> Mapping[_Key, str | None]:
        known = self._problems
        self._problems = {
            key: known[key] if key in known else _problem(each) for each in schedules for key in (_key(each),)
        }
        return self._problems


def _key(schedule: Schedule) -> _Key:
    return schedule.name, schedule.created_at, schedule.revision


def _problem(schedule: Schedule) -> str | None:
    """Return why no process can follow the plan; None if one can. Days that code decides are up to its process."""
    # Here, since every app imports this module, and most processes have no schedules.
    from mainspring.app.schedule.view import viewed

    view = viewed(replace(schedule, paused_at=None, retired_at=None), (), None, None)
    return view.problem if view.state == "broken" else None


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def _of_late(late: Sequence[Schedule], alive: Collection[str], now: datetime) -> Iterator[str]:
    for app in sorted({each.app for each in late}):
        theirs = sorted((each for each in late if each.app == app), key=lambda each: (each.next_at, each.name))
        longest = max((now - each.next_at for each in theirs if each.next_at is not None), default=timedelta())
        overdue = f"{_named([each.name for each in theirs])} of {app} is overdue by {spell(_rounded(longest))}"
        if app in alive:
            yield f"{overdue}, although a worker of {app} is alive: see its log, logger mainspring.scheduler"
        else:
            yield f"{overdue}, and no worker of {app} is alive: start one, as in `mainspring worker MODULE:APP`"


def _of_broken(broken: Mapping[str, str]) -> Iterator[str]:
    if broken:
        first = min(broken)
        advice = "correct it by `mainspring schedules alter` or in the code"
        yield f"{_named(sorted(broken))} cannot be followed, {first}: {broken[first]}; {advice}"


def _of_freeze(freeze: Freeze, now: datetime) -> str:
    whose = f"the schedules of {freeze.app} are" if freeze.app else "all schedules are"
    why = f" ({freeze.reason})" if freeze.reason else ""
    since = spell(_rounded(now - freeze.at))
    return f"{whose} frozen since {since}, by {freeze.by}{why}: run `mainspring schedules thaw`"


def _of_blocked(blocked: Sequence[Blocked], now: datetime) -> Iterator[str]:
    if blocked:
        _, longest = blocked[0]
        yield (
            f"{_named(sorted({name for name, _ in blocked}))} is blocked by an unfinished run, the longest message "
            f"{longest.message_id} of {longest.group}, due {spell(_rounded(now - longest.scheduled_for))} ago: see "
            f"`mainspring messages show {longest.message_id}`; cancel it, or give its consumer a shorter timeout"
        )


def _rounded(span: timedelta) -> timedelta:
    return timedelta(seconds=round(span.total_seconds()))


async def _blocked(storage: Storage, sheet: Timesheet, after: timedelta) -> list[Blocked]:
    """Return the schedules with a run longer than ``after`` and their next three occurrences; longest first."""
    running = [row for row in await _running(storage) if sheet.now - row.scheduled_for > after]
    if not running:
        return []
    found = [(schedule.name, row) for schedule in sheet.schedules for row in _blocking(schedule, running, sheet.now)]
    return sorted(found, key=lambda each: each[1].scheduled_for)


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


def _blocking(schedule: Schedule, running: Sequence[DeliveryView], now: datetime) -> Iterator[DeliveryView]:
    if schedule.retired_at is not None or schedule.paused_at is not None:
        return
    # Here, since every app imports this module, and most have no schedule that is blocked.
    from mainspring.runtime.schedules.decisions import occurrence
    from mainspring.runtime.schedules.plan import CannotPlan, read_plan

    try:
        plan = read_plan(schedule.layers)
    except CannotPlan:
        return  # its days are computed by code that is not here
    if plan.fields.overlap not in ("skip", "queue"):
        return
    for row in running:
        if row.topic != plan.fields.topic or not _outlasts(row, plan, now):
            continue
        if occurrence(plan, schedule, row.scheduled_for).draft.id == row.message_id:
            yield row


def _outlasts(row: DeliveryView, plan: Plan, now: datetime) -> bool:
    at: datetime | None = row.scheduled_for
    for _ in range(_MISSED):
        at = None if at is None else plan.next(at)
    return at is not None and at < now
