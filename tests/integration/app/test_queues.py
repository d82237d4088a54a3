"""Queues on real databases: processors that contend, die, sleep and are woken, and no worker anywhere."""

import asyncio
import gc
import json
import socket
import sqlite3
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring, Queue, errors
from tests.faults.nursery import nursery

Place = tuple[str, str]
"""The address of a database and the name of a schema."""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Place:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db", "mainspring"
    return postgres_url, postgres_schema


@pytest.fixture
def opened(place: Place) -> Callable[[], Mainspring]:
    url, schema = place
    return lambda: Mainspring(url, name="shop", schema=schema, auto_migrate=True)


@pytest.fixture
async def app(opened: Callable[[], Mainspring]) -> AsyncIterator[Mainspring]:
    async with opened() as app:
        yield app


@pytest.fixture
async def queue(app: Mainspring) -> Queue[Any]:
    queue = app.queue("billing", "orders.*")
    await queue.declare()
    return queue


async def test_two_processors_share_the_work_and_none_is_done_twice(
    app: Mainspring, queue: Queue[Any], opened: Callable[[], Mainspring]
) -> None:
    count = 300
    await app.publish_many(("orders.placed", number) for number in range(count))

    async def process(mine: Queue[Any]) -> list[int]:
        done: list[int] = []
        while items := await mine.claim(7):
            await mine.ack(*items)
            done += [item.payload for item in items]
        return done

    async with opened() as other:
        shares = await asyncio.gather(process(queue), process(other.queue("billing")))

    assert sorted(shares[0] + shares[1]) == list(range(count))
    assert await app.messages.list() == []


async def test_items_that_were_claimed_under_several_names_are_kept_and_settled_by_one_call(
    app: Mainspring, queue: Queue[Any]
) -> None:
    await app.publish_many(("orders.placed", number) for number in range(3))
    items = [item for owner in ("ann", "bob", None) for item in await queue.claim(1, owner=owner)]

    kept = await queue.extend(*items)
    answer = await queue.ack(*items)

    assert (kept.extended, kept.lost) == (tuple(items), ())
    assert answer.settled == tuple(items)
    assert await app.messages.list() == []


async def test_the_urgent_come_first(app: Mainspring, queue: Queue[Any]) -> None:
    levels: list[Any] = ["low", "normal", "urgent", "high"]
    for number, priority in enumerate(levels):
        await app.publish("orders.placed", number, priority=priority)

    assert [item.payload for item in await queue.claim(3)] == [2, 3, 1]
    assert [item.payload for item in await queue.claim(3)] == [0]


