"""What the tests of schedules' rules share: a plan, and a row that is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.model.schedule import Due, Schedule
from mainspring.runtime.schedules.plan import Plan, read_plan

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)  # a Monday
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def plan(rhythm: str = "every 1h", **fields: Any) -> Plan:
    """A plan of these fields."""
    return read_plan({"rhythm": rhythm, "topic": "reports", "group": "report", **fields})


def due(at: datetime = NOON, name: str = "report", *, unfinished: int = 0, waiting: int = 0) -> Due:
    """A schedule that is due since then."""
    row = Schedule(name, "shop", "code", {"rhythm": "every 1h"}, NOON - DAY, NOON - DAY, at - HOUR, at)
    return Due(row, unfinished, waiting)
