"""Stopping in good order, in a hurry, and against handlers that do not want to."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from tests.runtime.stage import MILLISECOND, Stage


async def test_stopping_lets_what_runs_finish_and_hands_back_what_has_not_started(stage: Stage) -> None:
    gate = asyncio.Event()

    async def handle(_: Delivery, __: Run) -> None:
        await gate.wait()

    await stage.publish(10)
    worker = stage.make(stage.handler(handle, concurrency=3))
    await worker.start()
    await stage.until(lambda: len(stage.calls) == 3)
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0.02)
    assert not stopping.done()
    gate.set()
    await stopping

    left = await stage.browse("live")
    assert len(left) == 7
    assert {(each.state, each.attempt) for each in left} == {("ready", 0)}


async def test_what_a_claim_brings_that_was_on_its_way_is_handed_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = stage.storage.mailbox.claim
    claimed, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(*args: Any) -> list[Delivery]:
        taken = await claim(*args)
        if taken:
            claimed.set()
            await goes_on.wait()
        return taken

    monkeypatch.setattr(stage.storage.mailbox, "claim", slow)
    await stage.publish(2)
    worker = stage.make(stage.handler(_nothing))
    await worker.start()
    await claimed.wait()
    stopping = asyncio.create_task(worker.stop())
    await stage.until(lambda: not worker.ready)
    goes_on.set()
    await stopping

    assert stage.calls == []
    assert [(each.state, each.attempt) for each in await stage.browse("live")] == [("ready", 0), ("ready", 0)]


async def test_after_the_grace_handlers_are_cancelled_and_released_without_an_attempt(stage: Stage) -> None:
    async def endless(_: Delivery, __: Run) -> None:
        await asyncio.Event().wait()

    await stage.publish(2)
    worker = stage.make(stage.handler(endless), grace=50 * MILLISECOND)
    await worker.start()
    await stage.until(lambda: len(stage.calls) == 2)
    await worker.stop()

    assert [(each.state, each.attempt) for each in await stage.browse("live")] == [("ready", 0), ("ready", 0)]


async def test_a_second_stop_does_not_wait_for_the_grace(stage: Stage) -> None:
    async def endless(_: Delivery, __: Run) -> None:
        await asyncio.Event().wait()

    await stage.publish()
    worker = stage.make(stage.handler(endless), grace=timedelta(minutes=10))
    await worker.start()
    await stage.until(lambda: len(stage.calls) == 1)
    first = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await worker.stop_now()
        await first
        await worker.finished()

    assert [each.state for each in await stage.browse("live")] == ["ready"]


async def test_stop_returns_although_a_thread_never_does_and_its_claim_is_left_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.shutdown._LAST_VERDICTS", 0.1)
    release = threading.Event()

    def stuck(_: Delivery, __: Run) -> None:
        release.wait(100)

    await stage.publish()
    worker = stage.make(stage.handler(stuck, threaded=True, concurrency=1), grace=50 * MILLISECOND)
    await worker.start()
    await stage.until(lambda: len(stage.calls) == 1)
    await worker.stop()
    [held] = await stage.browse("live")
    release.set()

    # Had it been waited for, its verdict would have ended the delivery.
    assert held.state == "running"


async def test_a_worker_that_never_started_can_be_stopped(stage: Stage) -> None:
    worker = stage.make(stage.handler(lambda _, __: None))

    await worker.stop()
    await worker.stop()

    assert not worker.ready


async def test_a_worker_that_ends_in_good_order_leaves_the_roster_and_its_counts_stay(stage: Stage) -> None:
    await stage.publish(4)
    async with stage.worker(stage.handler(lambda _, __: None)):
        await stage.until(stage.empty)
        roster = await stage.storage.ledger.roster()
        assert len(roster.workers) == 1

    roster = await stage.storage.ledger.roster()
    [counts] = (await stage.storage.ledger.tally()).groups
    assert (roster.workers, counts.handled) == ((), 4)


@pytest.mark.parametrize("broken", ["beat", "deregister"])
async def test_a_fault_of_our_own_does_not_keep_a_worker_from_ending(
    stage: Stage, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fault(*_: object) -> None:
        raise TypeError("a mistake")

    monkeypatch.setattr(stage.storage.upkeep, broken, fault)
    await stage.publish(1)
    worker = stage.make(stage.handler(_nothing))
    await worker.start()
    await stage.until(lambda: len(stage.calls) == 1)

    async with asyncio.timeout(60):
        await worker.stop()
        await worker.finished()

    assert "a mistake" in caplog.text
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mainspring-")]


async def _nothing(_: Delivery, __: Run) -> None: ...
