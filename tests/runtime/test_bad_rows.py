"""A row that nobody can follow, and one that somebody else has in hand: neither is anybody else's trouble."""

from typing import Any

import pytest

from mainspring.model.schedule import ScheduleTick
from mainspring.runtime import scheduler
from mainspring.runtime.schedules.decisions import decide
from tests.runtime.scheduling import HOURLY, NOON, SECOND, Scene


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.prepare()
    return scene


@pytest.mark.parametrize(
    "wrong",
    [
        {"unreadable": "{"},
        {"priority": 99},
        {"jitter": 1e300},
        {"misfire_after": 1e300},
        {"catch_up": 0},
        {"start": "2026-01-01T00:00:00"},
        {"rhythm": 5},
    ],
    ids=str,
)
async def test_a_row_that_cannot_be_followed_stops_no_other(
    scene: Scene, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await scene.put("bad", definition={**HOURLY, **wrong})
    await scene.put("sound")
    node = scene.node(added=HOURLY)

    await node.turn()

    assert (await scene.row("sound")).fired == 1
    assert (await scene.row("added")).next_at is not None
    assert (await scene.row("bad")).fired == 0
    assert "schedule bad: " in caplog.text


async def test_whatever_goes_wrong_with_a_row_is_its_own(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(plan: Any, due: Any, now: Any, counted: int, **options: Any) -> Any:
        if due.schedule.name == "bad":
            raise OverflowError("date value out of range")
        return decide(plan, due, now, counted, **options)

    monkeypatch.setattr(scheduler, "decide", fails)
    await scene.put("bad")
    await scene.put("sound")

    await scene.node().turn()

    assert (await scene.row("sound")).fired == 1
    assert (await scene.row("bad")).fired == 0


async def test_what_another_has_in_hand_is_asked_for_less_and_less_often(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = scene.node(longest_poll=5 * SECOND)
    await node.turn()
    answers = [ScheduleTick(next_in=-n * SECOND) for n in range(9)]

    async def look(*_: object) -> ScheduleTick:
        return answers.pop(0)

    # What the lock of another looks like from here.
    monkeypatch.setattr(node.storage.timetable, "tick", look)

    pauses = [await node.turn() for _ in range(8)]
    assert pauses == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25]

    answers[:] = [ScheduleTick(moved=1, next_in=SECOND), ScheduleTick(next_in=NOON - NOON)]
    assert [await node.turn() for _ in range(2)] == [1.0, 0.005]
