"""A worker whose consumers share its slots: never more at once, each group in turn, and none is forgotten."""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring.model.limits import Limits
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Batching, Handler, Run
from mainspring.runtime.worker import Worker
from mainspring.timing.backoff import intervals
from tests.runtime.stage import CLAIM_TIME, MILLISECOND, Stage

HOUR = timedelta(hours=1)
ONE_KEY_AT_A_TIME = Limits(ordered=True)


@pytest.fixture
def _never_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is woken by time alone, instead of by a free slot, would wait for an hour."""
    monkeypatch.setattr("mainspring.runtime.wakeup._FIRST_POLL", 3600.0)
    monkeypatch.setattr("mainspring.runtime.wakeup._WARM_PAUSE", 3600.0)
    monkeypatch.setattr("mainspring.runtime.fetchers._ROUSE_AFTER", 3600.0)
    for module in ("fetcher", "slots"):
        monkeypatch.setattr(f"mainspring.runtime.{module}.TAKEN_WITHIN", 3600.0)
    monkeypatch.setattr("mainspring.runtime.fetcher.FULL_AFTER_SHORT", 0.0)


async def nothing(_: Delivery, __: Run) -> None:
    """Handle it."""


class Load:
    """Handlers of several groups, and how much of it was in the worker at once."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.worker: Worker | None = None
        self.most = 0
        self.most_in_hand = 0

    def watched(self) -> None:
        assert self.worker is not None
        begun = sum(each.begun for each in self.worker._executors)
        self.most = max(self.most, begun)
        self.most_in_hand = max(self.most_in_hand, self.worker.in_hand)

    async def brief(self, delivery: Delivery, _: Run) -> None:
        self.watched()
        await asyncio.sleep(0.002 * (delivery.claim.id % 3))
        self.watched()

    def in_a_thread(self, _: Delivery, __: Run) -> None:
        self.watched()

    async def batch(self, _: Delivery, __: Run) -> None:
        self.watched()
        await asyncio.sleep(0.001)

    def handlers(self) -> list[Any]:
        handler = self.stage.handler
        return [
            handler(self.brief, group="plain", concurrency=100),
            handler(self.brief, group="narrow", concurrency=2),
            handler(self.in_a_thread, group="thread", concurrency=10, threaded=True),
            handler(self.brief, group="ordered", concurrency=10, limits=ONE_KEY_AT_A_TIME),
            handler(self.brief, group="limited", concurrency=10, limits=Limits(global_concurrency=4)),
            handler(self.batch, group="batch", concurrency=2, batching=Batching(4, 0.005)),
        ]


async def publish(stage: Stage, group: str, count: int) -> None:
    drafts = [Draft(uuid.uuid4(), group, b"{}", key=f"k{number % 7}") for number in range(count)]
    await stage.storage.mailbox.publish(drafts)


def groups(calls: Sequence[Delivery]) -> list[str]:
    return [each.group for each in calls]


@pytest.mark.parametrize("most", [1, 3, 7, 64])
async def test_there_is_never_more_at_once_than_the_cap(stage: Stage, most: int) -> None:
    load = Load(stage)
    handlers = [each for each in load.handlers() if each.batching is None or most >= each.batching.size]
    await stage.declare(*(each.group for each in handlers))
    for each in handlers:
        await publish(stage, each.group, 60)

    load.worker = stage.make(*handlers, concurrency=most)
    await load.worker.start()
    try:
        await stage.until(stage.empty)
    finally:
        await load.worker.stop()

    assert len(stage.calls) >= 60 * (len(handlers) - 1)
    assert 1 <= load.most <= most
    assert load.most_in_hand <= 2 * most


@pytest.mark.usefixtures("_never_by_chance")
@pytest.mark.parametrize("limits", [(None, None), (None, ONE_KEY_AT_A_TIME), (ONE_KEY_AT_A_TIME, ONE_KEY_AT_A_TIME)])
async def test_two_groups_take_turns_for_one_slot(stage: Stage, limits: tuple[Limits | None, Limits | None]) -> None:
    handlers = [
        stage.handler(nothing, group=group, concurrency=20, limits=each)
        for group, each in zip(("busy", "other"), limits, strict=True)
    ]
    await stage.declare("busy", "other")
    await publish(stage, "busy", 40)
    await publish(stage, "other", 40)

    async with stage.worker(*handlers, concurrency=1, idle_poll=HOUR):
        await stage.until(stage.empty)

    called = groups(stage.calls)
    assert len(called) == 80
    # Each in turn, but for the first few, when one fetcher may have found that the other has not asked yet.
    turns = called[4:76]
    assert all(before != after for before, after in itertools.pairwise(turns)), called


