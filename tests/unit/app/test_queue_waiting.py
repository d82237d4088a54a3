"""Waiting for work: asleep until something may be due, woken by whoever makes it so."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring, Queue
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.storage.contract import Storage

PATIENCE = 30.0


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    async with Mainspring("memory://", name="shop") as app:
        yield app


@pytest.fixture
async def queue(app: Mainspring) -> Queue[Any]:
    queue = app.queue("billing", "orders.*")
    await queue.declare()
    return queue


async def asleep(queue: Queue[Any]) -> "asyncio.Task[bool]":
    """Start a wait that has read the next due instant already."""
    waiter = (await queue._runtime.opened("a test")).waiter
    read, upcoming = asyncio.Event(), waiter.upcoming

    async def noted(group: str) -> Any:
        read.set()
        return await upcoming(group)

    waiter.upcoming = noted  # type: ignore[method-assign]
    waiting = asyncio.create_task(queue.wait())
    await read.wait()
    await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


async def test_what_is_due_already_is_not_waited_for(app: Mainspring, queue: Queue[Any]) -> None:
    assert not await queue.wait("0s")
    await app.publish("orders.placed", 1)

    assert await asyncio.wait_for(queue.wait(), PATIENCE)


async def test_a_publisher_wakes_who_waits(app: Mainspring, queue: Queue[Any]) -> None:
    waiting = await asleep(queue)
    await app.publish("orders.placed", 1)

    assert await asyncio.wait_for(waiting, PATIENCE)


async def test_what_is_handed_back_wakes_who_waits(app: Mainspring, queue: Queue[Any]) -> None:
    await app.publish("orders.placed", 1)
    items = await queue.claim()
    waiting = await asleep(queue)
    await queue.abandon(*items, delay="0s")

    assert await asyncio.wait_for(waiting, PATIENCE)


async def test_who_came_for_nothing_time_and_again_is_woken_all_the_same(app: Mainspring, queue: Queue[Any]) -> None:
    other = app.queue("billing")
    await app.publish("orders.placed", 1)
    for _ in range(4):
        assert await asyncio.wait_for(queue.wait(), PATIENCE)
        faster = await other.claim()
        assert await queue.claim() == []
        await other.abandon(*faster, delay="0s")

    assert await asyncio.wait_for(queue.wait(), PATIENCE)
    assert len(await queue.claim()) == 1


@pytest.mark.parametrize("verb", ["claim", "reap"])
async def test_what_was_claimed_for_somebody_who_is_cancelled_before_the_answer_is_handed_back(
    app: Mainspring, queue: Queue[Any], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    await app.publish("orders.placed", 1)
    mailbox: Any = (await app._connection.storage("a test")).mailbox
    if verb == "reap":
        await queue.claim(hold="1ms")
        while (await app.messages.list())[0].state != "lapsed":
            await asyncio.sleep(0.001)
    claimed, answers, take = asyncio.Event(), asyncio.Event(), getattr(mailbox, verb)

    async def slow(*asked: Any, **options: Any) -> Any:
        answer = await take(*asked, **options)
        claimed.set()
        await answers.wait()
        return answer

    monkeypatch.setattr(mailbox, verb, slow)
    asking = asyncio.create_task(getattr(queue, verb)(hold="1h"))
    await claimed.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    monkeypatch.undo()

    answers.set()

    assert await asyncio.wait_for(queue.wait(), PATIENCE)
    [item] = await queue.claim()
    assert item.attempt == (1 if verb == "claim" else 2)
    await queue.ack(item)


async def test_what_was_claimed_for_somebody_who_is_cancelled_is_handed_back_before_the_app_is_closed(
    app: Mainspring, queue: Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.publish("orders.placed", 1)
    mailbox: Any = (await app._connection.storage("a test")).mailbox
    claimed, answers, claim = asyncio.Event(), asyncio.Event(), mailbox.claim
    handed_back: list[Delivery] = []

    async def slow(*asked: Any) -> Any:
        answer = await claim(*asked)
        claimed.set()
        await answers.wait()
        return answer

    async def answer_at_last(_: Storage) -> None:
        answers.set()

    async def claim_before_it_closes(_: Storage) -> None:
        handed_back.extend(await claim([ClaimRequest("billing", 1, ALL_LEVELS)], "another", timedelta(hours=1)))

    monkeypatch.setattr(mailbox, "claim", slow)
    asking = asyncio.create_task(queue.claim(hold="1h"))
    await claimed.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    app._connection.before_close.insert(0, answer_at_last)
    app._connection.before_close.append(claim_before_it_closes)
    await app.__aexit__(None, None, None)

    assert [each.attempt for each in handed_back] == [1]


async def test_a_queue_serves_again_after_its_app_was_closed(app: Mainspring, queue: Queue[Any]) -> None:
    waiting = await asleep(queue)
    waiting.cancel()
    await asyncio.wait([waiting])
    await app.__aexit__(None, None, None)
    assert queue._runtime.heartbeat.left == 1
    await app.__aenter__()

    again = await asleep(queue)
    await app.publish("orders.placed", 1)
    assert await asyncio.wait_for(again, PATIENCE)
    assert [each.name for each in (await app.stats.roster()).workers] == [queue._runtime.heartbeat.owner]
