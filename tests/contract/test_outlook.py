"""Outlook: whether a worker of an app would have something to do, and when."""

from uuid import uuid4

import pytest

from mainspring.model.join import Join, is_member
from mainspring.model.message import Priority
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.contract import Storage
from tests.contract.acting import HOLD, HOUR, MINUTE, NOON, SECOND, WORKER, claim_one, declare, draft, publish, turn
from tests.contract.scheduling import keep, leaving, schedule

GROUPS = ["mailer", "analytics"]


async def test_an_empty_database_has_nothing_to_do(storage: Storage) -> None:
    assert await storage.upkeep.outlook("shop", GROUPS) is None
    assert await storage.upkeep.outlook("shop", []) is None


async def test_a_delivery_that_is_due_is_to_be_done_now_and_a_later_one_later(storage: Storage) -> None:
    await publish(storage, draft(group="analytics", delay=HOUR, priority=Priority.LOW), draft(group="other"))
    later = await storage.upkeep.outlook("shop", GROUPS)
    await publish(storage, draft(group="mailer"))
    turn(storage, SECOND)

    assert later == HOUR
    assert await storage.upkeep.outlook("shop", GROUPS) == -SECOND


async def test_a_claim_may_have_to_be_taken_over_when_it_ends(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"))
    await claim_one(storage)

    held = await storage.upkeep.outlook("shop", GROUPS)
    turn(storage, HOLD + SECOND)
    lapsed = await storage.upkeep.outlook("shop", GROUPS)

    assert held == HOLD
    assert lapsed == -SECOND


async def test_a_paused_group_has_nothing_to_do(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.*")
    await publish(storage, draft(group="mailer"))
    await storage.controls.pause("mailer", "ann", "")

    assert await storage.upkeep.outlook("shop", GROUPS) is None


async def test_a_schedule_of_the_app_counts_unless_all_stand_still(storage: Storage) -> None:
    await keep(storage, schedule(next_at=NOON + MINUTE))

    waiting = await storage.upkeep.outlook("shop", [])
    others = await storage.upkeep.outlook("billing", [])
    await storage.timetable.freeze("shop", "ann", "")

    assert waiting == MINUTE
    assert others is None
    assert await storage.upkeep.outlook("shop", []) is None


@pytest.mark.psycopg
async def test_the_end_of_a_join_is_to_be_followed_up(storage: Storage) -> None:
    id = uuid4()
    await storage.mailbox.join(Join(id, draft("all.done", id=id, group="boss"), None), [draft(group="mailer")])
    delivery = await claim_one(storage)
    await storage.mailbox.settle([Settlement(delivery.claim, DONE, member=is_member(delivery))], WORKER)

    ended = await storage.upkeep.outlook("shop", GROUPS)
    await storage.timetable.tick("shop", leaving, 10)

    assert ended is not None
    assert not ended
    assert await storage.upkeep.outlook("shop", GROUPS) is None
