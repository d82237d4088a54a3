"""What is in the database, as metrics: how much waits and for how long, who is there, how late schedules are."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from mainspring.app.health import HealthLimits
from mainspring.app.names import Namespace
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


async def look(storage: Storage, names: Namespace) -> list[Family]:
    """Everything of this namespace. Reads only."""
    tally = await storage.ledger.tally(CAP, names.prefix)
    roster = await storage.ledger.roster()
    sheet = await storage.timetable.read()
    leases = await _leases(storage, names)
    return [*_deliveries(tally, names), *_roster(roster, names), *_schedules(sheet, names), leases]


def _deliveries(tally: Tally, names: Namespace) -> list[Family]:
    groups = {names.shown(each.group): each for each in tally.groups if names.owns(each.group)}
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


def _roster(roster: Roster, names: Namespace) -> list[Family]:
    mine = [each for each in roster.workers if names.owns(each.app)]
    alive = sum(roster.now - each.beat_at <= _SILENT_AFTER for each in mine)
    groups = [each for each in roster.groups if names.owns(each.name)]
    return [
        Family(told.PAUSED, [((names.shown(each.name),), each.paused_at is not None) for each in groups]),
        Family(told.WORKERS, [(("alive",), alive), (("silent",), len(mine) - alive)]),
    ]


def _schedules(sheet: Timesheet, names: Namespace) -> list[Family]:
    mine = [each for each in sheet.schedules if names.owns(each.name)]
    frozen = {each.app for each in sheet.freezes}
    late = [((names.shown(each.name),), _lateness(each, sheet, frozen).total_seconds()) for each in mine]

    def counted(metric: Metric, field: str) -> Family:
        return Family(metric, [((names.shown(each.name),), getattr(each, field)) for each in mine])

    counts = ((told.FIRED, "fired"), (told.MISSED, "missed"), (told.SKIPPED, "skipped"))
    return [Family(told.LATENESS, [*late]), *(counted(*each) for each in counts)]


def _lateness(schedule: Schedule, sheet: Timesheet, frozen: set[str]) -> timedelta:
    stands = schedule.paused_at is not None or schedule.retired_at is not None or bool(frozen & {"", schedule.app})
    if stands or schedule.next_at is None:
        return timedelta()
    return max(sheet.now - schedule.next_at, timedelta())


async def _leases(storage: Storage, names: Namespace) -> Family:
    """Those of the application. The one by which we tell of all this is nobody's but ours."""
    states: Counter[str] = Counter({"held": 0, "expired": 0})
    last = names.prefix or None
    for _ in range(_PAGES):
        rows = await storage.leases.browse(last, _PAGE)
        states.update(row.state for row in rows if row.state != "free" and _is_told(names, row.name))
        if len(rows) < _PAGE or not rows[-1].name.startswith(names.prefix):
            break
        last = rows[-1].name
    return Family(told.LEASES, [((state,), count) for state, count in states.items()])


def _is_told(names: Namespace, lease: str) -> bool:
    return names.owns(lease) and names.shown(lease) != LEASE
