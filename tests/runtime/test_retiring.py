"""Schedules that no live worker has in its code are retired; those of a worker that was only away are not."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.model.worker import SILENT_AFTER
from tests.runtime.scheduling import HOUR, HOURLY, MINUTE, NOON, SECOND, Node, Scene

_DAILY = {**HOURLY, "rhythm": "0 14 * * *"}
_ROUND = 5 * SECOND


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.prepare()
    return scene


async def _rounds(scene: Scene, count: int, *nodes: Node) -> None:
    for _ in range(count):
        for node in nodes:
            await node.round()
        scene.clock.advance(_ROUND)


_LONG = int(SILENT_AFTER / _ROUND) + 13


async def test_a_worker_that_has_just_started_retires_what_its_predecessor_had(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = scene.node(report=HOURLY, kept=HOURLY), scene.node(kept=HOURLY)
    await _rounds(scene, 2, old)
    await old.stop()

    with caplog.at_level(logging.WARNING, "mainspring.scheduler"):
        await _rounds(scene, 2, new)

    assert (await scene.row()).retired_at is not None
    assert (await scene.row("kept")).retired_at is None
    why = "report: retired, since no worker of app has it in its code any more; "
    assert caplog.messages == [why + "its occurrences that had not begun are cancelled"]


async def test_a_worker_that_restarts_within_a_round_finds_its_schedules_as_they_were(scene: Scene) -> None:
    before, other = scene.node(report=HOURLY), scene.node()
    await _rounds(scene, 2, before, other)
    await before.stop()
    await _rounds(scene, 1, other)

    await _rounds(scene, 2, scene.node(report=HOURLY), other)

    assert (await scene.row()).revision == 0


async def test_the_first_turn_of_a_worker_is_no_second_round_after_its_start(scene: Scene) -> None:
    before, other = scene.node(report=HOURLY), scene.node(kept=HOURLY)
    await _rounds(scene, 2, before)
    await before.stop()  # it restarts

    await other.retiring.declare()  # as a worker does when it starts
    pause = await other.retiring.turn()

    assert (await scene.row()).retired_at is None
    assert 4 <= pause <= 5
    await _rounds(scene, 1, scene.node(report=HOURLY), other)
    assert (await scene.row()).revision == 0


async def test_one_that_an_older_node_still_has_stays_until_that_node_is_gone(scene: Scene) -> None:
    old, new = scene.node(version=1, report=HOURLY), scene.node(version=2)
    await _rounds(scene, _LONG, old, new)
    assert (await scene.row()).retired_at is None

    await old.stop()
    await _rounds(scene, 2, new)

    assert (await scene.row()).retired_at is not None


async def test_what_a_killed_worker_had_is_retired_by_one_that_was_there_all_the_time(scene: Scene) -> None:
    killed = scene.node(report=HOURLY)
    await killed.round()

    await _rounds(scene, _LONG - 13, scene.node())
    assert (await scene.row()).retired_at is None  # a worker that has just started cannot tell silence from an outage

    await _rounds(scene, _LONG, scene.node())
    assert (await scene.row()).retired_at is not None


async def _both_away(scene: Scene) -> tuple[Node, Node]:
    """Two nodes that have worked for a while, and reach nothing for two hours; one of them lacks the schedule."""
    has_it, lacks_it = scene.node(longest_poll=_ROUND, report=_DAILY), scene.node(longest_poll=_ROUND)
    await _rounds(scene, _LONG, has_it, lacks_it)
    scene.clock.advance(NOON + 2 * HOUR + MINUTE - scene.clock.now())
    return has_it, lacks_it


async def test_no_worker_retires_anything_after_an_outage_that_all_had(scene: Scene) -> None:
    has_it, lacks_it = await _both_away(scene)

    await _rounds(scene, 2, lacks_it)
    await _rounds(scene, 2, has_it)

    assert (await scene.row()).retired_at is None
    assert await scene.due_times() == [NOON + 2 * HOUR]  # made up for, as its policy says


async def test_what_stays_silent_after_an_outage_is_retired(scene: Scene) -> None:
    _, lacks_it = await _both_away(scene)

    await _rounds(scene, _LONG, lacks_it)

    assert (await scene.row()).retired_at is not None


@pytest.mark.parametrize(("away", "due"), [(30 * MINUTE, [NOON + 2 * HOUR]), (2 * HOUR, [])])
async def test_a_worker_that_comes_back_brings_back_what_was_retired_and_soon_enough_what_it_missed(
    scene: Scene, away: timedelta, due: list[datetime]
) -> None:
    has_it, lacks_it = scene.node(longest_poll=_ROUND, report=_DAILY), scene.node(longest_poll=_ROUND)
    scene.clock.advance(2 * HOUR - 10 * MINUTE)
    await has_it.round()
    await _rounds(scene, _LONG, lacks_it)
    assert (await scene.row()).retired_at is not None

    scene.clock.advance(away)
    await _rounds(scene, 2, has_it, lacks_it)

    assert (await scene.row()).retired_at is None
    assert await scene.due_times() == due


async def test_going_back_past_a_removal_brings_the_schedule_back_as_the_older_code_has_it(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for node in (scene.node(version=1, report=HOURLY), scene.node(version=2, report=_DAILY)):
        await _rounds(scene, 2, node)
        await node.stop()
    removed = scene.node(version=3)
    await _rounds(scene, 2, removed)
    await removed.stop()
    before = await scene.row()
    assert (before.version, before.retired_at is None) == (2, False)

    with caplog.at_level(logging.WARNING, "mainspring.scheduler"):
        await _rounds(scene, 2, scene.node(version=1, report=HOURLY))

    row = await scene.row()
    assert (row.version, row.retired_at, row.definition["rhythm"]) == (1, None, HOURLY["rhythm"])
    assert row.next_at == NOON + HOUR
    assert caplog.messages[1:] == ["report: no longer retired, since this worker of app has it in its code"]


@pytest.mark.parametrize("leaves", ["in good order", "killed"])
async def test_an_older_worker_does_not_bring_back_what_a_live_newer_one_has_retired(scene: Scene, leaves: str) -> None:
    old, new, newest = scene.node(version=1, report=HOURLY), scene.node(version=2, report=HOURLY), scene.node(version=3)
    await _rounds(scene, 2, old, new)
    await new.stop()
    before = await scene.row()

    await _rounds(scene, _LONG, newest, old)
    row = await scene.row()
    assert (row.retired_at is None, row.revision) == (False, before.revision + 1)  # once, and not back and forth

    if leaves == "in good order":
        await newest.stop()
    await _rounds(scene, 2, old)
    assert ((await scene.row()).retired_at is None) is (leaves == "in good order")

    await _rounds(scene, _LONG, old)
    assert (await scene.row()).retired_at is None

    await _rounds(scene, _LONG, scene.node(version=3), old)  # deployed again: while the old one has it, it stays
    assert (await scene.row()).retired_at is None


async def test_one_made_at_run_time_is_never_retired(scene: Scene) -> None:
    await scene.put("by.hand")

    await _rounds(scene, _LONG, scene.node())

    assert (await scene.row("by.hand")).retired_at is None


async def test_what_returns_during_a_reconcile_is_reconciled_in_the_next_turn(scene: Scene) -> None:
    node = scene.node(report=HOURLY)
    await node.round()
    timetable, reads = node.storage.timetable, 0

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(timetable, name)

        async def read(self, **which: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads == 1:
                node.scheduler.reconcile_soon(["report"])
            return await timetable.read(**which)

    node.scheduler._timetable = Interrupted()  # type: ignore[assignment]
    node.scheduler.reconcile_soon([])
    for expected in (1, 2, 2):
        await node.turn()
        assert reads == expected
