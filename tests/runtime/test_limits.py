"""Timeouts, cancels and lost claims: how a running handler is stopped."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.runtime.handler import Run
from mainspring.timing.backoff import intervals
from tests.runtime.stage import CLAIM_TIME, MILLISECOND, Stage, taken_over


async def test_an_async_handler_is_cancelled_at_its_timeout_and_fails(stage: Stage) -> None:
    async def endless(_: Delivery, __: Run) -> None:
        await asyncio.Event().wait()

    await stage.publish()
    async with stage.worker(stage.handler(endless, timeout=20 * MILLISECOND)):
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert (run.status, run.kind, run.error) == ("dead", "timeout", "TimedOut: it ran past its timeout of 0.02 s")


async def test_a_handler_that_swallows_its_cancellation_has_still_timed_out(stage: Stage) -> None:
    async def stubborn(_: Delivery, __: Run) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    await stage.publish()
    async with stage.worker(stage.handler(stubborn, timeout=20 * MILLISECOND)):
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert run.kind == "timeout"


async def test_a_timeout_ends_one_run_and_not_the_next_in_the_same_hand(stage: Stage) -> None:
    async def handle(_: Delivery, __: Run) -> None:
        if len(stage.calls) == 1:
            await asyncio.Event().wait()
        async with asyncio.timeout(60):
            await asyncio.sleep(0)

    await stage.publish(5)
    # Much more than the others need, on however busy a machine.
    async with stage.worker(stage.handler(handle, timeout=timedelta(seconds=1), concurrency=1)):
        await stage.until(stage.empty)

    assert len(await stage.browse("dead")) == 1
    assert len(stage.calls) == 5


async def test_a_thread_past_its_timeout_is_told_keeps_its_claim_and_then_fails(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def slow(_: Delivery, run: Run) -> None:
        assert run.stopped.wait(60)

    await stage.publish()
    async with stage.worker(stage.handler(slow, threaded=True, timeout=20 * MILLISECOND, concurrency=1)):
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert run.kind == "timeout"
    assert len(stage.calls) == 1
    assert "exceeded its timeout" in caplog.text


async def test_a_running_handler_is_told_that_it_was_cancelled(stage: Stage) -> None:
    async def endless(_: Delivery, __: Run) -> None:
        await asyncio.Event().wait()

    [message_id] = await stage.publish()
    async with stage.worker(stage.handler(endless, retry=intervals(0)), claim_time=CLAIM_TIME):
        await stage.until(lambda: len(stage.calls) == 1)
        answer = await stage.storage.mailbox.cancel(message_id, "not wanted")
        assert (answer.cancelled, answer.asked) == (0, 1)
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert (run.status, run.error) == ("cancelled", "cancelled while running")


async def test_a_handler_that_finishes_although_asked_to_stop_has_its_say(stage: Stage) -> None:
    def finishes(_: Delivery, run: Run) -> None:
        assert run.stopped.wait(60)

    [message_id] = await stage.publish()
    handler = stage.handler(finishes, threaded=True, keep="all", concurrency=1)
    async with stage.worker(handler, claim_time=CLAIM_TIME):
        await stage.until(lambda: len(stage.calls) == 1)
        await stage.storage.mailbox.cancel(message_id, "not wanted")
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert run.status == "done"


async def test_a_lost_claim_cancels_the_handler_and_writes_nothing(stage: Stage) -> None:
    ended = asyncio.Event()

    async def endless(delivery: Delivery, _: Run) -> None:
        if delivery.epoch > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await stage.publish()
    async with stage.worker(stage.handler(endless), claim_time=CLAIM_TIME):
        await stage.until(lambda: len(stage.calls) == 1)
        # The claim is made to lapse and another takes it, as after a long freeze of this process.
        claim = stage.calls[0].claim
        suspect = await taken_over(stage, claim)
        async with asyncio.timeout(60):
            await ended.wait()
        [delivery] = await stage.browse("running")

    assert (delivery.held_by, delivery.attempt) == ("another", 2)
    assert suspect.claim == claim._replace(epoch=claim.epoch + 1)


async def test_a_blocked_event_loop_keeps_its_claims_and_is_reported_with_the_line(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("mainspring.runtime.keeper._LAG_REPORTED", 0.2)
    release = threading.Event()

    async def blocking(_: Delivery, __: Run) -> None:
        release.wait(2.5 * CLAIM_TIME.total_seconds())

    await stage.publish()
    async with stage.worker(stage.handler(blocking), claim_time=CLAIM_TIME):
        await stage.until(stage.empty)

    assert len(stage.calls) == 1
    assert "the event loop has been blocked" in caplog.text
    assert "release.wait" in caplog.text


async def test_a_claim_lost_while_it_waited_for_a_hand_is_not_run(stage: Stage) -> None:
    gate = asyncio.Event()

    async def handle(_: Delivery, __: Run) -> None:
        await gate.wait()

    # Half the hands are asked for at a time, so some wait in the queue of a worker whose loop has other things to do.
    ids = await stage.publish(2)
    worker = stage.make(stage.handler(handle, concurrency=2))
    await worker.start()
    await stage.until(lambda: len(stage.calls) == 2)
    [executor] = worker._executors
    late = await stage.publish()
    [delivery] = await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "us", timedelta(seconds=30))
    run = Run(delivery, executor.handler, 0.0)
    executor.put([run])
    executor.interrupt(run, "lost")
    gate.set()
    await executor.quiet()
    await worker.stop()

    assert {call.message_id for call in stage.calls} == set(ids)
    assert [each.message_id for each in await stage.browse("running")] == late
