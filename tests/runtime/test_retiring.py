"""Schedules that no code has any more are retired; those of who was only away are not."""

from __future__ import annotations

import pytest

from tests.runtime.scheduling import HOUR, HOURLY, MINUTE, NOON, SECOND, Node, Scene

_DAILY = {**HOURLY, "rhythm": "0 14 * * *"}


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.prepare()
    return scene


async def _for_an_hour(scene: Scene, *nodes: Node) -> None:
    for _ in range(15):
        for node in nodes:
            await node.turn()
        scene.clock.advance(5 * MINUTE)


async def _both_away(scene: Scene) -> tuple[Node, Node]:
    """Two nodes that have worked for an hour, and reach nothing for two; one of them lacks the schedule."""
    has_it, lacks_it = scene.node(longest_poll=5 * SECOND, report=_DAILY), scene.node(longest_poll=5 * SECOND)
    await _for_an_hour(scene, has_it, lacks_it)
    scene.clock.advance(2 * HOUR)
    return has_it, lacks_it


async def test_nobody_retires_anything_after_an_outage_that_all_had(scene: Scene) -> None:
    has_it, lacks_it = await _both_away(scene)

    await lacks_it.turn()
    await has_it.turn()

    assert (await scene.row()).retired_at is None
    assert await scene.due_times() == [NOON + 2 * HOUR]  # made up for, as its policy says


async def test_what_stays_silent_for_an_hour_after_an_outage_is_retired(scene: Scene) -> None:
    _, lacks_it = await _both_away(scene)

    await _for_an_hour(scene, lacks_it)

    assert (await scene.row()).retired_at is not None


async def test_who_comes_back_brings_back_what_was_retired_meanwhile(scene: Scene) -> None:
    has_it, lacks_it = scene.node(longest_poll=5 * SECOND, report=_DAILY), scene.node(longest_poll=5 * SECOND)
    await has_it.turn()
    await _for_an_hour(scene, lacks_it)
    assert (await scene.row()).retired_at is not None

    await has_it.turn()
    await _for_an_hour(scene, has_it, lacks_it)

    assert (await scene.row()).retired_at is None
