"""The scheduler: how long it sleeps, what it does when it wakes, and who else does it too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.model.schedule import NEVER, Note, Rewrite, Schedule
from mainspring.model.verdict import Done, Settlement
from mainspring.testing.transaction import SilentBell
from tests.runtime.scheduling import HOUR, HOURLY, MINUTE, NOON, SECOND, Scene


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.prepare()
    return scene


async def test_it_sleeps_until_the_next_occurrence_and_no_longer(scene: Scene) -> None:
    node = scene.node(report=HOURLY, longest_poll=24 * HOUR)

    assert await node.turn() == 3600.0
    scene.clock.advance(25 * MINUTE)
    assert await node.turn() == 35 * 60.0
    scene.clock.advance(35 * MINUTE)
    assert await node.turn() == 3600.0
    assert await scene.due_times() == [NOON + HOUR]
    assert node.published == 1


async def test_it_never_sleeps_longer_than_the_longest_poll(scene: Scene) -> None:
    assert await scene.node(report=HOURLY, longest_poll=5 * SECOND).turn() == 5.0
    assert await scene.node(app="other", longest_poll=7 * SECOND).turn() == 7.0


async def test_a_bell_that_does_not_ring_has_it_look_every_second(scene: Scene) -> None:
    assert await scene.node(report=HOURLY, bell=SilentBell()).turn() == 1.0


async def test_it_looks_every_second_while_a_run_waits_for_one_that_may_end_elsewhere(scene: Scene) -> None:
    node = scene.node(report={**HOURLY, "overlap": "queue"}, longest_poll=24 * HOUR)
    await node.turn()
    for _ in range(2):
        scene.clock.advance(HOUR)
        pause = await node.turn()
    assert pause == 1.0
    (first,) = await scene.storage.mailbox.claim([ClaimRequest("work", 10, ALL_LEVELS)], "a worker", HOUR)

    await scene.storage.mailbox.settle([Settlement(first.claim, Done(), "all")], "a worker")
    pause = await node.turn()

    assert pause == 3600.0
    assert node.published == 3  # two occurrences, one release
    (second,) = await scene.storage.mailbox.claim([ClaimRequest("work", 10, ALL_LEVELS)], "a worker", HOUR)
    assert (second.scheduled_for, second.due_at < NEVER) == (NOON + 2 * HOUR, True)


async def test_the_end_of_a_run_wakes_it_only_if_somebody_waits(scene: Scene) -> None:
    node = scene.node(report={**HOURLY, "overlap": "queue"})
    async with node.running():
        node.scheduler.freed()
        await node.rests()
        assert node.turns == 1

        for turns in (2, 3):
            scene.clock.advance(HOUR)
            node.scheduler.wake()
            await node.until(turns)
        node.scheduler.freed()

        await node.until(4)


async def test_an_earlier_time_set_elsewhere_is_in_the_next_pause(scene: Scene) -> None:
    node = scene.node(report=HOURLY)
    assert await node.turn() == 3600.0

    await scene.edit(next_at=NOON + 3 * SECOND)

    assert await node.turn() == 3.0


async def test_a_frozen_scheduler_fires_nothing_and_sleeps(scene: Scene) -> None:
    node = scene.node(report=HOURLY, longest_poll=5 * SECOND)
    await node.turn()
    await scene.storage.timetable.freeze("app", "ann", "incident")
    scene.clock.advance(HOUR)

    assert await node.turn() == 5.0
    assert await scene.due_times() == []

    await scene.storage.timetable.thaw("app", "ann")
    await node.turn()
    assert await scene.due_times() == [NOON + HOUR]


async def test_any_number_of_schedulers_fire_every_occurrence_once(scene: Scene) -> None:
    allowing = {**HOURLY, "rhythm": "every 1m", "overlap": "allow"}
    nodes = [scene.node(report=allowing) for _ in range(4)]

    for _ in range(30):
        await asyncio.gather(*(node.turn() for node in nodes))
        scene.clock.advance(MINUTE)
    await asyncio.gather(*(node.turn() for node in nodes))

    assert await scene.due_times() == [NOON + n * MINUTE for n in range(1, 31)]
    assert (await scene.row()).fired == 30


async def test_another_node_takes_over_and_none_is_lost(scene: Scene) -> None:
    allowing = {**HOURLY, "rhythm": "every 1m", "overlap": "allow", "misfire": "all"}
    first = scene.node(report=allowing)
    await first.turn()
    scene.clock.advance(5 * MINUTE)
    await first.turn()

    second = scene.node(report=allowing)
    scene.clock.advance(20 * MINUTE)
    await second.turn()

    assert await scene.due_times() == [NOON + n * MINUTE for n in range(1, 26)]


async def test_what_several_nodes_start_with_is_written_once(scene: Scene) -> None:
    nodes = [scene.node(report=HOURLY) for _ in range(5)]

    await asyncio.gather(*(node.turn() for node in nodes))

    assert (await scene.row()).revision == 0


async def test_another_apps_schedules_are_left_alone(scene: Scene) -> None:
    await scene.put("theirs", app="billing")

    await scene.node(report=HOURLY).turn()

    assert await scene.due_times() == []
    assert (await scene.row("theirs")).next_at == NOON


async def test_what_cannot_be_followed_is_said_once_a_second_at_most_and_left_for_a_minute(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(5):
        await scene.put(f"broken.{n}", definition={**HOURLY, "timezone": "Mars/Olympus"})
    await scene.put("sound")
    node = scene.node(longest_poll=5 * SECOND)

    with caplog.at_level(logging.WARNING, "mainspring.worker"):
        for _ in range(59):
            assert await node.turn() == 5.0
            scene.clock.advance(SECOND)
        assert len(caplog.messages) == 1
        assert "timezone='Mars/Olympus' is not in the time zone database" in caplog.text
        scene.clock.advance(SECOND)
        await node.turn()

    assert len(caplog.messages) == 2
    assert "(4 similar lines were not logged)" in caplog.messages[1]
    assert await scene.due_times() == [NOON]
    assert (await scene.row("broken.0")).next_at == NOON


async def test_a_schedule_that_is_sound_again_goes_on(scene: Scene) -> None:
    await scene.put(definition={**HOURLY, "timezone": "Mars/Olympus"})
    node = scene.node()
    await node.turn()

    await scene.edit(definition=HOURLY)
    scene.clock.advance(timedelta(seconds=61))
    await node.turn()

    assert await scene.due_times() == [NOON]


async def test_a_row_that_is_locked_at_the_start_is_reconciled_a_moment_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = scene.node(report=HOURLY)
    timetable = node.scheduler._storage.timetable
    rewrite, asked = timetable.rewrite, list[bool]()

    async def locked_at_first(
        names: Sequence[str], how: Rewrite, note: Note | None = None, *, waits: bool = True
    ) -> list[Schedule | None]:
        asked.append(waits)
        return [None for _ in names] if len(asked) == 1 else await rewrite(names, how, note, waits=waits)

    monkeypatch.setattr(timetable, "rewrite", locked_at_first)
    pause = await node.turn()
    scene.clock.advance(timedelta(seconds=pause))
    await node.turn()

    assert pause == 1.0
    assert asked == [False, False]
    assert (await scene.row()).next_at is not None
