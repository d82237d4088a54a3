"""The slots that the consumers of a worker share: how they are counted, and who gets them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import pytest

from mainspring.runtime.slots import TAKEN_WITHIN, SharedSlots
from mainspring.timing.clock import Clock


@dataclass
class Busy:
    """As much of an executor as is counted."""

    begun: int = 0
    unsettled: int = 0


def nothing() -> None:
    """Wake no fetcher."""


class Turns:
    """The slots of a worker with one executor, and the groups that were woken."""

    def __init__(self, most: int) -> None:
        self.executor = Busy()
        self.seconds = 100.0
        self.slots = SharedSlots(most, cast("Any", [self.executor]), cast("Clock", self))
        self.woken: list[str] = []

    def monotonic(self) -> float:
        return self.seconds

    def ask(self, _patient: Collection[str] = (), /, **wanted: int) -> dict[str, int]:
        """Ask for one fetcher; what it gets begins to run."""
        fetcher = "+".join(wanted)
        shares = self.slots.share(wanted, _patient, lambda: self.woken.append(fetcher))
        self.executor.begun += sum(shares.values())
        self.slots.give_back(sum(shares.values()))
        return shares

    def end(self, count: int = 1) -> None:
        self.executor.begun -= count
        self.slots.freed()


def test_slots_of_claims_on_their_way_are_taken() -> None:
    turns = Turns(3)

    assert turns.slots.share({"a": 2}, (), nothing) == {"a": 2}
    assert turns.slots.free == 1
    turns.slots.take_one()
    assert turns.slots.free == 0
    turns.slots.give_back(3)
    assert turns.slots.free == 3


def test_verdicts_on_their_way_occupy_no_slot_up_to_the_cap() -> None:
    turns = Turns(4)

    turns.executor.unsettled = 4
    assert turns.slots.free == 4
    turns.executor.unsettled = 7
    assert turns.slots.free == 1
    turns.executor.begun = 1
    assert turns.slots.free == 0


@pytest.mark.parametrize(
    ("most", "wanted", "shares"),
    [
        (6, {"a": 100, "b": 100, "c": 100}, {"a": 2, "b": 2, "c": 2}),
        (7, {"a": 100, "b": 100}, {"a": 4, "b": 3}),
        (7, {"a": 1, "b": 100}, {"a": 1, "b": 6}),
        (9, {"a": 100, "b": 2, "c": 100}, {"a": 4, "b": 2, "c": 3}),
        (2, {"a": 5, "b": 5, "c": 5}, {"a": 1, "b": 1}),
        (64, {"a": 100}, {"a": 32}),
    ],
)
def test_free_slots_are_shared_evenly(most: int, wanted: dict[str, int], shares: dict[str, int]) -> None:
    assert Turns(most).slots.share(wanted, (), nothing) == shares


def test_each_gets_its_turn_whichever_fetcher_asks_first() -> None:
    turns = Turns(1)
    got: list[str] = []

    for _ in range(9):
        for wanted in ({"a": 5, "b": 5}, {"limited": 5}):
            got += turns.ask(**wanted)
        if turns.executor.begun:
            turns.end()

    assert got[:6] in (["a", "limited", "b"] * 2, ["a", "b", "limited"] * 2)


def test_a_free_slot_is_left_to_the_first_in_the_line_which_is_woken_for_it() -> None:
    turns = Turns(1)
    assert turns.ask(a=5) == {"a": 1}
    assert turns.ask(limited=5) == {}

    turns.end()

    assert turns.woken == ["limited"]
    assert turns.ask(a=5) == {}
    assert turns.ask(limited=5) == {"limited": 1}


def test_a_group_that_does_not_come_for_its_slot_keeps_it_from_no_other_for_long() -> None:
    turns = Turns(1)
    turns.ask(a=5)
    turns.ask(stuck=5)
    turns.ask(a=5)
    turns.end()
    assert turns.woken == ["stuck"]

    turns.seconds += TAKEN_WITHIN / 2
    assert turns.ask(a=5) == {}
    turns.seconds += TAKEN_WITHIN
    turns.woken.clear()
    turns.slots.freed()

    assert turns.woken == ["stuck", "a"]
    assert turns.ask(a=5) == {"a": 1}
    # It is still in the line.
    turns.end()
    assert turns.ask(stuck=5) == {"stuck": 1}


def test_one_that_came_in_vain_is_waited_for_again() -> None:
    turns = Turns(1)
    turns.ask(a=5)
    turns.ask(limited=5)
    turns.end()
    turns.slots.take_one()  # a suspect, out of turn
    assert turns.ask(limited=5) == {}
    turns.seconds += 10 * TAKEN_WITHIN
    turns.slots.give_back(1)

    assert turns.ask(a=5) == {}
    assert turns.ask(limited=5) == {"limited": 1}


def test_a_group_without_work_does_not_stand_in_line() -> None:
    turns = Turns(1)
    turns.ask(a=5)
    assert turns.ask({"idle"}, b=5, idle=1) == {}

    turns.end()

    assert turns.ask({"idle"}, b=5, idle=1) == {"b": 1}
    turns.end()
    assert turns.ask({"idle"}, idle=1) == {"idle": 1}


def test_a_group_that_can_take_none_leaves_the_line() -> None:
    turns = Turns(1)
    turns.ask(a=5)
    turns.ask(full=5)
    turns.end()
    turns.slots.leave(["full"])

    assert turns.ask(a=5) == {"a": 1}
