"""What is in the database, as metrics: how much waits and for how long, who is there, how late schedules are."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from mainspring.app.health import HealthLimits
from mainspring.model.schedule import Schedule, Timesheet
from mainspring.model.views import Roster, Tally
from mainspring.storage.contract import Storage
from mainspring.telemetry import metrics as told
from mainspring.telemetry.metrics import Family, Metric

LEASE = "mainspring.gauges"
"""The lease of who tells of the database."""
CAP = 100_000
"""Up to how many deliveries are counted in each state."""
_PAGE = 1_000
_PAGES = 10
_STATES = ("scheduled", "ready", "running", "lapsed", "dead")
_SILENT_AFTER = HealthLimits().worker_silent_after


async def look(storage: Storage) -> list[Family]:
    """Everything there is. Reads only."""
    tally = await storage.ledger.tally(CAP)
    roster = await storage.ledger.roster()
    sheet = await storage.timetable.read()
    leases = await _leases(storage)
    return [*_deliveries(tally), *_roster(roster), *_schedules(sheet), leases]


def _deliveries(tally: Tally) -> list[Family]:
    groups = {each.group: each for each in tally.groups}
    ages = {
        group: tally.now - (tally.now if each.oldest_ready_at is None else each.oldest_ready_at)
        for group, each in groups.items()
    }
    return [
        Family(
            told.DELIVERIES,
            [((group, state), getattr(each, state)) for group, each in groups.items() for state in _STATES],
        ),
        Family(told.OLDEST, [((group,), age.total_seconds()) for group, age in ages.items()]),
        Family(told.PARKED, [((), tally.parked)]),
    ]


def _roster(roster: Roster) -> list[Family]:
    alive = sum(roster.now - each.beat_at <= _SILENT_AFTER for each in roster.workers)
    return [
        Family(told.PAUSED, [((each.name,), each.paused_at is not None) for each in roster.groups]),
        Family(told.WORKERS, [(("alive",), alive), (("silent",), len(roster.workers) - alive)]),
    ]


def _schedules(sheet: Timesheet) -> list[Family]:
    frozen = {each.app for each in sheet.freezes}
    late = [((each.name,), _lateness(each, sheet, frozen).total_seconds()) for each in sheet.schedules]

    def counted(metric: Metric, field: str) -> Family:
        return Family(metric, [((each.name,), getattr(each, field)) for each in sheet.schedules])

    counts = ((told.FIRED, "fired"), (told.MISSED, "missed"), (told.SKIPPED, "skipped"))
    return [Family(told.LATENESS, [*late]), *(counted(*each) for each in counts)]


def _lateness(schedule: Schedule, sheet: Timesheet, frozen: set[str]) -> timedelta:
    stands = schedule.paused_at is not None or schedule.retired_at is not None or bool(frozen & {"", schedule.app})
    if stands or schedule.next_at is None:
        return timedelta()
    return max(sheet.now - schedule.next_at, timedelta())


async def _leases(storage: Storage) -> Family:
    """Those of the application. The one by which we tell of all this is nobody's but ours."""
    states: Counter[str] = Counter({"held": 0, "expired": 0})
    last: str | None = None
    for _ in range(_PAGES):
        rows = await storage.leases.browse(last, _PAGE)
        states.update(row.state for row in rows if row.state != "free" and row.name != LEASE)
        if len(rows) < _PAGE:
            break
        last = rows[-1].name
    return Family(told.LEASES, [((state,), count) for state, count in states.items()])
