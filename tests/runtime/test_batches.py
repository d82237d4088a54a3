"""Batches: gathered for a moment, handed over together, settled one by one."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Retry, Settlement, Snooze
from mainspring.runtime.batch import Batch, outcomes
from mainspring.timing.backoff import intervals
from tests.runtime.batching import Batches, is_dead, is_held, nothing, opened, states
from tests.runtime.stage import Stage

ACCEPTED = (
    "an outcome for each of them, in their order: None, Done(…), Snooze(…), Cancel(…), Retry(…), Bury(…) "
    "or an exception"
)


async def test_a_batch_waits_until_it_is_full(stage: Stage) -> None:
    work = Batches(nothing)
    async with stage.worker(work.handler):
        first = await stage.publish(2)
        await stage.until(lambda: is_held(stage, 2))
        assert work.seen == []
        first += await stage.publish()
        await stage.until(stage.empty)

    assert (work.sizes(), set(work.ids())) == ([3], set(first))


@pytest.mark.parametrize("linger", [0.0, 0.02])
async def test_a_batch_that_does_not_fill_is_handed_over_when_its_first_has_waited_long_enough(
    stage: Stage, linger: float
) -> None:
    work = Batches(nothing, size=1_000, linger=linger)
    await stage.publish(20)
    async with stage.worker(work.handler):
        await stage.until(stage.empty)
        await stage.publish()
        await stage.until(stage.empty)

    assert sum(work.sizes()) == 21
    assert work.sizes()[0] == 20  # one claim found them all, and they came at once


async def test_what_is_there_is_taken_up_to_the_size(stage: Stage) -> None:
    work = Batches(nothing, size=100, linger=0.0, concurrency=1)
    await stage.publish(150)
    async with stage.worker(work.handler):
        await stage.until(stage.empty)

    assert work.sizes() == [100, 50]


async def test_no_more_is_claimed_than_all_batches_can_hold(stage: Stage) -> None:
    gate = asyncio.Event()
    work = Batches(opened(gate), concurrency=2)
    await stage.publish(10)
    # What is claimed while it stops must not gather for as long as that.
    async with stage.worker(work.handler, grace=timedelta(minutes=10)) as worker:
        await stage.until(lambda: len(work.seen) == 2)
        worker.wake()
        for _ in range(10):
            await asyncio.sleep(0)
        held, ready = await stage.browse("running"), await stage.browse("ready")
        gate.set()

    assert (len(held), len(ready)) == (6, 4)


async def test_each_message_is_settled_by_what_the_handler_says_of_it(stage: Stage) -> None:
    def handle(batch: Batch) -> object:
        said: list[object] = [None, ValueError("bad"), Snooze("1h", "later"), Cancel("obsolete"), Done("five")]
        said += [Retry("2h", "busy"), Bury("unknown")]
        return said if batch.runs[0].delivery.attempt == 1 and len(batch.runs) == 7 else None

    work = Batches(handle, size=7, keep="all", retry=intervals("1h", "1h"))
    await stage.publish(7)
    async with stage.worker(work.handler):
        await stage.until(lambda: len(work.seen) == 1)
        await stage.until(lambda: is_held(stage, 0))

    of = work.ids()
    runs = {run.message_id: (run.status, run.error, run.output) for run in await stage.runs()}
    assert runs == {
        of[0]: ("done", None, None),
        of[1]: ("failed", "ValueError: bad", None),
        of[2]: ("snoozed", None, "later"),
        of[3]: ("cancelled", "obsolete", None),
        of[4]: ("done", None, "five"),
        of[5]: ("failed", "busy", None),
        of[6]: ("dead", "unknown", None),
    }
    assert await states(stage) == {of[1]: ("scheduled", 1), of[2]: ("scheduled", 0), of[5]: ("scheduled", 1)}


@pytest.mark.parametrize("threaded", [False, True])
async def test_what_the_handler_raises_fails_each_message_by_its_own_count(stage: Stage, threaded: bool) -> None:
    def handle(_: Batch) -> object:
        raise ValueError("all of it")

    work = Batches(handle, size=2, linger=0.02, threaded=threaded, retry=intervals(0))
    await stage.publish()
    [tried] = await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "other", timedelta(minutes=1))
    await stage.storage.mailbox.settle(
        [Settlement(tried.claim, Retry(timedelta(0), Failure("error", "before")))], "other"
    )
    await stage.publish()
    async with stage.worker(work.handler):
        await stage.until(lambda: is_dead(stage, 2))

    runs = sorted((run.attempt, run.status, run.error) for run in await stage.runs())
    assert runs == [
        (1, "failed", "ValueError: all of it"),
        (1, "failed", "before"),
        (2, "dead", "ValueError: all of it"),
        (2, "dead", "ValueError: all of it"),
    ]
    assert work.sizes() == [2, 1]


async def test_a_result_that_says_nothing_clear_fails_the_batch_and_says_why(stage: Stage) -> None:
    work = Batches(lambda _: [None], size=2)
    await stage.publish(2)
    async with stage.worker(work.handler):
        await stage.until(lambda: is_dead(stage, 2))

    errors = {run.error for run in await stage.runs()}
    assert errors == {f"TypeError: the handler of a batch returned a list of 1 for 2 messages: return {ACCEPTED}"}


def test_outcomes_are_one_for_all_or_one_for_each() -> None:
    error = ValueError()

    assert outcomes(None, 2) == [None, None]
    assert outcomes(Done("ok"), 2) == [Done("ok"), Done("ok")]
    assert outcomes(Cancel, 1) == [Cancel]
    assert outcomes((None, error), 2) == (None, error)
    with pytest.raises(TypeError, match=r"returned 3: return nothing when all is done, or a list"):
        outcomes(3, 2)
    with pytest.raises(TypeError, match=r"returned \{0: ValueError\(\)\}: return nothing"):
        outcomes({0: error}, 2)
    with pytest.raises(TypeError, match=r"returned False at \[1\]: an outcome is None, Done"):
        outcomes([None, False], 2)
    with pytest.raises(TypeError, match=r"returned <class 'ValueError'> at \[0\]"):
        outcomes([ValueError], 1)


async def test_an_outcome_that_cannot_be_read_fails_its_own_message_only(stage: Stage) -> None:
    work = Batches(lambda _: [None, Snooze("soon"), asyncio.CancelledError()], keep="all")
    await stage.publish(3)
    async with stage.worker(work.handler):
        await stage.until(lambda: is_dead(stage, 2))

    runs = {run.message_id: run.status for run in await stage.runs()}
    assert [runs[each] for each in work.ids()] == ["done", "dead", "dead"]
