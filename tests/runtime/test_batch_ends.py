"""What ends a batch, or one message of it: suspects, lost claims, cancels, time limits, stops and breakers."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import timedelta

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.schedule import TIMEOUT_HEADER
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Run
from mainspring.timing.breaker import breaker
from tests.runtime.batching import LONG, Batches, is_dead, is_held, nothing, opened, states
from tests.runtime.stage import CLAIM_TIME, MILLISECOND, Stage, taken_over


async def test_a_suspect_runs_alone(stage: Stage) -> None:
    work = Batches(nothing, size=3, linger=0.02)
    await stage.publish(4)
    [suspect] = await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "died", timedelta(0))
    async with stage.worker(work.handler):
        await stage.until(stage.empty)

    assert sorted(work.sizes()) == [1, 3]
    assert [run.delivery.message_id for batch in work.seen for run in batch.runs if run.delivery.suspect] == [
        suspect.message_id
    ]


async def test_a_suspect_waits_for_no_batch_to_fill(stage: Stage) -> None:
    work = Batches(nothing)
    # So long that the claim of the one that gathers never lapses, on however busy a machine: it would be one, too.
    async with stage.worker(work.handler, claim_time=timedelta(minutes=5)):
        await stage.publish()
        await stage.until(lambda: is_held(stage, 1))
        await stage.publish()
        [suspect] = await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "died", timedelta(0))
        await stage.until(lambda: len(work.seen) == 1)

    assert work.ids() == [suspect.message_id]
    assert list((await states(stage)).values()) == [("ready", 0)]  # the other one was gathering all the time


async def test_a_handler_that_cancels_its_own_task_ends_no_worker(stage: Stage) -> None:
    def handle(_: Batch) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    work = Batches(handle, size=2, linger=0.0, concurrency=1)
    await stage.publish(6)
    async with stage.worker(work.handler):
        await stage.until(stage.empty)

    assert sum(work.sizes()) == 6


async def test_what_need_not_run_is_judged_alone_and_the_rest_is_handed_over(stage: Stage) -> None:
    gate = asyncio.Event()
    work = Batches(opened(gate), size=4)
    worker = stage.make(work.handler)
    [executor] = worker._executors
    await stage.publish(4)
    claimed = await stage.storage.mailbox.claim(
        [ClaimRequest("work", 4, ALL_LEVELS)], worker.owner, timedelta(minutes=1)
    )
    changed = [
        claimed[0]._replace(expired=True),
        claimed[1]._replace(deaths=3),
        claimed[2]._replace(cancel_asked=True),
        claimed[3],
    ]
    await worker.start()
    runs = [Run(delivery, work.handler, LONG) for delivery in changed]
    for run in runs:
        worker._in_hand.take(run)
    executor.put(runs)
    await stage.until(lambda: is_held(stage, 1))  # while the handler is still at it
    gate.set()
    await worker.stop()

    assert work.sizes() == [1]
    assert {run.message_id: (run.status, run.kind) for run in await stage.runs()} == {
        claimed[0].message_id: ("cancelled", None),
        claimed[1].message_id: ("dead", "poison"),
        claimed[2].message_id: ("cancelled", None),
    }


async def test_a_claim_that_is_lost_or_cancelled_is_its_own_affair(stage: Stage) -> None:
    async def handle(batch: Batch) -> list[Exception | None]:
        while sum(run.stop_reason is not None for run in batch.runs) < 2:
            await asyncio.sleep(0.002)
        return [None, ValueError("it was to stop"), None]

    work = Batches(handle, keep="all")
    await stage.publish(3)
    async with stage.worker(work.handler, claim_time=CLAIM_TIME):
        await stage.until(lambda: len(work.seen) == 1)
        lost, asked, kept = work.seen[0].runs
        await stage.storage.mailbox.cancel(asked.delivery.message_id, "not wanted")
        await taken_over(stage, lost.delivery.claim)
        await stage.until(lambda: is_held(stage, 1))
        [left] = await stage.browse("running")

    assert (left.message_id, left.held_by) == (lost.delivery.message_id, "another")
    assert {run.message_id: run.status for run in await stage.runs()} == {
        lost.delivery.message_id: "lost",
        asked.delivery.message_id: "cancelled",
        kept.delivery.message_id: "done",
    }
    assert (lost.stop_reason, asked.stop_reason, kept.stop_reason) == ("lost", "cancelled", None)
    assert work.seen[0].stop_reason is None


async def test_a_handler_is_cancelled_when_none_of_its_messages_is_wanted_any_more(stage: Stage) -> None:
    work = Batches(lambda _: asyncio.Event().wait(), size=2)
    ids = await stage.publish(2)
    async with stage.worker(work.handler, claim_time=CLAIM_TIME):
        await stage.until(lambda: len(work.seen) == 1)
        for message_id in ids:
            await stage.storage.mailbox.cancel(message_id, "not wanted")
        await stage.until(stage.empty)

    assert {run.status for run in await stage.runs()} == {"cancelled"}


async def test_the_time_limit_is_that_of_the_batch(stage: Stage) -> None:
    work = Batches(lambda _: asyncio.Event().wait(), timeout=20 * MILLISECOND)
    await stage.publish(3)
    async with stage.worker(work.handler):
        await stage.until(lambda: is_dead(stage, 3))

    assert {run.kind for run in await stage.runs()} == {"timeout"}
    assert {run.deadline for run in work.seen[0].runs} == {work.seen[0].deadline}


@pytest.mark.parametrize(("limits", "longest"), [(["0.001", "60", "5"], 60.0), (["0.001", "none", "60"], None)])
async def test_the_time_limit_of_occurrences_is_the_longest_of_them(
    stage: Stage, limits: list[str], longest: float | None
) -> None:
    given: list[float | None] = []

    def handle(batch: Batch) -> None:
        deadline = batch.deadline
        given.append(None if deadline is None else round(deadline - time.monotonic(), -1))

    work = Batches(handle)
    drafts = [
        Draft(uuid.uuid4(), "work", b"1", group="work", schedule=f"every-{limit}", headers={TIMEOUT_HEADER: limit})
        for limit in limits
    ]
    await stage.storage.mailbox.publish(drafts)
    async with stage.worker(work.handler):
        await stage.until(stage.empty)

    assert given == [longest]


async def test_stopping_hands_back_what_gathers_and_lets_what_runs_finish(stage: Stage) -> None:
    gate = asyncio.Event()
    work = Batches(opened(gate))
    await stage.publish(5)
    worker = stage.make(work.handler)
    await worker.start()
    await stage.until(lambda: is_held(stage, 5))
    await stage.until(lambda: len(work.seen) == 1)
    stopping = asyncio.create_task(worker.stop())
    await stage.until(lambda: is_held(stage, 3))
    gate.set()
    await stopping

    assert list((await states(stage)).values()) == [("ready", 0), ("ready", 0)]


async def test_after_the_grace_a_batch_is_cancelled_and_released_without_an_attempt(stage: Stage) -> None:
    work = Batches(lambda _: asyncio.Event().wait())
    await stage.publish(3)
    worker = stage.make(work.handler, grace=20 * MILLISECOND)
    await worker.start()
    await stage.until(lambda: len(work.seen) == 1)
    await worker.stop()

    assert list((await states(stage)).values()) == [("ready", 0)] * 3


async def test_a_breaker_counts_every_message(stage: Stage) -> None:
    work = Batches(lambda _: [ValueError(), None, ValueError(), ValueError()], size=4, breaker=breaker(3))
    await stage.publish(4)
    async with stage.worker(work.handler) as worker:
        await stage.until(lambda: is_dead(stage, 3))

        assert list(worker.pauses()) == ["work"]


async def test_progress_is_that_of_every_message_or_of_one(stage: Stage) -> None:
    def handle(batch: Batch) -> None:
        batch.report("halfway")
        batch.runs[0].report("done")

    work = Batches(handle)
    await stage.publish(3)
    async with stage.worker(work.handler):
        await stage.until(stage.empty)

    assert [run.progress for run in work.seen[0].runs] == ["done", "halfway", "halfway"]
