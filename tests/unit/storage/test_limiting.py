"""What fits into the limits of a group, at the edges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.limits import SLOTS, Limits, Rate
from mainspring.storage.portable.limits import WHOLE_GROUP, Allowance, Candidate, Spent, window

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RATE = Rate(3, MINUTE)


def allowance(limits: Limits, limit: int = 10, held: dict[str | None, int] | None = None) -> Allowance:
    return Allowance(limits, limit, held or {}, NOON)


def offered(made: Allowance, *keys: str | None) -> list[int]:
    """What is chosen of one candidate under each of these keys, by their places."""
    made.offer([Candidate(place, key) for place, key in enumerate(keys)])
    return made.chosen


@pytest.mark.parametrize(("limit", "breadth"), [(0, 20), (1, 20), (5, 20), (6, 24), (50, 200), (1000, 200)])
def test_it_looks_at_more_than_it_wants_but_not_at_everything(limit: int, breadth: int) -> None:
    assert window(limit) == breadth


def test_never_more_than_was_asked_for() -> None:
    made = allowance(Limits(key_concurrency=5), limit=2)

    assert offered(made, None, "a", "b") == [0, 1]
    assert (made.is_used_up, made.left) == (True, True)


def test_asked_for_nothing_it_chooses_nothing() -> None:
    made = allowance(Limits(ordered=True), limit=0)

    assert made.is_used_up
    assert offered(made, "a") == []
    assert made.left


def test_what_is_offered_twice_is_chosen_once_and_not_left_behind() -> None:
    made = allowance(Limits(key_concurrency=2))
    offered(made, "a")

    assert offered(made, "a") == [0]
    assert not made.left


def test_what_is_passed_over_makes_room_for_others_and_is_not_chosen_again() -> None:
    made = allowance(Limits(key_concurrency=1, global_concurrency=2))
    offered(made, "a", "a", "b", None)

    made.pass_over([0, 2])

    assert (made.chosen, made.left) == ([1, 3], True)
    assert offered(made, "a", "a", "b", None) == [1, 3]


def test_what_is_passed_over_under_an_order_keeps_its_key_back() -> None:
    made = allowance(Limits(ordered=True), limit=1)
    offered(made, "a", "a", "b")

    made.pass_over([0])

    assert made.chosen == [2]


def test_what_is_passed_over_is_not_spent() -> None:
    made = allowance(Limits(rate=RATE, key_rate=Rate(1, MINUTE)), limit=3)
    made.learn([WHOLE_GROUP, "a", "b"], [Spent(WHOLE_GROUP, NOON + MINUTE, 2)])
    offered(made, "a", "a", "b")

    made.pass_over([0])
    assert made.chosen == [1]
    made.pass_over([1])
    assert made.chosen == [2]


def test_what_is_held_counts_for_its_key_and_for_the_group() -> None:
    limits = Limits(key_concurrency=2, global_concurrency=5)

    assert offered(allowance(limits, held={"a": 1, None: 1}), "a", "a", None, "b") == [0, 2, 3]
    assert offered(allowance(limits, held={"a": 3, None: 2}), "b", None) == []
    assert offered(allowance(limits, held={"a": 9}), "b") == [], "more is held than these limits allow"


def test_what_has_no_key_is_bound_by_the_group_only() -> None:
    limits = Limits(ordered=True, key_rate=Rate(1, MINUTE))

    assert offered(allowance(limits, held={None: 7}), None, None, None) == [0, 1, 2]


def test_it_asks_for_what_it_must_know_and_for_nothing_twice() -> None:
    assert allowance(Limits(ordered=True)).asks_for(["a", None]) == []
    assert allowance(Limits(rate=RATE)).asks_for(["a", None]) == [WHOLE_GROUP]
    made = allowance(Limits(rate=RATE, key_rate=RATE))

    assert sorted(made.asks_for(["a", None, "b", "a"])) == [WHOLE_GROUP, "a", "b"]
    made.learn([WHOLE_GROUP, "a", "b"], [])
    assert made.asks_for(["b", "c"]) == ["c"]


def test_a_rate_that_is_spent_says_when_its_first_claims_come_back() -> None:
    made = allowance(Limits(rate=RATE))
    later = [Spent(WHOLE_GROUP, NOON + seconds * timedelta(seconds=1), 1) for seconds in (9, 4, 7)]
    made.learn([WHOLE_GROUP], later)

    assert made.is_used_up
    assert offered(made, None) == []
    assert made.ration([], None, None).again_in == timedelta(seconds=4)


def test_a_rate_spent_by_this_very_call_comes_back_a_slot_after_its_window() -> None:
    made = allowance(Limits(rate=RATE))
    made.learn([WHOLE_GROUP], [])

    assert offered(made, *[None] * 5) == [0, 1, 2]
    assert made.ration([], None, None).again_in == MINUTE + MINUTE / SLOTS


def test_a_rate_that_nobody_waits_for_is_no_reason_to_look_again() -> None:
    made = allowance(Limits(rate=RATE))
    made.learn([WHOLE_GROUP], [Spent(WHOLE_GROUP, NOON + MINUTE, 3)])

    assert made.ration([], None, None) == ([], None, None, False, False)
    made.left = True
    assert made.ration([], None, None).again_in == MINUTE, "somebody else has seen that something is left"


def test_a_rate_that_was_lowered_is_exceeded_already() -> None:
    made = allowance(Limits(rate=RATE, key_rate=Rate(1, MINUTE)))
    made.learn([WHOLE_GROUP, "a"], [Spent(WHOLE_GROUP, NOON + MINUTE, 50), Spent("a", NOON + MINUTE, 50)])

    assert offered(made, "a", None) == []
    assert made.ration([], None, None).again_in == MINUTE


def test_a_key_that_has_spent_its_rate_waits_alone() -> None:
    made = allowance(Limits(key_rate=Rate(2, MINUTE)))
    made.learn(["a", "b"], [Spent("a", NOON + timedelta(seconds=5), 2), Spent("b", NOON + timedelta(seconds=3), 1)])

    assert offered(made, "a", "b", "b") == [1]
    # The first of b comes back before any of a.
    assert made.ration([], None, None).again_in == timedelta(seconds=3)


def test_it_looks_again_when_the_first_thing_happens() -> None:
    made = allowance(Limits(rate=Rate(1, MINUTE)))
    made.learn([WHOLE_GROUP], [Spent(WHOLE_GROUP, NOON + MINUTE, 1)])
    offered(made, None)

    assert made.ration([], NOON + timedelta(seconds=2), None).again_in == timedelta(seconds=2)
    assert made.ration([], NOON + timedelta(hours=2), None).again_in == MINUTE
    assert made.ration([], NOON - timedelta(hours=2), None).again_in == timedelta(), "never in the past"


def test_while_keys_are_still_to_be_gone_through_something_is_left() -> None:
    assert allowance(Limits(ordered=True)).ration([], None, "k").left
    assert not allowance(Limits(ordered=True)).ration([], None, None).left


def test_the_shortest_slot_is_the_smallest_step_of_a_clock() -> None:
    assert Rate(1, timedelta(microseconds=7)).slot == timedelta(microseconds=1)
    assert Rate(1, timedelta(milliseconds=10)).slot == timedelta(microseconds=200)


@pytest.mark.parametrize(
    ("limits", "held", "wanted", "full"),
    [
        (Limits(global_concurrency=2), 2, 5, True),
        (Limits(global_concurrency=2), 0, 2, False),
        (Limits(global_concurrency=2), 0, 5, True),
        (Limits(key_concurrency=1), 5, 5, False),
    ],
)
def test_it_is_full_where_the_whole_group_leaves_something_behind(
    limits: Limits, held: int, wanted: int, full: bool
) -> None:
    made = Allowance(limits, wanted, {"k": held}, NOON)

    made.offer(Candidate(seq, "k") for seq in range(6))

    assert made.ration([], None, None).full is full
