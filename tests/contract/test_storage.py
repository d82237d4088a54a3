"""The storage as a whole: its doors, its clock, and many callers at once."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.search import DeadSelection
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    hold_one,
    ids,
    publish,
    siblings,
    the_copy,
    turn,
)

pytestmark = [pytest.mark.memory, pytest.mark.psycopg]


async def test_a_sibling_sees_the_same_database(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)

    async with siblings(storage, 1) as (sibling,):
        delivery = await claim_one(sibling, owner="sibling")

    assert delivery.message_id == message.id
    assert (await the_copy(storage, message.id)).held_by == "sibling"


async def test_closing_a_sibling_leaves_the_storage_open(storage: Storage) -> None:
    async with siblings(storage, 1):
        pass

    assert await publish(storage, draft()) != frozenset()


async def test_closing_twice_is_fine(storage: Storage) -> None:
    sibling = storage.sibling()
    await sibling.open()

    await sibling.close()
    await sibling.close()


async def test_a_ping_says_how_long_it_took(storage: Storage) -> None:
    took = await storage.ping()

    assert timedelta() <= took < MINUTE


async def test_without_a_hand_set_clock_the_storage_has_its_own(storage: Storage) -> None:
    storage.now = None
    before = datetime.now(UTC) - MINUTE

    delivery = await hold_one(storage)

    after = datetime.now(UTC) + MINUTE
    assert before < delivery.published_at <= delivery.claimed_at < after
    assert before + HOLD < (await the_copy(storage, delivery.message_id)).due_at < after + HOLD
    assert before < (await storage.ledger.tally()).now < after


async def test_the_storages_own_clock_is_aware_and_in_utc(storage: Storage) -> None:
    storage.now = None

    delivery = await hold_one(storage)

    for instant in (delivery.due_at, delivery.scheduled_for, delivery.published_at, delivery.claimed_at):
        assert instant.utcoffset() == timedelta()


async def test_the_hand_set_clock_decides_every_instant(storage: Storage) -> None:
    await declare(storage, "mailer")

    turn(storage, HOUR)
    delivery = await hold_one(storage)

    assert delivery.published_at == delivery.claimed_at == NOON + HOUR
    assert (await storage.ledger.tally()).now == (await storage.ledger.roster()).now == NOON + HOUR


async def test_one_of_many_publishers_of_an_id_stores_it(storage: Storage) -> None:
    await declare(storage, "mailer")
    message = draft()

    async with siblings(storage, 8) as doors:
        stored = await asyncio.gather(*(publish(door, message) for door in doors))

    assert sorted(len(each) for each in stored) == [0] * 7 + [1]
    assert ids(await claim(storage)) == [message.id]


async def test_many_publishers_of_overlapping_batches_do_not_stop_each_other(storage: Storage) -> None:
    batch = [draft(group="mailer") for _ in range(40)]

    async with siblings(storage, 6) as doors:
        stored = await asyncio.gather(
            *(publish(door, *(batch if i % 2 else reversed(batch))) for i, door in enumerate(doors))
        )

    assert sum(len(each) for each in stored) == 40
    assert sorted(ids(await claim(storage))) == sorted(each.id for each in batch)


async def test_many_janitors_route_each_parked_message_once(storage: Storage) -> None:
    batch = [draft() for _ in range(60)]
    await publish(storage, *batch)
    await declare(storage, "mailer")

    async with siblings(storage, 6) as doors:
        routed = [each.routed for each in await asyncio.gather(*(door.upkeep.reroute(25) for door in doors))]
    while left := (await storage.upkeep.reroute(25)).routed:
        routed.append(left)

    assert sum(routed) == 60
    assert sorted(ids(await claim(storage))) == sorted(each.id for each in batch)


async def test_many_operators_revive_each_dead_letter_once(storage: Storage) -> None:
    buried = [await bury_one(storage) for _ in range(10)]

    async with siblings(storage, 4) as doors:
        revived = await asyncio.gather(*(door.controls.revive(DeadSelection(), "ann", 100) for door in doors))

    assert sum(revived) == 10
    assert sorted(ids(await claim(storage))) == sorted(each.message_id for each in buried)


async def test_many_reapers_never_hold_the_same_suspect(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(8)))
    held = await claim(storage)
    turn(storage, HOUR)

    async with siblings(storage, 12) as doors:
        reaped = await asyncio.gather(
            *(door.mailbox.reap(["mailer"], f"node-{i}", HOLD) for i, door in enumerate(doors))
        )

    taken = [each.id for each in reaped if each is not None]
    assert len(taken) == len(set(taken))
    assert set(taken) <= {each.id for each in held}
    assert len(taken) >= 1
