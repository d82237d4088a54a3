"""Dead letters of schedules: that of a later occurrence replaces the earlier one of its group, and counts it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.model.message import Delivery, Draft, Settled
from mainspring.model.retention import Retention
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Settlement
from mainspring.model.views import DeliveryView
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    NOON,
    TICK,
    TOPIC,
    WORKER,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    listed,
    publish,
    settle,
    statuses,
    the_copy,
    turn,
)
from tests.contract.scheduling import NAME, occurrence


def due(hour: int, name: str = NAME, group: str = "mailer", *, manual: bool = False) -> Draft:
    return occurrence(NOON - DAY + hour * HOUR, name, group=group, manual=manual).draft


async def bury(storage: Storage, *held: Delivery, replaces: bool = True) -> None:
    verdict = Bury(failure())
    found = [Settlement(each.claim, verdict, replaces=replaces) for each in held]
    answer = await storage.mailbox.settle(found, WORKER)
    assert answer == Settled()


async def die(storage: Storage, one: Draft, *, replaces: bool = True) -> Delivery:
    """Publish this one, claim it, and bury it."""
    await publish(storage, one)
    held = await claim_one(storage, one.group or "mailer")
    await bury(storage, held, replaces=replaces)
    return held


async def dead(storage: Storage, *drafts: Draft) -> list[tuple[str, int]]:
    """The state and the count of each."""
    found: list[DeliveryView] = []
    for each in drafts:
        message = await storage.ledger.find(each.id)
        assert message is not None
        found += message.deliveries
    return [(each.state, each.repeats) for each in found]


@pytest.mark.psycopg
async def test_a_later_one_replaces_the_earlier_and_counts_it_and_the_history_stays(storage: Storage) -> None:
    hours = [due(hour) for hour in range(3)]

    for each in hours:
        await die(storage, each)

    assert await dead(storage, *hours) == [("dead", 2)]
    assert await listed(storage, "dead") == [hours[2].id]
    for each in hours:
        assert await statuses(storage, each.id) == ["dead"]


async def test_all_are_kept_where_that_is_asked_for(storage: Storage) -> None:
    for hour in range(3):
        await die(storage, due(hour), replaces=False)

    assert await dead(storage, *(due(hour) for hour in range(3))) == [("dead", 0)] * 3


async def test_those_of_one_batch_leave_the_latest_whatever_their_order(storage: Storage) -> None:
    await die(storage, due(0))
    hours = [due(2), due(3), due(1)]
    await publish(storage, *hours)
    held = await claim(storage)

    await bury(storage, *sorted(held, key=lambda each: each.message_id))

    assert await dead(storage, due(0), *hours) == [("dead", 3)]
    assert await listed(storage, "dead") == [due(3).id]


async def test_an_earlier_occurrence_that_dies_last_replaces_nothing(storage: Storage) -> None:
    await die(storage, due(2))
    await die(storage, due(1))
    assert await dead(storage, due(1), due(2)) == [("dead", 0), ("dead", 0)]

    await die(storage, due(3))

    assert await dead(storage, due(1), due(2), due(3)) == [("dead", 2)]


@pytest.mark.parametrize("other", ["another group", "another schedule", "by hand", "a plain message"])
async def test_only_those_of_its_own_schedule_and_group_and_rhythm_are_replaced(storage: Storage, other: str) -> None:
    earlier = {
        "another group": due(0, group="printer"),
        "another schedule": due(0, "weekly"),
        "by hand": due(0, manual=True),
        "a plain message": draft(TOPIC, group="mailer"),
    }[other]
    await die(storage, earlier)

    await die(storage, due(1))

    assert await dead(storage, earlier, due(1)) == [("dead", 0), ("dead", 0)]


@pytest.mark.psycopg
@pytest.mark.parametrize(
    "other", [{"payload": b'{"invoice": 1}'}, {"content_type": "text/plain"}, {"topic": "orders.paid"}], ids=str
)
async def test_one_with_another_content_is_other_work_and_is_not_replaced(
    storage: Storage, other: dict[str, Any]
) -> None:
    first = replace(due(0), **other)
    await die(storage, first)

    await die(storage, due(1))
    await die(storage, replace(due(2), **other))

    assert await dead(storage, first, due(1), due(2)) == [("dead", 0), ("dead", 1)]
    assert sorted(await listed(storage, "dead")) == sorted([due(1).id, due(2).id])


async def test_of_one_batch_the_latest_of_each_content_is_left(storage: Storage) -> None:
    paid = {hour: replace(due(hour), payload=b'{"invoice": 1}') for hour in (0, 2)}
    await die(storage, due(-1))
    await publish(storage, paid[0], due(1), paid[2], due(3))

    await bury(storage, *await claim(storage))

    assert await dead(storage, due(-1), *paid.values(), due(1), due(3)) == [("dead", 1), ("dead", 2)]
    assert sorted(await listed(storage, "dead")) == sorted([due(2).id, due(3).id])


async def test_a_run_that_was_asked_for_replaces_nothing(storage: Storage) -> None:
    await die(storage, due(0))

    await die(storage, due(1, manual=True))

    assert await dead(storage, due(0), due(1)) == [("dead", 0), ("dead", 0)]


async def test_a_lost_claim_replaces_nothing(storage: Storage) -> None:
    await die(storage, due(0))
    await publish(storage, due(1))
    held = await claim_one(storage)
    stale = held.claim._replace(epoch=held.epoch - 1)

    answer = await storage.mailbox.settle([Settlement(stale, Bury(failure()), replaces=True)], WORKER)

    assert answer.lost == {stale}
    assert await dead(storage, due(0)) == [("dead", 0)]


async def test_the_latest_is_revived_and_discarded_as_before(storage: Storage) -> None:
    for hour in range(2):
        await die(storage, due(hour))

    assert await storage.controls.revive(DeadSelection(), "ann", 10) == 1
    copy = await the_copy(storage, due(1).id)
    assert (copy.state, copy.repeats) == ("ready", 0)
    await bury(storage, await claim_one(storage))
    assert await dead(storage, due(0), due(1)) == [("dead", 0)]

    assert await storage.controls.discard(DeadSelection(), "ann", 10) == 1
    assert await dead(storage, due(0), due(1)) == []


async def test_the_message_of_a_replaced_one_goes_as_one_that_was_discarded(storage: Storage) -> None:
    for hour in range(2):
        await die(storage, due(hour))
    no_history = Retention(failures=timedelta(), repeats=HOUR)

    for after in (TICK, HOUR + TICK):
        turn(storage, after)
        await storage.upkeep.prune(no_history, 1000)

    assert await storage.ledger.find(due(0).id) is None
    assert await dead(storage, due(1)) == [("dead", 1)]


async def test_the_other_copy_of_its_message_stays(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    await declare(storage, "printer", TOPIC)
    first, second = (occurrence(NOON - DAY + hour * HOUR, group=None).draft for hour in range(2))
    for each in (first, second):
        await publish(storage, each)
        await bury(storage, await claim_one(storage, "mailer"))
    for after in (TICK, HOUR + TICK):
        turn(storage, after)
        await storage.upkeep.prune(Retention(failures=timedelta(), repeats=HOUR), 1000)

    (left,) = await claim(storage, "printer", 1)
    await settle(storage, left, DONE)

    assert left.message_id == first.id
