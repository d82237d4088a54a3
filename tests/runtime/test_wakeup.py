"""When an idle worker looks again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.runtime.wakeup import Wakeup
from mainspring.storage.contract import BellMode
from mainspring.timing.clock import HandClock


class Bell:
    """A doorbell that writes down what it is asked."""

    def __init__(self, mode: BellMode = "notify") -> None:
        self.mode = mode
        self.asked: list[str] = []

    def listen(self, rung: Callable[[str], None]) -> None:
        self.asked.append("listen")

    async def arm(self, groups: Collection[str]) -> None:
        self.asked.append("arm")

    async def disarm(self, groups: Collection[str]) -> None:
        self.asked.append("disarm")

    async def ring(self) -> None:
        self.asked.append("ring")


class Box:
    """A mailbox in which the next delivery is due when the test says."""

    def __init__(self) -> None:
        self.next_due: timedelta | None = None

    async def upcoming(self, groups: Sequence[str]) -> timedelta | None:
        return self.next_due


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def clock() -> HandClock:
    return HandClock(datetime(2026, 1, 1, tzinfo=UTC))


def wakeup(box: Any, bell: Any, clock: HandClock) -> Wakeup:
    return Wakeup(box, bell, ["g"], timedelta(seconds=5), clock)


async def test_going_idle_it_arms_the_bell_looks_everywhere_once_more_and_only_then_sleeps(
    box: Box, clock: HandClock
) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)

    assert await idle.rest(1.0, found=False) == (0.0, True)
    assert await idle.rest(1.0, found=False) == (0.25, False)
    assert bell.asked == ["arm"]


async def test_while_work_was_just_there_it_looks_often_and_arms_nothing(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.worked(1.0)

    assert await idle.rest(1.0, found=True) == (0.005, False)
    assert await idle.rest(1.04, found=False) == (0.005, False)
    assert bell.asked == []


async def test_work_disarms_the_bell_so_that_publishers_stop_ringing(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.rest(1.0, found=False)
    await idle.worked(2.0)
    await idle.worked(2.1)

    assert bell.asked == ["arm", "disarm"]


@pytest.mark.parametrize(
    ("mode", "pauses"),
    [("notify", [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]), ("poll", [0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])],
)
async def test_polls_grow_long_only_while_a_bell_is_proven_alive(
    box: Box, clock: HandClock, mode: BellMode, pauses: list[float]
) -> None:
    idle = wakeup(box, Bell(mode), clock)
    await idle.rest(1.0, found=False)

    assert [(await idle.rest(1.0, found=False))[0] for _ in pauses] == pauses


async def test_it_never_sleeps_past_the_next_due_instant_nor_past_what_it_handed_back(
    box: Box, clock: HandClock
) -> None:
    idle = wakeup(box, Bell(), clock)
    await idle.rest(0.0, found=False)
    box.next_due = timedelta(milliseconds=120)
    assert (await idle.rest(0.0, found=False))[0] == pytest.approx(0.12)

    idle.returns(timedelta(milliseconds=30))
    assert (await idle.rest(0.0, found=False))[0] == pytest.approx(0.03)


async def test_an_armed_bell_is_armed_again_before_it_forgets(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.rest(1.0, found=False)
    await idle.rest(20.0, found=False)
    await idle.rest(21.5, found=False)

    assert bell.asked == ["arm", "arm"]


async def test_short_claims_keep_a_little_distance_however_often_they_are_woken(box: Box, clock: HandClock) -> None:
    idle = wakeup(box, Bell(), clock)
    assert idle.spacing(0.0005) == 0.0

    await idle.rest(1.0, found=False)

    assert idle.spacing(0.0005) == pytest.approx(0.0015)
    assert idle.spacing(0.01) == 0.0
