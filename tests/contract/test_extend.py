"""Extend: the heartbeat of a claim."""

from uuid import uuid4

import pytest

from mainspring.model.message import Claim, Extended
from mainspring.model.verdict import DONE, Release
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    MINUTE,
    NOON,
    SECOND,
    WORKER,
    claim,
    draft,
    hold_one,
    publish,
    reap,
    settle,
    the_copy,
    turn,
)

pytestmark = pytest.mark.psycopg


async def test_an_extended_claim_is_held_from_now_on(storage: Storage) -> None:
    held = await hold_one(storage)

    turn(storage, 20 * SECOND)
    answer = await storage.mailbox.extend([held.claim], WORKER, HOLD)

    assert answer == Extended()
    assert (await the_copy(storage, held.message_id)).due_at == NOON + 20 * SECOND + HOLD
    turn(storage, 40 * SECOND)
    assert await reap(storage) is None


async def test_a_lapsed_claim_that_nobody_took_is_still_ours(storage: Storage) -> None:
    held = await hold_one(storage)

    turn(storage, MINUTE)
    answer = await storage.mailbox.extend([held.claim], WORKER, HOLD)

    assert answer == Extended()
    assert await reap(storage) is None
    assert (await the_copy(storage, held.message_id)).due_at == NOON + MINUTE + HOLD


async def test_a_claim_that_another_has_taken_is_lost_and_not_extended(storage: Storage) -> None:
    held = await hold_one(storage)
    turn(storage, MINUTE)
    taken = await reap(storage)
    assert taken is not None

    turn(storage, MINUTE + SECOND)
    answer = await storage.mailbox.extend([held.claim], WORKER, HOLD)

    assert answer == Extended(lost=frozenset({held.claim}))
    assert (await the_copy(storage, held.message_id)).due_at == NOON + MINUTE + HOLD


async def test_a_claim_that_was_settled_is_lost(storage: Storage) -> None:
    done, released = await hold_one(storage, "a"), await hold_one(storage, "b")
    await settle(storage, done, DONE)
    await settle(storage, released, Release(MINUTE))

    answer = await storage.mailbox.extend([done.claim, released.claim], WORKER, HOLD)

    assert answer == Extended(lost=frozenset({done.claim, released.claim}))
    assert (await the_copy(storage, released.message_id, "b")).due_at == NOON + MINUTE


async def test_a_claim_that_never_was_is_lost(storage: Storage) -> None:
    invented = Claim(2**40, 1, uuid4())

    answer = await storage.mailbox.extend([invented], WORKER, HOLD)

    assert answer == Extended(lost=frozenset({invented}))


async def test_a_wish_to_cancel_is_told_with_the_extension(storage: Storage) -> None:
    held = await hold_one(storage)
    await storage.mailbox.cancel(held.message_id, "obsolete")

    turn(storage, SECOND)
    answer = await storage.mailbox.extend([held.claim], WORKER, HOLD)

    assert answer == Extended(asked=frozenset({held.claim}))
    assert (await the_copy(storage, held.message_id)).due_at == NOON + SECOND + HOLD


async def test_each_claim_of_a_batch_is_answered_for_itself(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(50)))
    claimed = await claim(storage)
    await settle(storage, claimed[7], DONE)
    await storage.mailbox.cancel(claimed[30].message_id, "obsolete")

    turn(storage, SECOND)
    answer = await storage.mailbox.extend([each.claim for each in reversed(claimed)], WORKER, HOLD)

    assert answer == Extended(lost=frozenset({claimed[7].claim}), asked=frozenset({claimed[30].claim}))
    assert (await the_copy(storage, claimed[49].message_id)).due_at == NOON + SECOND + HOLD


async def test_an_old_and_a_new_claim_of_one_delivery_are_told_apart(storage: Storage) -> None:
    old = await hold_one(storage)
    turn(storage, MINUTE)
    new = await reap(storage, owner="worker-1")
    assert new is not None

    answer = await storage.mailbox.extend([old.claim, new.claim], WORKER, HOLD)

    assert answer == Extended(lost=frozenset({old.claim}))
