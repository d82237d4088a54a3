"""Upcoming: how long a worker may sleep."""

from mainspring.model.message import Priority
from mainspring.model.verdict import Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, MINUTE, SECOND, TICK, claim_one, declare, draft, failure, publish, settle, turn


async def test_the_next_due_time_of_any_level_and_group_counts(storage: Storage) -> None:
    await publish(
        storage,
        draft(group="mailer", delay=HOUR),
        draft(group="mailer", delay=3 * MINUTE, priority=Priority.LOW),
        draft(group="analytics", delay=2 * MINUTE),
        draft(group="other", delay=SECOND),
    )

    assert await storage.mailbox.upcoming(["mailer"]) == 3 * MINUTE
    assert await storage.mailbox.upcoming(["mailer", "analytics", "unknown"]) == 2 * MINUTE


async def test_without_anything_to_come_there_is_no_answer(storage: Storage) -> None:
    assert await storage.mailbox.upcoming(["mailer"]) is None
    assert await storage.mailbox.upcoming([]) is None


async def test_what_is_due_already_does_not_count(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"), draft(group="mailer", delay=MINUTE))

    assert await storage.mailbox.upcoming(["mailer"]) == MINUTE
    turn(storage, MINUTE - TICK)
    assert await storage.mailbox.upcoming(["mailer"]) == TICK
    turn(storage, MINUTE)
    assert await storage.mailbox.upcoming(["mailer"]) is None


async def test_what_came_due_a_moment_ago_counts_for_who_looks_back(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", delay=MINUTE), draft(group="mailer", delay=HOUR))
    turn(storage, MINUTE + 10 * TICK)

    back_to_it = await storage.mailbox.upcoming(["mailer"], 11 * TICK)
    not_so_far = await storage.mailbox.upcoming(["mailer"], 10 * TICK)

    assert back_to_it == -10 * TICK
    assert not_so_far == HOUR - MINUTE - 10 * TICK


async def test_what_is_held_does_not_count_until_it_is_handed_back(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"))
    delivery = await claim_one(storage)

    held = await storage.mailbox.upcoming(["mailer"])
    await settle(storage, delivery, Retry(5 * SECOND, failure()))
    handed_back = await storage.mailbox.upcoming(["mailer"])

    assert held is None
    assert handed_back == 5 * SECOND


async def test_a_paused_group_does_not_count(storage: Storage) -> None:
    await declare(storage, "mailer")
    await publish(storage, draft(group="mailer", delay=SECOND), draft(group="analytics", delay=MINUTE))
    await storage.controls.pause("mailer", "ann", "upgrade")

    upcoming = await storage.mailbox.upcoming(["mailer", "analytics"])

    assert upcoming == MINUTE
