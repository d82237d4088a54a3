"""What holds for every decision, whatever the plan, however late, whatever runs."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.model.schedule import NEVER
from mainspring.runtime.schedules.decisions import decide
from tests.unit.runtime.schedules.making import NOON, due, plan

# Tracing doubles its time, and the tests beside it measure the lines that run here.
pytestmark = pytest.mark.unmeasured

rhythms = st.sampled_from(["every 7s", "every 20m", "*/5 * * * *", "0 9 * * mon-fri", "at 2026-06-01T12:00:00+00:00"])
policies = st.fixed_dictionaries(
    {
        "misfire": st.sampled_from(["latest", "skip", "all"]),
        "overlap": st.sampled_from(["skip", "queue", "allow", "cancel"]),
        "misfire_after": st.sampled_from([0.0, 60.0, 86_400.0]),
        "catch_up": st.integers(1, 1000),
        "timezone": st.sampled_from(["UTC", "Europe/Berlin"]),
        "jitter": st.sampled_from([0.0, 30.0]),
    }
)
lateness = st.integers(0, 60_000).map(lambda seconds: timedelta(seconds=seconds))


@given(rhythm=rhythms, policy=policies, late=lateness, unfinished=st.integers(0, 2), waiting=st.integers(0, 120))
@settings(max_examples=300, deadline=None)
def test_every_occurrence_is_published_missed_or_skipped_and_none_twice(
    rhythm: str, policy: dict[str, object], late: timedelta, unfinished: int, waiting: int
) -> None:
    made, now = plan(rhythm, **policy), NOON + late
    pending = [NOON]
    while (at := made.next(pending[-1])) is not None and at <= now:
        pending.append(at)

    move = decide(made, due(unfinished=unfinished, waiting=waiting), now)

    times = [each.draft.at for each in move.occurrences if each.draft.at is not None]
    assert len(times) + move.missed + move.skipped == len(pending)
    assert set(times) <= set(pending)
    assert all(before < after for before, after in pairwise(times))
    assert (move.base_at, move.next_at) == (pending[-1], at)
    assert move.stop_running <= (policy["overlap"] == "cancel" and bool(unfinished or waiting))
    starts = sum(each.due_at != NEVER for each in move.occurrences)
    if policy["overlap"] != "allow":
        assert starts <= (0 if unfinished or waiting else 1)
        assert len(times) - starts + waiting <= max(100, waiting + (policy["overlap"] == "cancel"))


@given(
    gaps=st.lists(st.integers(1, 4_000), min_size=1, max_size=20), rhythm=st.sampled_from(["every 7s", "*/5 * * * *"])
)
@settings(max_examples=100, deadline=None)
def test_whoever_looks_whenever_publishes_each_once_and_passes_none_over(gaps: list[int], rhythm: str) -> None:
    made = plan(rhythm, misfire="all", overlap="allow", catch_up=1000)
    row, now = due().schedule, NOON
    published = []

    for gap in gaps:
        now += timedelta(seconds=gap)
        while row.next_at is not None and row.next_at <= now:
            move = decide(made, replace(due(), schedule=row), now)
            published += [each.draft.at for each in move.occurrences]
            row = replace(row, base_at=move.base_at, next_at=move.next_at)

    expected = [NOON]
    while (at := made.next(expected[-1])) is not None and at <= now:
        expected.append(at)
    assert published == expected