async def test_what_a_processor_held_when_it_was_killed_is_taken_over_one_by_one(
    app: Mainspring, queue: Queue[Any], place: Place
) -> None:
    await app.publish_many(("orders.placed", number) for number in range(3))
    ours, theirs = socket.socketpair()
    with theirs:
        doomed = nursery().start("tests.integration.app.processing", json.dumps(place), theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    assert await reader.readline() == b"3\n"
    doomed.kill()
    doomed.wait(100)
    writer.close()

    taken: list[int] = []
    while len(taken) < 3:
        item = await queue.reap()
        if item is None:
            await asyncio.sleep(0.02)  # the claims of the dead have yet to lapse, by the database's clock
            continue
        assert (item.suspect, item.attempt) == (True, 2)
        await queue.ack(item)
        taken.append(item.payload)

    assert sorted(taken) == [0, 1, 2]
    assert await app.messages.list() == []


async def test_a_suspect_whose_lost_run_was_not_stored_is_not_released_with_the_others(
    app: Mainspring, queue: Queue[Any], place: Place
) -> None:
    await app.publish_many(("orders.placed", number) for number in range(2))
    await queue.claim(hold="1ms")
    while (suspect := await queue.reap(hold="1ms")) is None:
        await asyncio.sleep(0.001)  # the claims have yet to lapse, by the database's clock
    _forget_runs(place)  # as an earlier release, which stored none
    async with asyncio.timeout(60):
        while (await app.stats.tally()).groups[0].lapsed < 2:
            await asyncio.sleep(0.001)

    answer = await app.groups.release("billing")

    assert (answer.released, answer.left, answer.busy) == (1, 1, 0)
    [free] = await queue.claim()
    assert free.message_id != suspect.message_id


def _forget_runs(place: Place) -> None:
    url, schema = place
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("DELETE FROM mainspring_run")
    else:
        with psycopg.connect(url) as session:
            session.execute(f"DELETE FROM {schema}.run")


async def test_who_waits_is_woken_by_a_publisher_elsewhere(
    app: Mainspring, queue: Queue[Any], opened: Callable[[], Mainspring]
) -> None:
    waiting = asyncio.create_task(queue.wait())
    async with opened() as other:
        await other.publish("orders.placed", 1)
        assert await asyncio.wait_for(waiting, 30)

    assert [item.payload for item in await queue.claim()] == [1]
    assert not await queue.wait("10ms")


async def test_who_waits_is_woken_when_a_delay_is_over(app: Mainspring, queue: Queue[Any]) -> None:
    await app.publish("orders.placed", 1, delay="300ms")

    assert await queue.claim() == []
    assert await asyncio.wait_for(queue.wait(), 30)
    assert [item.payload for item in await queue.claim()] == [1]


async def test_several_wait_at_once_and_each_gets_one(app: Mainspring, queue: Queue[Any]) -> None:
    async def first(mine: Queue[Any]) -> Any:
        async for item in mine.items():
            await mine.ack(item)
            return item.payload
        raise AssertionError("it goes on for ever")

    waiting = [asyncio.create_task(first(queue)) for _ in range(3)]
    for number in range(3):
        await app.publish("orders.placed", number)

    assert sorted(await asyncio.wait_for(asyncio.gather(*waiting), 60)) == [0, 1, 2]


async def test_processors_are_on_the_roster_while_they_are_open(
    app: Mainspring, queue: Queue[Any], opened: Callable[[], Mainspring]
) -> None:
    await app.publish_many(("orders.placed", number) for number in range(2))
    async with opened() as other:
        mine = other.queue("billing", "orders.*")
        first, second = await mine.claim()
        [worker] = (await app.stats.roster()).workers
        await mine.ack(first)
        await mine.fail(second, error="no", retry="none")
    assert (worker.groups, worker.name) == (("billing",), first.owner)

    assert (await app.stats.roster()).workers == ()
    [counts] = (await app.stats.tally()).groups
    assert (counts.handled, counts.failed) == (1, 1)


def test_a_blocking_processor_needs_no_loop(opened: Callable[[], Mainspring]) -> None:
    app = opened()
    queue = app.sync.queue("billing", "orders.*", type=int)
    queue.declare()
    app.sync.publish_many(("orders.placed", number) for number in range(3))
    seen = []
    for item in queue.items():
        queue.ack(item)
        seen.append(item.payload)
        if len(seen) == 3:
            break

    assert (seen, queue.wait("10ms")) == ([0, 1, 2], False)
    app.sync.close()
    app.sync.publish("orders.placed", 3)
    assert [item.payload for item in queue.claim()] == [3]
    app.sync.close()


def test_an_app_with_queues_is_let_go_of(opened: Callable[[], Mainspring]) -> None:
    app = opened()
    app.sync.queue("billing", "orders.*").claim()
    gone = weakref.ref(app)
    del app
    until = time.monotonic() + 60
    while gone() is not None and time.monotonic() < until:
        gc.collect()  # the thread in the background may yet have to let go of the call

    assert gone() is None


def test_a_test_in_a_transaction_of_its_own_serves_queues(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    queue = app.sync.queue("billing", "orders.*")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, app.testing(tx=connection) as kit:
        app.sync.publish("orders.placed", 1, delay="1h")
        kit.elapse("1h")
        [late] = queue.claim()
        kit.elapse("1h")
        [suspect] = filter(None, [queue.reap()])
        with pytest.raises(errors.ClaimLost):
            queue.ack(late, tx=connection)
        assert queue.ack(suspect, tx=connection).settled == (suspect,)
        assert list(queue.items()) == []
