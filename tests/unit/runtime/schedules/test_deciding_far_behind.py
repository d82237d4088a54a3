"""Schedules that are far behind: what is counted is bounded, and what runs does not depend on it."""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from mainspring.model.schedule import START_HEADER
from mainspring.runtime.schedules.decisions import decide, occurrence
from tests.unit.runtime.schedules.making import DAY, HOUR, MINUTE, NOON, SECOND, due, plan


@pytest.mark.parametrize(
    ("misfire", "overlap", "behind"),
    [*product(("latest", "skip", "all"), ("skip", "queue", "allow", "cancel"), (HOUR, DAY, 7 * DAY))],
)
def test_with_fewer_counted_only_missed_differs(misfire: str, overlap: str, behind: timedelta) -> None:
    often = plan("every 20s", misfire=misfire, overlap=overlap, catch_up=30, misfire_after=90)
    now = NOON + behind + SECOND

    exact, quick = decide(often, due(), now), decide(often, due(), now, 50)

    assert quick.missed <= exact.missed
    assert replace(quick, missed=0) == replace(exact, missed=0)
    assert quick.base_at <= now < (quick.next_at or now)


def test_what_is_not_late_is_counted_to_the_end() -> None:
    often = plan("every 100ms", overlap="allow")

    move = decide(often, due(), NOON + 50 * SECOND, 50)

    assert (len(move.occurrences), move.missed) == (501, 0)


def test_overlaps_that_are_allowed_let_nothing_wait() -> None:
    assert decide(plan(overlap="allow"), due(waiting=3), NOON).release_waiting
    assert not decide(plan(overlap="allow"), due(unfinished=3), NOON).release_waiting
    assert not decide(plan(overlap="queue"), due(waiting=3), NOON).release_waiting


def test_a_jitter_travels_with_the_message() -> None:
    late = occurrence(plan(jitter=1200), due().schedule, NOON)

    assert late.due_at is not None
    assert NOON < late.due_at < NOON + 20 * MINUTE
    assert (late.draft.headers or {})[START_HEADER] == late.due_at.isoformat()
    assert START_HEADER not in (occurrence(plan(), due().schedule, NOON).draft.headers or {})
