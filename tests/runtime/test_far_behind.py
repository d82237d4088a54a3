"""Hundreds of schedules that nobody has looked at for a week, and looks that are too much for the database."""

from typing import Any

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.schedule import ScheduleTick
from mainspring.runtime.schedules.plan import Plan
from tests.runtime.scheduling import HOUR, HOURLY, NOON, Scene


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.prepare()
    return scene


async def test_a_look_counts_no_more_than_it_can_however_many_are_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = {**HOURLY, "rhythm": "* * * * *"}
    for n in range(100):
        await scene.put(f"often.{n}", definition=often, next_at=NOON - 7 * 24 * HOUR)
    asked = 0
    following = Plan.next

    def counted(self: Plan, after: Any) -> Any:
        nonlocal asked
        asked += 1
        return following(self, after)

    node = scene.node()
    await scene.storage.timetable.read()
    monkeypatch.setattr(Plan, "next", counted)

    await node.turn()

    rows = [await scene.row(f"often.{n}") for n in range(100)]
    assert {(row.fired, row.base_at) for row in rows} == {(1, NOON)}
    assert asked < 20_000  # 1,000,000 were they all counted


async def test_a_look_publishes_no_more_than_it_can_and_the_next_one_goes_on_at_once(scene: Scene) -> None:
    all_of_them = {**HOURLY, "rhythm": "* * * * *", "misfire": "all", "overlap": "allow", "catch_up": 100}
    for n in range(25):
        await scene.put(f"often.{n}", definition=all_of_them, next_at=NOON - 7 * 24 * HOUR)
    node = scene.node()

    seen = [(await node.turn(), len(await scene.due_times())) for _ in range(3)]

    assert seen == [(0.005, 1000), (0.005, 2000), (60.0, 2500)]
    assert {(await scene.row(f"often.{n}")).fired for n in range(25)} == {100}


async def test_a_look_that_is_too_much_for_the_database_is_a_smaller_one_the_next_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = scene.node()
    limits: list[int] = []
    is_away = True

    async def look(_app: str, _decide: object, limit: int, _leave: object) -> ScheduleTick:
        limits.append(limit)
        if is_away:
            raise StorageUnavailable("PostgreSQL did not answer in time")
        return ScheduleTick()

    monkeypatch.setattr(node.storage.timetable, "tick", look)
    for _ in range(7):
        with pytest.raises(StorageUnavailable):
            await node.turn()
    is_away = False
    for _ in range(11):
        await node.turn()

    assert limits == [500, 125, 31, 7, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500]