@pytest.mark.usefixtures("_never_by_chance")
async def test_the_end_of_a_run_wakes_the_group_that_found_no_slot(stage: Stage) -> None:
    gates = {group: asyncio.Event() for group in ("first", "second")}

    async def hold(delivery: Delivery, _: Run) -> None:
        await gates[delivery.group].wait()

    await stage.declare("first", "second", "quick")
    # Each has a fetcher of its own, and the first nothing more to do: its end wakes no fetcher for its own sake.
    handlers = [stage.handler(hold, group=group, limits=ONE_KEY_AT_A_TIME) for group in gates]
    async with stage.worker(*handlers, stage.handler(nothing, group="quick"), concurrency=2, idle_poll=HOUR) as worker:
        await stage.until(lambda: all(each.idle_for > 0.02 for each in worker.progress().values()))
        for group in gates:
            await publish(stage, group, 1)
            await stage.until(lambda group=group: group in groups(stage.calls))  # type: ignore[misc]
        await publish(stage, "quick", 2)
        slots = worker._fetchers._slots
        assert slots is not None
        await stage.until(lambda: "quick" in slots._line)
        gates["first"].set()
        await stage.until(lambda: groups(stage.calls).count("quick") == 2, patience=15)
        gates["second"].set()
        await stage.until(stage.empty)


async def test_what_comes_due_in_an_idle_group_gets_its_turn_beside_a_busy_one(stage: Stage) -> None:
    async def briefly(_: Delivery, __: Run) -> None:
        await asyncio.sleep(0.001)

    await stage.declare("busy", "idle")
    await publish(stage, "busy", 400)
    await stage.publish(topic="idle", delay=50 * MILLISECOND)
    handlers = [stage.handler(briefly, group="busy"), stage.handler(nothing, group="idle")]

    async with stage.worker(*handlers, concurrency=1, idle_poll=HOUR):
        await stage.until(lambda: "idle" in groups(stage.calls))
        before = len(stage.calls)

    assert before < 400


async def test_groups_without_work_cost_a_busy_one_few_trips(stage: Stage) -> None:
    trips: list[list[str]] = []
    mailbox = stage.storage.mailbox
    claim = mailbox.claim

    async def counted(wants: Sequence[ClaimRequest], *rest: Any) -> Sequence[Delivery]:
        trips.append([want.group for want in wants])
        return await claim(wants, *rest)

    idle = [f"idle{number}" for number in range(20)]
    await stage.declare("busy", *idle)
    handlers = [stage.handler(nothing, group=group, concurrency=1) for group in ("busy", *idle)]
    await publish(stage, "busy", 300)
    mailbox.claim = counted  # type: ignore[method-assign,assignment]

    async with stage.worker(*handlers, concurrency=1):
        await stage.until(lambda: len(stage.calls) == 300)

    with_work = sum("busy" in groups for groups in trips)
    assert with_work >= 300
    assert len(trips) - with_work < 0.5 * with_work


async def test_suspects_are_taken_within_the_cap(stage: Stage) -> None:
    load = Load(stage)
    await stage.declare("plain", "ordered")
    for group in ("plain", "ordered"):
        await publish(stage, group, 3)
        claimed = await stage.storage.mailbox.claim([ClaimRequest(group, 3, ALL_LEVELS)], "gone", timedelta())
        assert len(claimed) == 3
    await publish(stage, "plain", 20)

    handlers = [each for each in load.handlers() if each.group in ("plain", "ordered")]
    load.worker = stage.make(*handlers, concurrency=1, claim_time=CLAIM_TIME)
    await load.worker.start()
    try:
        await stage.until(stage.empty)
    finally:
        await load.worker.stop()

    assert len(stage.calls) == 26
    assert load.most == 1


async def test_a_run_that_was_asked_for_here_and_now_needs_no_slot(stage: Stage) -> None:
    release = asyncio.Event()

    async def hold(_: Delivery, __: Run) -> None:
        await release.wait()

    await stage.declare("slow", "wanted")
    await publish(stage, "slow", 2)
    handlers = [stage.handler(hold, group="slow"), stage.handler(nothing, group="wanted")]
    async with stage.worker(*handlers, concurrency=1) as worker:
        await stage.until(lambda: groups(stage.calls) == ["slow"])
        [message_id] = await stage.publish(topic="wanted")
        assert await worker.take(message_id, "wanted")
        await stage.until(lambda: groups(stage.calls) == ["slow", "wanted"])
        release.set()
        await stage.until(stage.empty)


