"""Held: a delivery is read back under its claim, by any process, for as long as the claim is held."""

from datetime import timedelta
from uuid import uuid4

import pytest

from mainspring.model.message import Claim, Priority
from mainspring.model.verdict import DONE, Release
from mainspring.model.worker import holder
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    claim_one,
    draft,
    hold_one,
    publish,
    reap,
    settle,
    turn,
)

OWNER = holder("node-1", "0123456789abcdef")


@pytest.mark.memory
@pytest.mark.psycopg
async def test_it_is_read_back_as_it_was_claimed_but_for_the_end_of_its_claim(storage: Storage) -> None:
    one = draft(
        group="mailer", key="k", headers={"a": "b"}, payload=b"p", priority=Priority.HIGH, correlation_id="order:1",
        causation_id=uuid4(), schedule="nightly", delay=SECOND, expires_in=HOUR,
    )  # fmt: skip
    await publish(storage, one)
    turn(storage, MINUTE)
    claimed = await claim_one(storage, owner=OWNER)
    turn(storage, MINUTE + SECOND)

    held = await storage.ledger.held(claimed.claim)

    assert held is not None
    assert (held.owner, held.now) == (OWNER, NOON + MINUTE + SECOND)
    assert held.delivery == claimed._replace(due_at=NOON + MINUTE + HOLD)
    assert held.delivery.claimed_at == NOON + MINUTE


async def test_what_was_extended_cancelled_and_has_expired_since_says_so(storage: Storage) -> None:
    claimed = await hold_one(storage, one=draft(group="mailer", expires_in=SECOND))
    turn(storage, MINUTE)
    await storage.mailbox.extend([claimed.claim], "worker-1", HOUR)
    await storage.mailbox.cancel(claimed.message_id, "obsolete")

    held = await storage.ledger.held(claimed.claim)

    assert held is not None
    assert held.delivery.due_at == NOON + MINUTE + HOUR
    assert (held.delivery.expired, held.delivery.cancel_asked) == (True, True)


@pytest.mark.psycopg
async def test_a_suspect_is_read_back_with_its_deaths_and_a_lapsed_claim_is_still_held(storage: Storage) -> None:
    await hold_one(storage)
    for minute in (1, 2):
        turn(storage, minute * MINUTE)
        reaped = await reap(storage)
    assert reaped is not None
    turn(storage, HOUR)

    held = await storage.ledger.held(reaped.claim)

    assert held is not None
    assert (held.delivery.suspect, held.delivery.deaths, held.delivery.attempt) == (True, 1, 3)


@pytest.mark.parametrize("other", ["id", "epoch", "message"])
async def test_another_id_epoch_or_message_holds_nothing(storage: Storage, other: str) -> None:
    id, epoch, message_id = (await hold_one(storage)).claim
    wrong = {
        "id": Claim(id + 1, epoch, message_id),
        "epoch": Claim(id, epoch + 1, message_id),
        "message": Claim(id, epoch, uuid4()),
    }

    assert await storage.ledger.held(wrong[other]) is None


@pytest.mark.parametrize("end", ["done", "released", "reaped"])
async def test_what_has_ended_was_released_or_taken_over_is_held_no_more(storage: Storage, end: str) -> None:
    claimed = await hold_one(storage)
    match end:
        case "done":
            await settle(storage, claimed, DONE)
        case "released":
            await settle(storage, claimed, Release(timedelta(0)))
        case _:
            turn(storage, MINUTE)
            await reap(storage, owner="node-2")

    assert await storage.ledger.held(claimed.claim) is None
