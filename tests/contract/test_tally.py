"""The tally: the whole state in numbers."""

import pytest

from mainspring.model.message import Priority
from mainspring.model.verdict import DONE
from mainspring.model.views import Counts
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    bury_one,
    claim,
    claim_one,
    counts,
    declare,
    draft,
    hold_one,
    publish,
    settle,
    turn,
)


async def test_an_empty_storage_counts_nothing(storage: Storage) -> None:
    tally = await storage.ledger.tally()

    assert tally.now == NOON
    assert (tally.groups, tally.parked, tally.expired_parked) == ((), 0, 0)


@pytest.mark.memory
async def test_every_state_of_a_group_is_counted(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(3)))
    await claim(storage, limit=3)
    turn(storage, MINUTE)
    await publish(storage, *(draft(group="mailer") for _ in range(2)))
    await claim(storage, limit=2)
    await bury_one(storage)
    await publish(storage, *(draft(group="mailer", delay=HOUR) for _ in range(4)))
    await publish(storage, *(draft(group="mailer", priority=level) for level in Priority), draft())

    tally = await storage.ledger.tally()

    assert tally.groups == (
        Counts("mailer", scheduled=4, ready=4, running=2, lapsed=3, dead=1, oldest_ready_at=NOON + MINUTE),
    )
    assert tally.parked == 1


async def test_states_change_with_the_clock_alone(storage: Storage) -> None:
    await hold_one(storage)
    await publish(storage, draft(group="mailer", delay=MINUTE))
    before = await counts(storage)

    turn(storage, MINUTE)
    after = await counts(storage)

    assert (before.scheduled, before.ready, before.running, before.lapsed) == (1, 0, 1, 0)
    assert (after.scheduled, after.ready, after.running, after.lapsed) == (0, 1, 0, 1)
    assert (before.oldest_ready_at, after.oldest_ready_at) == (None, NOON + MINUTE)


async def test_the_oldest_ready_delivery_is_found_at_any_level(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", priority=Priority.LOW))
    turn(storage, SECOND)
    await publish(storage, draft(group="mailer", priority=Priority.URGENT))

    assert (await counts(storage)).oldest_ready_at == NOON


async def test_each_count_stops_at_the_cap(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(3)))
    await claim(storage, limit=3)
    for _ in range(3):
        await bury_one(storage)
    turn(storage, MINUTE)
    await publish(storage, *(draft(group="mailer") for _ in range(3)))
    await claim(storage, limit=3)
    await publish(storage, *(draft(group="mailer", delay=HOUR) for _ in range(3)))
    await publish(storage, *(draft(group="mailer", priority=level) for level in Priority))

    (capped,) = (await storage.ledger.tally(cap=2)).groups

    assert (capped.scheduled, capped.ready, capped.running) == (2, 2, 2)
    assert (capped.lapsed, capped.dead) == (2, 2)
    assert capped.oldest_ready_at == NOON + MINUTE


async def test_groups_with_anything_to_count_are_sorted_by_name(storage: Storage) -> None:
    for name in ("b", "B", "é", "a-1", "a.1"):
        await declare(storage, name, "some.topic")
    await publish(storage, draft(group="_undeclared"))
    await bury_one(storage, "zzz buried")

    names = [each.group for each in (await storage.ledger.tally()).groups]

    assert names == ["B", "_undeclared", "a-1", "a.1", "b", "zzz buried", "é"]


async def test_an_undeclared_group_is_counted_while_it_has_something(storage: Storage) -> None:
    await publish(storage, draft(group="passing"))
    before = await storage.ledger.tally()

    await settle(storage, await claim_one(storage, "passing"), DONE)
    after = await storage.ledger.tally()

    assert [each.group for each in before.groups] == ["passing"]
    assert after.groups == ()


async def test_what_is_parked_is_counted_up_to_the_cap_whatever_its_topic(storage: Storage) -> None:
    for topic, many in (("orders.placed", 1), ("orders.paid", 2)):
        await publish(storage, *(draft(topic=topic) for _ in range(many)))

    parked = [(await storage.ledger.tally(cap)).parked for cap in (100, 3, 2)]

    assert parked == [3, 3, 2]