class Batches:
    """Handlers of batches of four that linger for an hour, and how many messages each call had."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.sizes: list[int] = []

    def handler(self, group: str) -> Handler:
        return self.stage.handler(self._handle, group=group, batching=Batching(4, HOUR.total_seconds()))

    async def _handle(self, _: Delivery, run: Run) -> None:
        assert isinstance(run, Batch)
        self.sizes.append(len(run.runs))


async def test_batches_that_have_all_slots_do_not_linger(stage: Stage) -> None:
    batches = Batches(stage)
    await stage.declare("one", "two", "plain")
    await publish(stage, "one", 20)
    await publish(stage, "two", 20)
    handlers = [batches.handler("one"), batches.handler("two"), stage.handler(nothing, group="plain")]

    async with stage.worker(*handlers, concurrency=4):
        # The last may linger: they leave a slot free.
        await stage.until(lambda: sum(batches.sizes) > 40 - 4, patience=15)
        await publish(stage, "plain", 1)
        await stage.until(lambda: "plain" in groups(stage.calls), patience=15)


async def test_a_batch_as_large_as_the_cap_does_not_wait_for_the_run_of_another_consumer(stage: Stage) -> None:
    batches, release = Batches(stage), asyncio.Event()

    async def hold(_: Delivery, __: Run) -> None:
        await release.wait()

    await stage.declare("slow", "batch")
    await publish(stage, "slow", 1)
    async with stage.worker(stage.handler(hold, group="slow"), batches.handler("batch"), concurrency=4):
        await stage.until(lambda: groups(stage.calls) == ["slow"])
        await publish(stage, "batch", 4)
        await stage.until(lambda: batches.sizes[:1] == [3], patience=15)
        release.set()


async def test_a_batch_lingers_while_a_slot_is_free_and_runs_once_none_was(stage: Stage) -> None:
    batches = Batches(stage)
    await stage.declare("batch", "brief")
    async with stage.worker(batches.handler("batch"), stage.handler(nothing, group="brief"), concurrency=4) as worker:
        await publish(stage, "batch", 3)
        worker.wake()
        waiting = worker._by_group["batch"]
        await stage.until(lambda: waiting.begun == 3 and worker.progress()["fetcher"].idle_for > 0.02)
        assert batches.sizes == []
        # It takes the last slot, and has ended before a coroutine can take the batch.
        await publish(stage, "brief", 1)
        worker.wake()
        await stage.until(lambda: batches.sizes == [3], patience=15)


async def test_a_thread_that_cannot_be_stopped_keeps_its_slot(stage: Stage) -> None:
    release = threading.Event()

    def hang(_: Delivery, __: Run) -> None:
        release.wait(60)

    await stage.declare("hanging", "other")
    hanging = stage.handler(
        hang, group="hanging", threaded=True, timeout=10 * MILLISECOND, retry=intervals(MILLISECOND)
    )
    await publish(stage, "hanging", 1)
    async with stage.worker(hanging, stage.handler(nothing, group="other"), concurrency=1) as worker:
        await stage.until(lambda: bool(worker.overrunning()) or bool(worker._by_group["hanging"].running()))
        await publish(stage, "other", 1)
        worker.wake()
        await stage.until(lambda: worker.progress()["fetcher"].idle_for > 0.05)
        assert groups(stage.calls) == ["hanging"]
        release.set()
        await stage.until(lambda: "other" in groups(stage.calls))


async def test_a_worker_that_drained_takes_up_its_work_again(stage: Stage) -> None:
    await stage.declare("one", "two")
    handlers = [stage.handler(nothing, group="one"), stage.handler(nothing, group="two", limits=ONE_KEY_AT_A_TIME)]
    async with stage.worker(*handlers, concurrency=1) as worker:
        worker._fetchers.drain(drains=True)
        await publish(stage, "one", 5)
        await publish(stage, "two", 5)
        worker.wake()
        worker._fetchers.drain(drains=False)
        await stage.until(stage.empty)

    assert len(stage.calls) == 10


async def test_a_failed_claim_gives_its_slots_back(stage: Stage) -> None:
    mailbox, claim, failures = stage.storage.mailbox, stage.storage.mailbox.claim, [3]

    async def failing(*given: Any) -> Sequence[Delivery]:
        if failures[0]:
            failures[0] -= 1
            raise ConnectionError("the database is away")
        return await claim(*given)

    await publish(stage, "work", 5)
    mailbox.claim = failing  # type: ignore[method-assign,assignment]
    async with stage.worker(stage.handler(nothing, concurrency=10), concurrency=1):
        await stage.until(stage.empty)

    assert len(stage.calls) == 5
