"""From matching wall times to instants, with skipped and repeated times.

Every matching wall time is due once, except that a skipped one is due at the end of its gap (or not at all), and
a repeated one is due in both passes if the expression is an interval, else in the first.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from mainspring.timing.cron.plan import Plan
from mainspring.timing.cron.search import at_or_after, at_or_before
from mainspring.timing.cron.zones import change_at, settled


def following(plan: Plan, zone: tzinfo, wall: datetime, fold: int, *, inclusive: bool, fires: bool) -> datetime | None:
    """Return the first occurrence after ``wall`` in ``zone``; ``fires`` decides about skipped times."""
    wall, fold, overlap = settled(zone, wall, fold)
    if overlap is not None:
        if not fold:
            found = at_or_after(plan, wall, inclusive=inclusive)
            if found is not None and found < overlap.end:
                return found.replace(tzinfo=zone)
            wall, inclusive = overlap.start, True
        if plan.interval:
            found = at_or_after(plan, wall, inclusive=inclusive)
            if found is not None and found < overlap.end:
                return found.replace(tzinfo=zone, fold=1)
        wall, inclusive = overlap.end, True
    while True:
        found = at_or_after(plan, wall, inclusive=inclusive)
        if found is None:
            return None
        change = change_at(zone, found)
        if change is None or not change.is_gap:
            return found.replace(tzinfo=zone)
        if fires:
            return change.moment
        wall, inclusive = change.end, True


def preceding(plan: Plan, zone: tzinfo, wall: datetime, fold: int, *, inclusive: bool, fires: bool) -> datetime | None:
    """Return the last occurrence before ``wall`` in ``zone``: the same occurrences as ``following``, backwards."""
    wall, fold, overlap = settled(zone, wall, fold)
    if overlap is not None and fold:
        if plan.interval:
            found = at_or_before(plan, wall, inclusive=inclusive)
            if found is not None and found >= overlap.start:
                return found.replace(tzinfo=zone, fold=1)
        wall, inclusive = overlap.end, False  # all of the first pass is before
    while True:
        found = at_or_before(plan, wall, inclusive=inclusive)
        if found is None:
            return None
        if overlap is not None and found >= overlap.start:
            return found.replace(tzinfo=zone)  # in the first pass, or back in it
        change = change_at(zone, found)
        if change is None:
            return found.replace(tzinfo=zone)
        if not change.is_gap:
            return found.replace(tzinfo=zone, fold=int(plan.interval))
        if fires and (inclusive or change.end < wall):
            return change.moment
        wall, inclusive = change.start, False
