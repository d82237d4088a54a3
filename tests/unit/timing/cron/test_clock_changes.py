"""Around every change of clocks of every zone, what is due is what a walk through it tick by tick finds."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mainspring.timing.cron import Cron
from tests.unit.timing.cron.clock_changes import Shift, due, kinds, shifts, walls

JUST = timedelta(microseconds=1)


def _ahead(cron: Cron, start: datetime, end: datetime) -> list[datetime]:
    found, at = [], cron.next(start - JUST)
    while at is not None and at.astimezone(UTC) < end:
        found.append(at.astimezone(UTC))
        at = cron.next(at)
    return found


def _behind(cron: Cron, start: datetime, end: datetime) -> list[datetime]:
    found, at = [], cron.previous(end)
    while at is not None and at.astimezone(UTC) >= start:
        found.append(at.astimezone(UTC))
        at = cron.previous(at)
    return found[::-1]


def _deviations(shift: Shift, name: str) -> tuple[int, list[str]]:
    zone = ZoneInfo(name)
    start, end = (at.astimezone(zone) for at in shift.span)
    seconds = walls(shift, zone)
    minutes = [tick for tick in seconds if tick[1].second == 0]
    cells, wrong = 0, []
    for kind in kinds(shift):
        for fires in (True, False):
            if not fires and not shift.skipped:
                continue  # nothing to leave out
            cells += 1
            ticks = seconds if kind.name.endswith("of seconds") else minutes
            cron = Cron(kind.expression, on_gap="fire" if fires else "skip")
            expected = due(kind, shift, ticks, fires=fires)
            if _ahead(cron, start, shift.span[1]) != expected:
                wrong.append(f"{name} {shift.at}: {kind.name}, {cron!r} ahead")
            if _behind(cron, shift.span[0].astimezone(UTC), end) != expected:
                wrong.append(f"{name} {shift.at}: {kind.name}, {cron!r} behind")
    return cells, wrong


@pytest.mark.no_cover  # tracing takes two thirds of the time, and the vectors measure the same lines
def test_every_change_of_every_zone_from_2025_through_2027() -> None:
    found = shifts(2025, 2027)
    computed = stands_for = 0
    deviations: list[str] = []
    for shift, names in found.items():
        # Zones that have the same change differ in nothing that is near it.
        cells, wrong = _deviations(shift, names[0])
        computed += cells
        stands_for += cells * len(names)
        deviations += wrong

    zones = {name for names in found.values() for name in names}
    print(
        f"{len(zones)} zones that change, {sum(map(len, found.values()))} changes, {len(found)} distinct, "
        f"{computed} cells computed for {stands_for}, {len(deviations)} deviations"
    )
    assert deviations == []
    assert len(zones) > 150
    assert stands_for > 15_000
