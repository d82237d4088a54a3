"""Which of the occurrences that are due start, wait, or are let go."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from mainspring.model.message import Priority
from mainspring.model.schedule import NEVER, NEXT_HEADER, RHYTHM_HEADER, SCHEDULE_HEADER, ScheduleAdvance
from mainspring.runtime.schedules.decisions import decide, occurrence
from tests.unit.runtime.schedules.making import DAY, HOUR, MINUTE, NOON, SECOND, due, plan

MISFIRES = ("latest", "skip", "all")
OVERLAPS = ("skip", "queue", "allow", "cancel")

REPORT = due().schedule


def starting(move: ScheduleAdvance) -> list[datetime]:
    return [each.draft.at for each in move.occurrences if each.draft.at and each.due_at != NEVER]


def waiting(move: ScheduleAdvance) -> list[datetime]:
    return [each.draft.at for each in move.occurrences if each.draft.at and each.due_at == NEVER]


def counts(move: ScheduleAdvance) -> tuple[int, int, int, int]:
    """How many start, wait, were missed, were skipped."""
    return len(starting(move)), len(waiting(move)), move.missed, move.skipped


@pytest.mark.parametrize(("misfire", "overlap"), [*product(MISFIRES, OVERLAPS)])
def test_on_time_and_idle_every_policy_starts_the_one_that_is_due(misfire: str, overlap: str) -> None:
    move = decide(plan(misfire=misfire, overlap=overlap), due(), NOON + SECOND)

    assert starting(move) == [NOON]
    assert (move.base_at, move.next_at) == (NOON, NOON + HOUR)
    assert (move.missed, move.skipped, move.stop_running) == (0, 0, False)


@pytest.mark.parametrize("misfire", MISFIRES)
def test_within_a_minute_nothing_is_late_yet(misfire: str) -> None:
    move = decide(plan("every 20s", misfire=misfire), due(), NOON + 60 * SECOND)

    assert starting(move) + waiting(move) == [NOON + 20 * n * SECOND for n in range(4)]
    assert counts(move) == (1, 3, 0, 0)
    assert (move.base_at, move.next_at) == (NOON + 60 * SECOND, NOON + 80 * SECOND)


# Every 20 minutes, an hour and ten seconds late: 12:00, 12:20 and 12:40 are late, 13:00 is in time.
@pytest.mark.parametrize(
    ("misfire", "overlap", "expected"),
    [
        ("latest", "skip", (1, 0, 3, 0)),
        ("latest", "queue", (1, 0, 3, 0)),
        ("latest", "allow", (1, 0, 3, 0)),
        ("latest", "cancel", (1, 0, 3, 0)),
        ("skip", "skip", (1, 0, 3, 0)),
        ("skip", "queue", (1, 0, 3, 0)),
        ("skip", "allow", (1, 0, 3, 0)),
        ("skip", "cancel", (1, 0, 3, 0)),
        ("all", "skip", (1, 3, 0, 0)),
        ("all", "queue", (1, 3, 0, 0)),
        ("all", "allow", (4, 0, 0, 0)),
        ("all", "cancel", (1, 0, 0, 3)),
    ],
)
def test_an_hour_late_and_idle(misfire: str, overlap: str, expected: tuple[int, int, int, int]) -> None:
    move = decide(plan("every 20m", misfire=misfire, overlap=overlap), due(), NOON + HOUR + 10 * SECOND)

    assert counts(move) == expected
    assert move.occurrences[-1].draft.at == NOON + HOUR
    assert (move.base_at, move.next_at) == (NOON + HOUR, NOON + HOUR + 20 * MINUTE)
    assert not move.stop_running


@pytest.mark.parametrize(
    ("misfire", "overlap", "expected", "stops"),
    [
        ("latest", "skip", (0, 0, 3, 1), False),
        ("latest", "queue", (0, 1, 3, 0), False),
        ("latest", "allow", (1, 0, 3, 0), False),
        ("latest", "cancel", (0, 1, 3, 0), True),
        ("skip", "skip", (0, 0, 3, 1), False),
        ("skip", "queue", (0, 1, 3, 0), False),
        ("skip", "allow", (1, 0, 3, 0), False),
        ("skip", "cancel", (0, 1, 3, 0), True),
        ("all", "skip", (0, 0, 0, 4), False),
        ("all", "queue", (0, 4, 0, 0), False),
        ("all", "allow", (4, 0, 0, 0), False),
        ("all", "cancel", (0, 1, 0, 3), True),
    ],
)
@pytest.mark.parametrize(("unfinished", "waits"), [(1, 0), (0, 1)])
def test_an_hour_late_while_an_earlier_run_is_unfinished(
    misfire: str, overlap: str, expected: tuple[int, int, int, int], unfinished: int, waits: int, *, stops: bool
) -> None:
    now = NOON + HOUR + 10 * SECOND

    move = decide(plan("every 20m", misfire=misfire, overlap=overlap), due(unfinished=unfinished, waiting=waits), now)

    assert counts(move) == expected
    assert move.stop_running is stops


def test_what_is_late_and_has_nothing_in_time_is_left_out_by_skip() -> None:
    move = decide(plan("every 1d", misfire="skip"), due(), NOON + 2 * HOUR)

    assert counts(move) == (0, 0, 1, 0)
    assert move.next_at == datetime(2026, 6, 2, tzinfo=NOON.tzinfo)


def test_nothing_is_stopped_where_nothing_is_to_start() -> None:
    lone = plan("at 2026-06-01T12:00:00+00:00", misfire="skip", overlap="cancel")

    move = decide(lone, due(unfinished=1), NOON + HOUR)

    assert counts(move) == (0, 0, 1, 0)
    assert not move.stop_running
    assert move.next_at is None


def test_nothing_is_stopped_for_an_occurrence_whose_condition_is_not_met() -> None:
    replacing = plan(overlap="cancel", only_if="code:shop.is_open")

    unmet = decide(replacing, due(unfinished=1), NOON, met=False)

    assert (unmet.stop_running, unmet.occurrences, unmet.skipped) == (False, (), 1)
    assert decide(replacing, due(unfinished=1), NOON, met=True).stop_running


@pytest.mark.parametrize("after", [0.0, 3600.0])
def test_how_late_is_late_is_each_schedules_own(after: float) -> None:
    move = decide(plan(misfire="skip", misfire_after=after), due(), NOON + 30 * MINUTE)

    assert counts(move) == ((0, 0, 1, 0) if after == 0.0 else (1, 0, 0, 0))


@pytest.mark.parametrize(("misfire", "started", "queued"), [("latest", 1, 0), ("skip", 1, 60), ("all", 1, 99)])
def test_a_week_late_on_a_rhythm_of_seconds_is_bounded(misfire: str, started: int, queued: int) -> None:
    now = NOON + 7 * DAY

    move = decide(plan("every 1s", misfire=misfire, overlap="queue"), due(), now)

    assert (len(starting(move)), len(waiting(move))) == (started, queued)
    assert move.occurrences[-1].draft.at == now
    assert (move.base_at, move.next_at) == (now, now + SECOND)
    assert 10_000 <= move.missed < 12_000  # of more than 600,000, which nobody counts


def test_a_week_late_on_a_cron_of_seconds_goes_on_from_now() -> None:
    now = NOON + 7 * DAY + timedelta(milliseconds=500)

    move = decide(plan("* * * * * *", misfire="all", overlap="allow", catch_up=1000), due(), now)

    assert starting(move) == [NOON + 7 * DAY - n * SECOND for n in reversed(range(1000))]
    assert move.next_at == NOON + 7 * DAY + SECOND


@pytest.mark.parametrize("late", [99, 999, 1_000, 9_998, 9_999, 10_000, 10_400, 10_998])
def test_none_is_lost_or_counted_twice_however_far_behind_it_is(late: int) -> None:
    now = NOON + late * SECOND

    move = decide(plan("every 1s", misfire="all", overlap="allow", catch_up=1000), due(), now)

    caught_up = min(late + 1, 1000)
    assert starting(move) == [now - n * SECOND for n in reversed(range(caught_up))]
    assert move.missed == late + 1 - caught_up


@pytest.mark.parametrize(("catch_up", "expected"), [(1, [13]), (3, [11, 12, 13]), (100, [8, 9, 10, 11, 12, 13])])
def test_all_catches_up_with_the_latest_so_many(catch_up: int, expected: list[int]) -> None:
    now = NOON.replace(hour=13, minute=30)

    move = decide(plan(misfire="all", overlap="allow", catch_up=catch_up), due(NOON.replace(hour=8)), now)

    assert [at.hour for at in starting(move)] == expected
    assert move.missed == 6 - len(expected)


@pytest.mark.parametrize(("already", "joins"), [(0, 60), (90, 10), (99, 1), (100, 0), (250, 0)])
def test_only_so_many_may_wait(already: int, joins: int) -> None:
    move = decide(plan("every 1s", overlap="queue"), due(unfinished=1, waiting=already), NOON + 59 * SECOND)

    assert counts(move) == (0, joins, 0, 60 - joins)


def test_what_waits_is_due_never_and_keeps_its_own_time() -> None:
    (one,) = decide(plan(overlap="queue"), due(unfinished=1), NOON).occurrences

    assert (one.due_at, one.draft.at) == (NEVER, NOON)


def test_ids_derive_from_schedule_and_due_time_alone() -> None:
    hourly, other = plan(), plan("every 20m", overlap="allow", misfire="all", priority=1, jitter=5.0)
    later = NOON + timedelta(microseconds=1)

    assert occurrence(hourly, REPORT, NOON).draft.id == occurrence(other, REPORT, NOON).draft.id
    assert occurrence(hourly, REPORT, NOON).draft.id == occurrence(hourly, REPORT, NOON, waits=True).draft.id
    different = [("report", NOON), ("reports", NOON), ("report", later), ("report", NOON + HOUR)]
    assert len({occurrence(hourly, due(name=name).schedule, at).draft.id for name, at in different}) == 4


def test_two_nodes_that_look_at_other_times_make_the_same_messages() -> None:
    all_of_them = plan("every 1s", misfire="all", overlap="allow")

    first = decide(all_of_them, due(), NOON + 5 * SECOND)
    second = decide(all_of_them, due(), NOON + 9 * SECOND)

    assert [each.draft.id for each in second.occurrences[:6]] == [each.draft.id for each in first.occurrences]


def test_what_is_asked_for_anew_at_the_same_time_is_another_message() -> None:
    once = plan(f"at {NOON.isoformat()}")

    again = occurrence(once, replace(REPORT, revision=1), NOON).draft.id

    assert occurrence(once, REPORT, NOON).draft.id != again
    assert occurrence(plan(), replace(REPORT, revision=1), NOON).draft.id == occurrence(plan(), REPORT, NOON).draft.id


def test_jitter_is_the_same_for_everybody_and_within_its_bound() -> None:
    nervous = plan(jitter=30.0)
    times = [NOON + n * HOUR for n in range(300)]

    delays = [_later(occurrence(nervous, REPORT, at), at) for at in times]

    assert delays == [_later(occurrence(replace(nervous), REPORT, at), at) for at in times]
    assert all(timedelta() <= delay < timedelta(seconds=30) for delay in delays)
    assert len(set(delays)) == 300
    assert max(delays) - min(delays) > timedelta(seconds=25)
    assert occurrence(plan(), REPORT, NOON).due_at is None


def _later(made: Any, at: datetime) -> timedelta:
    assert made.draft.at == at
    return made.due_at - at  # type: ignore[no-any-return]


def test_a_message_says_whose_it_is_and_goes_where_the_plan_says() -> None:
    direct = occurrence(plan("0 9 * * *", payload="eyJhIjoxfQ==", priority=int(Priority.LOW)), REPORT, NOON).draft
    published = occurrence(plan(mode="publish"), REPORT, NOON).draft

    assert (direct.topic, direct.group, direct.payload, direct.priority) == (
        "reports",
        "report",
        b'{"a":1}',
        Priority.LOW,
    )
    following = (NOON + 21 * HOUR).isoformat()
    assert direct.headers == {SCHEDULE_HEADER: "report", RHYTHM_HEADER: "0 9 * * *", NEXT_HEADER: following}
    assert (direct.schedule, direct.manual) == ("report", False)
    assert published.group is None
