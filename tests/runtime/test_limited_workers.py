"""Workers of a consumer with limits: whatever may go goes at once, and nobody has to poll for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.runtime.handler import Run
from mainspring.storage.portable.limits import KEYS
from mainspring.timing.backoff import intervals
from tests.runtime.stage import MILLISECOND, Stage

ORDERED = Limits(ordered=True)
SKIPPING = Limits(ordered=True, on_failure="skip")
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _nobody_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has to be woken by a poll, or by the word that goes round now and then, would wait for an hour."""
    monkeypatch.setattr("mainspring.runtime.wakeup._FIRST_POLL", 3600.0)
    monkeypatch.setattr("mainspring.runtime.fetchers._ROUSE_AFTER", 3600.0)


async def put(stage: Stage, *keys: str | None) -> list[str]:
    """Publish one message under each of these keys, the payload its key and place."""
    drafts = [Draft(uuid.uuid4(), "work", f"{key}{place}".encode(), key=key) for place, key in enumerate(keys)]
    await stage.storage.mailbox.publish(drafts)
    return [each.payload.decode() for each in drafts]


def said(calls: Sequence[Delivery]) -> list[str]:
    return [each.payload.decode() for each in calls]


async def nothing(_: Delivery, __: Run) -> None:
    """Handle it."""


async def test_an_ordered_key_goes_on_as_soon_as_its_first_is_settled(stage: Stage) -> None:
    async with stage.worker(stage.handler(nothing, limits=ORDERED, concurrency=10), idle_poll=HOUR):
        sent = await put(stage, *["a"] * 20)
        await stage.until(stage.empty)

    assert said(stage.calls) == sent


async def test_one_that_waited_for_a_hand_and_for_its_key_gets_both(stage: Stage) -> None:
    running: set[str | None] = set()

    async def one_of_a_key(delivery: Delivery, _: Run) -> None:
        assert delivery.key not in running
        running.add(delivery.key)
        await asyncio.sleep(0)
        running.discard(delivery.key)

    sent = await put(stage, *(f"k{n % 3}" for n in range(30)))
    async with stage.worker(stage.handler(one_of_a_key, limits=ORDERED, concurrency=2), idle_poll=HOUR):
        await stage.until(stage.empty)

    assert [run.status for run in await stage.runs()] == []
    for key in ("k0", "k1", "k2"):
        assert [each for each in said(stage.calls) if each.startswith(key)] == [
            each for each in sent if each.startswith(key)
        ]


@pytest.mark.parametrize(("limits", "order"), [(ORDERED, "a0 a0 a1"), (SKIPPING, "a0 a1 a0")])
async def test_a_failed_first_of_a_key_is_tried_again_in_time(stage: Stage, limits: Limits, order: str) -> None:
    async def fail_once(delivery: Delivery, _: Run) -> None:
        if delivery.payload == b"a0" and delivery.attempt == 1:
            raise ValueError("not yet")

    handler = stage.handler(fail_once, limits=limits, concurrency=5, retry=intervals(50 * MILLISECOND))
    await put(stage, "a", "a")
    async with stage.worker(handler, idle_poll=HOUR):
        await stage.until(stage.empty)

    assert said(stage.calls) == order.split()


@pytest.mark.parametrize(
    "limits", [Limits(rate=Rate(2, 20 * MILLISECOND)), Limits(key_rate=Rate(1, 20 * MILLISECOND), ordered=True)]
)
async def test_a_rate_that_has_room_again_is_not_waited_for_any_longer(stage: Stage, limits: Limits) -> None:
    sent = await put(stage, "a", "a", "a", "a", "a")
    async with stage.worker(stage.handler(nothing, limits=limits, concurrency=5), idle_poll=HOUR):
        await stage.until(stage.empty)

    assert said(stage.calls) == sent


async def test_all_keys_are_gone_through_however_many_stand_in_the_way(stage: Stage) -> None:
    keys = [f"k{n:03}" for n in range(2 * KEYS + 10)]
    await put(stage, *["a crowd"] * 250, *keys)
    [head] = await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "another", HOUR)

    async with stage.worker(stage.handler(nothing, limits=ORDERED, concurrency=10), idle_poll=HOUR):
        await stage.until(lambda: len(stage.calls) == len(keys))

    assert head.key == "a crowd"
    assert sorted(str(each.key) for each in stage.calls) == keys


async def test_a_worker_that_ends_tells_those_who_wait_for_what_it_had_in_hand(stage: Stage) -> None:
    gate = asyncio.Event()

    async def wait(_: Delivery, __: Run) -> None:
        await gate.wait()

    await put(stage, "a")
    first = stage.make(stage.handler(wait, limits=ORDERED), idle_poll=HOUR)
    await first.start()
    await stage.until(lambda: len(stage.calls) == 1)
    await stage.storage.mailbox.publish([Draft(uuid.uuid4(), "work", b"behind", key="a")])
    # By a door of its own, as another process would. It looks, looks once more, and sleeps.
    second = stage.make(stage.handler(nothing, limits=ORDERED), storage=stage.storage.sibling(), idle_poll=HOUR)
    await second.start()
    await stage.until(lambda: second.progress()["fetcher of work"].turns == 2)

    stopping = asyncio.create_task(first.stop())
    await asyncio.sleep(0)
    gate.set()
    await stopping
    await stage.until(stage.empty)
    await second.stop()

    assert said(stage.calls) == ["a0", "behind"]


async def test_who_has_his_hands_full_tells_others_that_a_key_may_go_on(stage: Stage) -> None:
    gates = {b"a0": asyncio.Event(), b"b1": asyncio.Event()}

    async def wait(delivery: Delivery, _: Run) -> None:
        if delivery.payload in gates:
            await gates[delivery.payload].wait()

    async with (
        stage.worker(stage.handler(wait, limits=ORDERED, concurrency=1), idle_poll=HOUR),
        stage.worker(stage.handler(wait, limits=ORDERED, concurrency=1), idle_poll=HOUR),
    ):
        await put(stage, "a", "b", "a", "b")
        await stage.until(lambda: len(stage.calls) == 2)
        gates[b"a0"].set()
        await stage.until(lambda: len(stage.calls) == 3)
        gates[b"b1"].set()
        await stage.until(stage.empty)

    assert said(stage.calls)[2:] == ["a2", "b3"]


async def test_a_paused_group_rests_and_goes_on_when_it_is_resumed(stage: Stage) -> None:
    await stage.storage.controls.pause("work", "ann", "upgrade")
    sent = await put(stage, "a", "a")
    async with stage.worker(stage.handler(nothing, limits=ORDERED), idle_poll=HOUR) as worker:
        await stage.until(lambda: worker.progress()["fetcher of work"].turns >= 2)
        assert stage.calls == []
        await stage.storage.controls.resume("work", "ann")
        await stage.until(stage.empty)

    assert said(stage.calls) == sent


@pytest.mark.parametrize("hurry", [False, True])
async def test_a_worker_leaves_no_task_behind(stage: Stage, hurry: bool) -> None:
    before = asyncio.all_tasks()
    worker = stage.make(stage.handler(nothing, limits=Limits(ordered=True, rate=Rate(100, HOUR))), idle_poll=HOUR)
    await worker.start()
    await put(stage, *["a"] * 5)
    await stage.until(stage.empty)

    await (worker.stop_now() if hurry else worker.stop())
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == before
