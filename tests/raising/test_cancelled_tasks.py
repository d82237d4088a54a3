"""A worker's coroutine serves many messages: what one of them does to its task does not reach the next."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.model.message import Delivery
from mainspring.runtime.handler import Handler, Run
from tests.raising.test_loops import once
from tests.runtime.stage import Stage


def current() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_a_handler_that_cancels_its_own_task_and_returns_does_not_hit_the_message_after_it(stage: Stage) -> None:
    async def sly(_: Delivery, __: Run) -> None:
        if len(stage.calls) == 1:
            current().cancel()
            return
        await asyncio.sleep(0)

    await stage.publish(3)
    async with stage.worker(stage.handler(sly, concurrency=1)) as worker:
        await stage.until(stage.empty)
        await stage.until(lambda: worker.in_hand == 0)

    assert (len(stage.calls), await stage.browse("dead")) == (3, [])


async def test_a_handler_that_swallows_its_timeout_leaves_no_cancellation_behind(stage: Stage) -> None:
    found: list[int] = []

    async def stubborn(_: Delivery, __: Run) -> None:
        found.append(current().cancelling())
        if len(found) == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return

    await stage.publish(3)
    async with stage.worker(stage.handler(stubborn, concurrency=1, timeout=timedelta(milliseconds=50))):
        await stage.until(stage.empty)

    assert found == [0, 0, 0]
    assert len(await stage.browse("dead")) == 1  # the one that ran past its timeout


async def test_a_verdict_that_cannot_be_made_ready_is_a_failure_and_frees_its_hand(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: Delivery, __: Run) -> None:
        return None

    monkeypatch.setattr(Handler, "settlement", once(lambda: RuntimeError("no paper"), Handler.settlement))
    await stage.publish(3)
    async with stage.worker(stage.handler(nothing, concurrency=1)) as worker:
        await stage.until(stage.empty)
        await stage.until(lambda: worker.in_hand == 0)
        [executor] = worker._executors
        assert executor.free == 1

    [dead] = await stage.browse("dead")
    assert dead.error == "RuntimeError: no paper"
