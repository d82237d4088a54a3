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
        self.groups: set[str] = set()

    def listen(self, rung: Callable[[str], None]) -> None:
        self.asked.append("listen")

    async def arm(self, groups: Collection[str]) -> None:
        self.asked.append("arm")
        self.groups = set(groups)

    async def disarm(self, groups: Collection[str]) -> None:
        self.asked.append("disarm")

    async def ring(self) -> None:
        self.asked.append("ring")


class Box:
    """A mailbox in which the next delivery is due when the test says."""

    def __init__(self) -> None:
        self.next_due: timedelta | None = None

    async def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> timedelta | None:
        return self.next_due


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def clock() -> HandClock:
    return HandClock(datetime(2026, 1, 1, tzinfo=UTC))


def wakeup(box: Any, bell: Any, clock: HandClock) -> Wakeup:
    return Wakeup(box.upcoming, bell, timedelta(seconds=5), clock)


async def test_going_idle_it_arms_the_bell_looks_everywhere_once_more_and_only_then_sleeps(
    box: Box, clock: HandClock
) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)

    assert await idle.rest(1.0, ["g"]) == (0.0, True)
    assert await idle.rest(1.0, ["g"]) == (0.25, False)
    assert bell.asked == ["arm"]


async def test_in_a_stream_of_work_it_looks_often_and_arms_nothing(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.worked(1.0)
    await idle.worked(1.02)

    assert await idle.rest(1.02, ["g"]) == (0.005, False)
    assert await idle.rest(1.06, ["g"]) == (0.005, False)
    assert bell.asked == []


async def test_after_a_lone_message_it_arms_at_once(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.worked(1.0)

    assert await idle.rest(1.0, ["g"]) == (0.0, True)
    assert bell.asked == ["arm"]


async def test_work_disarms_the_bell_so_that_publishers_stop_ringing(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.rest(1.0, ["g"])
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
    await idle.rest(1.0, ["g"])

    assert [(await idle.rest(1.0, ["g"]))[0] for _ in pauses] == pauses


async def test_it_never_sleeps_past_the_next_due_instant_nor_past_what_it_handed_back(
    box: Box, clock: HandClock
) -> None:
    idle = wakeup(box, Bell(), clock)
    await idle.rest(0.0, ["g"])
    box.next_due = timedelta(milliseconds=120)
    assert (await idle.rest(0.0, ["g"]))[0] == pytest.approx(0.12)

    idle.returns(timedelta(milliseconds=30))
    assert (await idle.rest(0.0, ["g"]))[0] == pytest.approx(0.03)


async def test_what_came_due_since_the_claim_does_not_wait_for_the_poll(box: Box, clock: HandClock) -> None:
    idle = wakeup(box, Bell(), clock)
    await idle.rest(0.0, ["g"])
    box.next_due = timedelta(microseconds=-400)

    assert (await idle.rest(0.0, ["g"]))[0] == pytest.approx(0.002)


async def test_an_armed_bell_is_armed_again_before_it_forgets(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.rest(1.0, ["g"])
    await idle.rest(20.0, ["g"])
    await idle.rest(21.5, ["g"])

    assert bell.asked == ["arm", "arm"]


async def test_short_claims_keep_a_little_distance_however_often_they_are_woken(box: Box, clock: HandClock) -> None:
    idle = wakeup(box, Bell(), clock)
    assert idle.spacing(0.0005) == 0.0

    await idle.rest(1.0, ["g"])

    assert idle.spacing(0.0005) == pytest.approx(0.0015)
    assert idle.spacing(0.01) == 0.0


async def test_a_bell_that_another_worker_answers_is_left_alone_for_a_while(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)
    await idle.rest(1.0, ["g"])
    await idle.rest(1.0, ["g"])
    idle.rung()

    assert await idle.rest(2.0, ["g"]) == (0.25, False)
    assert (await idle.rest(2.1, ["g"]))[0] == pytest.approx(0.15)
    assert await idle.rest(2.3, ["g"]) == (0.0, True)
    idle.rung()
    assert (await idle.rest(3.0, ["g"]))[0] == 0.25
    assert (await idle.rest(3.4, ["g"]))[0] == pytest.approx(0.1)
    assert bell.asked == ["arm", "disarm", "arm", "disarm"]


async def test_holding_off_it_still_wakes_for_what_is_due(box: Box, clock: HandClock) -> None:
    idle = wakeup(box, Bell(), clock)
    await idle.rest(1.0, ["g"])
    idle.rung()
    box.next_due = timedelta(milliseconds=20)

    assert (await idle.rest(2.0, ["g"]))[0] == pytest.approx(0.02)


async def test_nobody_is_asked_to_ring_for_a_group_that_has_its_hands_full(box: Box, clock: HandClock) -> None:
    bell = Bell()
    idle = wakeup(box, bell, clock)

    await idle.rest(1.0, ["idle"])
    await idle.rest(1.0, ["idle"])
    assert (bell.asked, bell.groups) == (["arm"], {"idle"})

    assert await idle.rest(2.0, ["idle", "was busy"]) == (0.0, True)
    assert (bell.asked, bell.groups) == (["arm", "arm"], {"idle", "was busy"})
