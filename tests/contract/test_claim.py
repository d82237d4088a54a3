"""Claim: due, unheld deliveries in order, each to one holder."""

import asyncio
import threading
from collections import Counter

import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Priority, Scan
from mainspring.model.verdict import Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    TICK,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    ids,
    publish,
    settle,
    siblings,
    the_copy,
    turn,
)

pytestmark = pytest.mark.psycopg


async def test_a_claimed_delivery_is_held_until_its_time_runs_out(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)

    delivery = await claim_one(storage, owner="node-7")

    assert delivery.claim == (delivery.id, 1, message.id)
    copy = await the_copy(storage, message.id)
    assert (copy.state, copy.held_by, copy.due_at) == ("running", "node-7", NOON + HOLD)
    assert (copy.seq, copy.attempt, copy.state) == (delivery.id, 1, "running")


async def test_what_is_held_is_not_claimed_even_after_its_claim_lapsed(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"))
    await claim_one(storage)

    turn(storage, HOUR)
    again = await claim(storage)

    assert again == []


async def test_a_claim_answers_the_due_time_it_replaced_and_its_own_instant(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", delay=MINUTE))

    turn(storage, HOUR)
    delivery = await claim_one(storage)

    assert delivery.due_at == NOON + MINUTE
    assert delivery.claimed_at == NOON + HOUR


async def test_a_delivery_is_due_at_its_very_instant_and_not_before(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", delay=MINUTE))

    turn(storage, MINUTE - TICK)
    early = await claim(storage)
    turn(storage, MINUTE)
    in_time = await claim(storage)

    assert early == []
    assert len(in_time) == 1


async def test_attempt_and_epoch_grow_with_every_claim(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"))

    seen = []
    for _ in range(3):
        delivery = await claim_one(storage)
        seen.append((delivery.attempt, delivery.epoch))
        await settle(storage, delivery, Retry(0 * SECOND, failure()))

    assert seen == [(1, 1), (2, 2), (3, 3)]


async def test_within_a_level_the_oldest_due_time_is_first_then_the_order_of_publishing(
    storage: Storage,
) -> None:
    late, early, early_too = (draft(group="mailer", delay=delay) for delay in (MINUTE, SECOND, SECOND))
    await publish(storage, late, early, early_too)

    turn(storage, HOUR)
    claimed = await claim(storage)

    assert ids(claimed) == [early.id, early_too.id, late.id]


async def test_a_full_scan_takes_urgent_deliveries_first(storage: Storage) -> None:
    batch = [draft(group="mailer", priority=level) for level in reversed(Priority)]
    await publish(storage, *batch)

    claimed = await claim(storage)

    assert [delivery.priority for delivery in claimed] == [0, 1, 2, 3]


async def test_scans_are_taken_in_the_order_given_up_to_the_limit_of_the_want(storage: Storage) -> None:
    batch = [draft(group="mailer", priority=level) for level in Priority for _ in range(2)]
    await publish(storage, *batch)

    claimed = await claim(storage, limit=3, scans=(Scan(Priority.LOW, None), Scan(Priority.URGENT, None)))

    assert ids(claimed) == [batch[6].id, batch[7].id, batch[0].id]


async def test_a_level_that_is_not_scanned_gives_nothing(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", priority=Priority.URGENT))

    claimed = await claim(storage, scans=(Scan(Priority.NORMAL, None),))

    assert claimed == []


async def test_a_future_delivery_of_one_level_hides_no_due_one_of_another(storage: Storage) -> None:
    future = [draft(group="mailer", priority=Priority.URGENT, delay=HOUR) for _ in range(10)]
    due = draft(group="mailer", priority=Priority.LOW)
    await publish(storage, *future, due)

    claimed = await claim(storage, limit=1)

    assert ids(claimed) == [due.id]


async def test_what_was_due_before_since_is_not_taken(storage: Storage) -> None:
    older, exact, newer = (draft(group="mailer", at=NOON + after * SECOND) for after in (1, 2, 3))
    await publish(storage, older, exact, newer)
    turn(storage, MINUTE)

    marked = await claim(storage, scans=(Scan(Priority.NORMAL, NOON + 2 * SECOND),))
    full = await claim(storage)

    assert ids(marked) == [exact.id, newer.id]
    assert ids(full) == [older.id]


async def test_since_counts_for_its_own_level_alone(storage: Storage) -> None:
    high, normal = draft(group="mailer", priority=Priority.HIGH), draft(group="mailer")
    await publish(storage, high, normal)
    turn(storage, MINUTE)

    claimed = await claim(storage, scans=(Scan(Priority.HIGH, NOON + SECOND), Scan(Priority.NORMAL, None)))

    assert ids(claimed) == [normal.id]


async def test_a_want_never_gets_more_than_its_limit(storage: Storage) -> None:
    batch = [draft(group="mailer", priority=level) for level in Priority for _ in range(5)]
    await publish(storage, *batch)

    assert len(await claim(storage, limit=7)) == 7
    assert len(await claim(storage, limit=0)) == 0
    assert len(await claim(storage, limit=100)) == 13


async def test_several_wants_are_answered_together_in_their_order(storage: Storage) -> None:
    mails = [draft(group="mailer") for _ in range(3)]
    counted = [draft(group="analytics", priority=level) for level in (Priority.LOW, Priority.HIGH)]
    await publish(storage, *mails, *counted, draft(group="other"))

    claimed = await storage.mailbox.claim(
        [
            ClaimRequest("analytics", 5, ALL_LEVELS),
            ClaimRequest("nobody", 5, ALL_LEVELS),
            ClaimRequest("mailer", 2, (Scan(Priority.NORMAL, None),)),
        ],
        "worker-1",
        HOLD,
    )

    assert ids(claimed) == [counted[1].id, counted[0].id, mails[0].id, mails[1].id]
    assert [each.group for each in claimed] == ["analytics", "analytics", "mailer", "mailer"]


async def test_the_limit_of_one_want_does_not_touch_another(storage: Storage) -> None:
    await publish(storage, *(draft(group=group) for group in ("a", "b") for _ in range(4)))

    claimed = await storage.mailbox.claim(
        [ClaimRequest("a", 1, ALL_LEVELS), ClaimRequest("b", 3, ALL_LEVELS)], "worker-1", HOLD
    )

    assert Counter(each.group for each in claimed) == {"a": 1, "b": 3}


async def test_a_paused_group_gives_nothing_and_its_neighbour_everything(storage: Storage) -> None:
    await declare(storage, "mailer")
    await publish(storage, draft(group="mailer"), draft(group="analytics"))
    await storage.controls.pause("mailer", "ann", "upgrade")

    claimed = await storage.mailbox.claim(
        [ClaimRequest("mailer", 5, ALL_LEVELS), ClaimRequest("analytics", 5, ALL_LEVELS)], "worker-1", HOLD
    )

    assert [each.group for each in claimed] == ["analytics"]


async def test_twelve_claimers_at_once_never_hold_the_same_delivery(storage: Storage) -> None:
    batch = [draft(group="mailer") for _ in range(600)]
    await publish(storage, *batch)

    async with siblings(storage, 12) as doors:
        claimed = await asyncio.gather(*(_drain(door, f"worker-{i}") for i, door in enumerate(doors)))

    everything = [delivery for each in claimed for delivery in each]
    assert sorted(ids(everything)) == sorted(each.id for each in batch)
    assert {delivery.epoch for delivery in everything} == {1}


async def test_claimers_in_threads_of_their_own_never_hold_the_same_delivery(storage: Storage) -> None:
    batch = [draft(group="mailer") for _ in range(200)]
    await publish(storage, *batch)
    claimed: list[Delivery] = []

    async def work(door: Storage, owner: str) -> None:
        await door.open()
        door.now = NOON
        try:
            claimed.extend(await _drain(door, owner))
        finally:
            await door.close()

    threads = [threading.Thread(target=asyncio.run, args=(work(storage.sibling(), f"thread-{i}"),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert sorted(ids(claimed)) == sorted(each.id for each in batch)


async def _drain(door: Storage, owner: str) -> list[Delivery]:
    taken: list[Delivery] = []
    while some := await claim(door, limit=7, owner=owner):
        taken += some
    return taken
