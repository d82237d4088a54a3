"""Take: one delivery by its message and group, due or not."""

import pytest

from mainspring.storage.contract import Storage
from tests.contract.acting import HOLD, HOUR, MINUTE, NOON, claim, claim_one, declare, draft, publish, the_copy, turn

pytestmark = pytest.mark.psycopg


async def test_what_is_not_due_yet_is_taken_all_the_same(storage: Storage) -> None:
    message = draft(group="mailer", delay=HOUR, headers={"a": "b"}, key="k")
    await publish(storage, message)

    taken = await storage.mailbox.take(message.id, "mailer", "node-7", HOLD)

    assert taken is not None
    assert (taken.message_id, taken.group, taken.epoch, taken.attempt) == (message.id, "mailer", 1, 1)
    assert (taken.due_at, taken.scheduled_for, taken.claimed_at) == (NOON + HOUR, NOON + HOUR, NOON)
    assert (taken.headers, taken.key, taken.suspect, taken.expired) == ({"a": "b"}, "k", False, False)
    copy = await the_copy(storage, message.id)
    assert (copy.state, copy.held_by, copy.due_at) == ("running", "node-7", NOON + HOLD)


async def test_what_somebody_holds_is_not_taken_even_when_its_claim_has_lapsed(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)
    held = await claim_one(storage)
    turn(storage, MINUTE)

    assert await storage.mailbox.take(message.id, "mailer", "node-7", HOLD) is None

    assert (await the_copy(storage, message.id)).attempt == held.attempt


async def test_only_the_group_that_is_named_is_taken(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.*")
    await declare(storage, "analytics", "orders.*")
    message = draft("orders.placed")
    await publish(storage, message)

    taken = await storage.mailbox.take(message.id, "analytics", "node-7", HOLD)

    assert taken is not None
    assert taken.group == "analytics"
    assert [each.group for each in await claim(storage, "mailer")] == ["mailer"]
    assert await claim(storage, "analytics") == []


async def test_what_is_not_there_is_not_taken(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)

    assert await storage.mailbox.take(draft().id, "mailer", "node-7", HOLD) is None
    assert await storage.mailbox.take(message.id, "other", "node-7", HOLD) is None


async def test_a_pause_does_not_keep_it_from_being_taken(storage: Storage) -> None:
    await declare(storage, "mailer")
    message = draft(group="mailer")
    await publish(storage, message)
    await storage.controls.pause("mailer", "ann", "upgrade")

    assert await storage.mailbox.take(message.id, "mailer", "node-7", HOLD) is not None
