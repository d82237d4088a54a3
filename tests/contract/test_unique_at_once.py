"""Uniqueness where many publish at once, and how long it is remembered."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from mainspring.model.message import Receipt, Scope
from mainspring.model.retention import Pruned, Retention
from mainspring.model.verdict import Done
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    claim,
    claim_one,
    draft,
    ids,
    listed,
    settle,
    siblings,
    turn,
)
from tests.contract.uniqueness import publish, stored

pytestmark = pytest.mark.psycopg

PLAIN = Retention(repeats=HOUR)


@pytest.mark.parametrize("scope", ["pending", "running", MINUTE])
async def test_of_fifty_at_once_one_is_stored(storage: Storage, scope: Scope) -> None:
    async with siblings(storage, 5) as doors:
        receipts = await asyncio.gather(*(publish(doors[number % 5], scope=scope) for number in range(50)))

    (first,) = [each.id for each in receipts if each.status == "stored"]
    assert sum(each == Receipt(first, "duplicate") for each in receipts) == 49
    assert ids(await claim(storage)) == [first]


async def test_of_fifty_at_once_the_last_is_left(storage: Storage) -> None:
    async with siblings(storage, 5) as doors:
        receipts = await asyncio.gather(
            *(publish(doors[number % 5], scope="pending", keep="last") for number in range(50))
        )

    (left,) = ids(await claim(storage))
    assert sorted(each.status for each in receipts) == [*["replaced"] * 49, "stored"]
    assert left in {each.id for each in receipts}


async def test_while_others_take_them_nothing_is_lost_and_nothing_is_run_that_was_replaced(storage: Storage) -> None:
    taken: set[UUID] = set()

    async def work(door: Storage) -> None:
        for _ in range(20):
            taken.update(ids(await claim(door, limit=1)))

    async def replace(door: Storage) -> list[Receipt]:
        return [await publish(door, scope="pending", keep="last") for _ in range(20)]

    async with siblings(storage, 4) as doors:
        done = await asyncio.gather(*map(replace, doors[2:]), *map(work, doors[:2]))
    receipts = [receipt for each in done for receipt in each or ()]
    taken.update(ids(await claim(storage)))

    cancelled = set(await listed(storage, "cancelled"))
    assert taken | cancelled == {each.id for each in receipts}
    assert not taken & cancelled
    assert sum(each.status == "replaced" for each in receipts) == len(cancelled)


# Pruning


async def test_what_is_over_is_forgotten_after_an_hour(storage: Storage) -> None:
    await stored(storage)
    await settle(storage, await claim_one(storage), Done())

    turn(storage, HOUR)
    in_time = await storage.upkeep.prune(PLAIN, 100)
    turn(storage, HOUR + TICK)
    after = await storage.upkeep.prune(PLAIN, 100)

    assert (in_time, after) == (Pruned(), Pruned(messages=1, likenesses=1))
    await stored(storage)


async def test_what_is_still_to_run_is_remembered(storage: Storage) -> None:
    first = await stored(storage, draft(group="mailer", delay=30 * DAY))
    turn(storage, DAY)

    pruned = await storage.upkeep.prune(PLAIN, 100)

    assert pruned == Pruned()
    assert await publish(storage) == Receipt(first, "duplicate")


async def test_what_is_parked_is_remembered(storage: Storage) -> None:
    first = await stored(storage, draft())
    turn(storage, DAY)

    pruned = await storage.upkeep.prune(PLAIN, 100)

    assert pruned == Pruned()
    assert await publish(storage, draft()) == Receipt(first, "duplicate")


async def test_pruning_goes_batch_by_batch_and_what_is_needed_stops_none_of_it(storage: Storage) -> None:
    for number in range(4):
        await stored(storage, draft(group="later", delay=30 * DAY), hash=bytes([number]))
    for number in range(4, 9):
        turn(storage, SECOND)
        await stored(storage, hash=bytes([number]))
    for taken in await claim(storage):
        await settle(storage, taken, Done())
    turn(storage, 2 * HOUR)
    forever = Retention(repeats=timedelta(days=900))

    removed = [(await storage.upkeep.prune(forever, 2)).likenesses for _ in range(6)]

    assert removed == [0, 0, 2, 2, 1, 0]


async def test_pruning_one_topic_forgets_none(storage: Storage) -> None:
    await stored(storage, scope=MINUTE)
    await settle(storage, await claim_one(storage), Done())
    turn(storage, DAY)

    pruned = await storage.upkeep.prune(PLAIN, 100, "orders.*")

    assert pruned == Pruned()
