"""Joins in a running worker: what follows is published as soon as the last member has ended, here or elsewhere."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.model.join import Join, JoinOutcome, follower_id, outcome
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.model.schedule import ScheduleTick
from mainspring.model.verdict import DONE, Settlement, Snooze
from mainspring.runtime.handler import Run
from tests.runtime.scheduling import HOUR, NOON, SECOND, Scene
from tests.runtime.stage import Stage


def join_of(group: str = "boss") -> Join:
    id = uuid4()
    return Join(id, Draft(id, group, b"{}", group=group), Draft(id, group, b"{}", group=group))


def members(count: int, group: str = "work") -> list[Draft]:
    return [Draft(uuid4(), group, b"{}", group=group) for _ in range(count)]


async def succeed(_delivery: Delivery, _run: Run) -> None: ...


async def test_the_end_of_the_last_member_here_wakes_the_scheduler(stage: Stage) -> None:
    """It would sleep for minutes otherwise."""
    told: list[JoinOutcome | None] = []

    async def follow(delivery: Delivery, _run: Run) -> None:
        told.append(outcome(delivery))

    handlers = stage.handler(succeed), stage.handler(follow, group="boss")
    async with stage.worker(*handlers, idle_poll=timedelta(minutes=5)):
        join = join_of()
        await stage.storage.mailbox.join(join, members(10))
        await stage.until(lambda: bool(told))

    assert told == [JoinOutcome(join.id, done=10, failed=0)]
    assert sum(each.group == "work" for each in stage.calls) == 10


async def test_one_that_comes_back_is_waited_for(stage: Stage) -> None:
    async def later(delivery: Delivery, _run: Run) -> object:
        return Snooze(timedelta(milliseconds=20)) if len(stage.calls) < 3 else None

    followed: list[UUID] = []

    async def follow(delivery: Delivery, _run: Run) -> None:
        followed.append(delivery.message_id)

    async with stage.worker(stage.handler(later), stage.handler(follow, group="boss"), idle_poll=timedelta(minutes=5)):
        join = join_of()
        await stage.storage.mailbox.join(join, members(1))
        await stage.until(lambda: bool(followed))

    assert followed == [follower_id(join.id)]
    assert [each.group for each in stage.calls] == ["work"] * 3 + ["boss"]


async def test_what_has_ended_elsewhere_is_found_by_the_next_look() -> None:
    scene = Scene()
    await scene.prepare()
    node = scene.node(longest_poll=5 * SECOND)
    await scene.storage.mailbox.join(join_of("work"), members(1))
    (delivery,) = await scene.storage.mailbox.claim([ClaimRequest("work", 10, ALL_LEVELS)], "another node", HOUR)
    await node.turn()

    await scene.storage.mailbox.settle([Settlement(delivery.claim, DONE, member=True)], "another node")
    pause = await node.turn()

    assert (pause, node.published) == (5.0, 1)
    assert await scene.due_times() == [NOON]


async def test_it_looks_again_at_once_while_there_is_more_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    await scene.prepare()
    node = scene.node(longest_poll=HOUR)

    async def more(*_: object) -> ScheduleTick:
        return ScheduleTick(more=True)

    monkeypatch.setattr(node.scheduler._timetable, "tick", more)

    assert await node.turn() == 0.005
    # Somebody has it locked, and may for long.
    assert [await node.turn() for _ in range(6)] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.25]
