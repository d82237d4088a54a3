"""Tokens of items on real databases: what one process claimed, another settles, also in a transaction of its own."""

import asyncio
import json
import socket
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring import Item, Mainspring, Queue, errors
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


async def test_another_process_extends_and_settles_what_this_one_claimed(
    app: Mainspring, queue: Queue[Any], place: Place
) -> None:
    await app.publish_many(("orders.placed", number) for number in range(3))
    items = await queue.claim(owner="ann") + await queue.claim()
    ours, theirs = socket.socketpair()
    with theirs:
        argument = json.dumps([*place, [item.token for item in items]])
        other = nursery().start("tests.integration.app.settling", argument, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        assert json.loads(await reader.readline()) == [item.payload for item in items]
        other.wait(100)
    finally:
        writer.close()

    assert await app.messages.list() == []
    assert (await queue.extend(*items)).lost == tuple(items)
    [counts] = (await app.stats.tally()).groups
    assert counts.handled == 3  # by the report of the process that settled them


async def test_a_token_is_read_back_after_a_restart(opened: Callable[[], Mainspring]) -> None:
    async with opened() as app:
        queue = app.queue("billing", "orders.*")
        await queue.declare()
        await app.publish("orders.placed", {"number": 1})
        [item] = await queue.claim()
        token = item.token
    async with opened() as app:
        queue = app.queue("billing", "orders.*")

        again = await queue.item(token)
        await queue.fail(again, error="no", retry="none")

        assert (again.payload, again.owner) == ({"number": 1}, item.owner)
        assert [dead.error for dead in await app.dead.list()] == ["no"]


async def test_of_two_that_settle_one_claim_at_once_one_does(
    app: Mainspring, queue: Queue[Any], opened: Callable[[], Mainspring]
) -> None:
    async with opened() as other:
        theirs = other.queue("billing", "orders.*")
        for number in range(10):
            await app.publish("orders.placed", number)
            [item] = await queue.claim()
            again = await theirs.item(item.token)

            answers = await asyncio.gather(queue.ack(item), theirs.abandon(again), return_exceptions=True)

            assert sorted(isinstance(answer, errors.ClaimLost) for answer in answers) == [False, True]
            if isinstance(answers[0], errors.ClaimLost):
                assert [view.state for view in await app.messages.list()] == ["scheduled"]
                await app.cancel(item.message_id)
            assert await app.messages.list() == []


async def test_a_suspect_that_another_process_settled_keeps_no_lapsed_suspect_waiting(
    app: Mainspring, queue: Queue[Any], opened: Callable[[], Mainspring]
) -> None:
    await app.publish_many(("orders.placed", number) for number in range(2))
    await queue.claim(hold="1ms")
    async with opened() as other:
        theirs = other.queue("billing", "orders.*")
        first = await reaped(queue, hold="1d")
        second = await reaped(theirs, hold="1ms")  # it lapses at once: a suspect whose holder died

        await theirs.ack(await theirs.item(first.token))

        assert (await reaped(queue)).message_id == second.message_id


async def reaped(queue: Queue[Any], **hold: str) -> Item[Any]:
    """The next suspect: a claim may have to lapse, and another suspect to run for its first second."""
    async with asyncio.timeout(20):
        while (item := await queue.reap(**hold)) is None:
            await asyncio.sleep(0.01)
    return item


async def test_an_item_that_was_read_back_is_settled_in_a_transaction_on_postgresql(
    postgres_url: str, postgres_schema: str
) -> None:
    async with Mainspring(postgres_url, name="shop", schema=postgres_schema) as app:
        queue = app.queue("billing", "orders.*")
        await queue.declare()
        await app.publish("orders.placed", 1)
        [item] = await queue.claim()
        connection = await asyncpg.connect(postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await queue.ack(await queue.item(item.token), tx=connection)
            await transaction.rollback()
            after_rollback = await queue.item(item.token)
            async with connection.transaction():
                await queue.ack(after_rollback, tx=connection)
        finally:
            await connection.close()

        assert await app.messages.list() == []


def test_an_item_that_was_read_back_is_settled_in_a_blocking_transaction(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    queue = app.sync.queue("billing", "orders.*")
    queue.declare()
    app.sync.publish("orders.placed", 1)
    [item] = queue.claim()
    again = queue.item(item.token)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        queue.ack(again, tx=connection)

    assert app.sync.messages.list() == []
    with pytest.raises(errors.ClaimLost):
        queue.item(item.token)
    app.sync.close()


def test_a_test_in_a_transaction_of_its_own_reads_items_back(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    queue = app.sync.queue("billing", "orders.*")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, app.testing(tx=connection):
        app.sync.publish("orders.placed", 1)
        [item] = queue.claim()

        again = queue.item(item.token)

        assert queue.ack(again, tx=connection).settled == (again,)
