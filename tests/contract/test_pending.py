"""How many wait for a group: what a publisher asks before it adds more."""

import pytest

from mainspring.model.message import Priority
from mainspring.model.verdict import DONE, Release
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, bury_one, claim, claim_one, draft, publish, settle, turn


async def test_what_nobody_holds_is_counted_due_or_not(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer", priority=level) for level in Priority))
    await publish(storage, *(draft(group="mailer", delay=HOUR) for _ in range(2)), draft(group="other"), draft())

    counted = await storage.ledger.pending({"mailer": 100, "other": 100, "nobody": 100})

    assert counted == {"mailer": 6, "other": 1, "nobody": 0}
    assert await storage.ledger.pending({}) == {}


@pytest.mark.psycopg
async def test_what_is_held_dead_or_done_is_not_counted(storage: Storage) -> None:
    await bury_one(storage)
    await publish(storage, *(draft(group="mailer") for _ in range(4)))
    done, back, *_lapsing = await claim(storage, limit=3)
    await settle(storage, done, DONE)
    held = await storage.ledger.pending({"mailer": 100})

    await settle(storage, back, Release())
    turn(storage, HOUR)

    # A lapsed claim is still somebody's until it is reaped.
    assert (held, await storage.ledger.pending({"mailer": 100})) == ({"mailer": 1}, {"mailer": 2})


async def test_each_group_is_counted_up_to_its_own_limit(storage: Storage) -> None:
    await publish(storage, *(draft(group=group) for group in ("mailer", "other") for _ in range(5)))

    assert await storage.ledger.pending({"mailer": 3, "other": 5}) == {"mailer": 3, "other": 5}
    assert await claim_one(storage, "other") is not None
    assert await storage.ledger.pending({"mailer": 1, "other": 5}) == {"mailer": 1, "other": 4}
