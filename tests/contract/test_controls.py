"""Pausing, resuming and retiring groups, audited."""

import pytest

from mainspring.model.message import Settled
from mainspring.model.verdict import DONE
from mainspring.model.views import Declaration
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    MINUTE,
    NOON,
    WORKER,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    found,
    ids,
    listed,
    publish,
    settle,
    turn,
)


@pytest.mark.memory
async def test_a_paused_group_gives_nothing_until_it_is_resumed(storage: Storage) -> None:
    await declare(storage, "mailer")
    message = draft()
    await publish(storage, message)

    paused = await storage.controls.pause("mailer", "ann", "upgrade")
    while_paused = await claim(storage)
    resumed = await storage.controls.resume("mailer", "bob")

    assert (paused, resumed) == (True, True)
    assert while_paused == []
    assert ids(await claim(storage)) == [message.id]


async def test_the_roster_says_who_paused_a_group_and_why(storage: Storage) -> None:
    await declare(storage, "mailer")

    turn(storage, MINUTE)
    await storage.controls.pause("mailer", "ann", "it's an upgrade")
    (paused,) = (await storage.ledger.roster()).groups
    await storage.controls.resume("mailer", "bob")
    (resumed,) = (await storage.ledger.roster()).groups

    assert (paused.paused_at, paused.paused_by) == (NOON + MINUTE, "ann")
    assert paused.pause_reason == "it's an upgrade"
    assert (resumed.paused_at, resumed.paused_by, resumed.pause_reason) == (None, None, None)


async def test_a_paused_group_still_receives_messages(storage: Storage) -> None:
    await declare(storage, "mailer")
    await storage.controls.pause("mailer", "ann", "upgrade")
    message = draft()

    await publish(storage, message)

    assert await listed(storage, "ready") == [message.id]


async def test_what_was_claimed_before_a_pause_is_extended_and_settled(storage: Storage) -> None:
    await declare(storage, "mailer")
    await publish(storage, draft())
    held = await claim_one(storage)
    await storage.controls.pause("mailer", "ann", "upgrade")

    extended = await storage.mailbox.extend([held.claim], WORKER, MINUTE)
    settled = await settle(storage, held, DONE)

    assert extended.lost == frozenset()
    assert settled == Settled()


async def test_a_pause_survives_a_new_declaration(storage: Storage) -> None:
    await declare(storage, "mailer")
    await storage.controls.pause("mailer", "ann", "upgrade")

    await storage.upkeep.declare([Declaration("mailer", "shop", ("other.topic",), "shop:other")])

    (group,) = (await storage.ledger.roster()).groups
    assert (group.paused_by, group.pause_reason) == ("ann", "upgrade")


async def test_a_group_nobody_declared_cannot_be_paused_resumed_or_retired(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"))

    assert await storage.controls.pause("mailer", "ann", "upgrade") is False
    assert await storage.controls.resume("mailer", "ann") is False
    assert await storage.controls.retire("mailer", "ann", 10) is None
    assert await storage.ledger.audit(None, 10) == []
    assert len(await claim(storage)) == 1


async def test_a_retired_group_loses_its_subscriptions_first_then_its_deliveries_in_batches(
    storage: Storage,
) -> None:
    await declare(storage, "mailer")
    batch = [draft() for _ in range(5)]
    await publish(storage, *batch)
    await claim_one(storage)

    first = await storage.controls.retire("mailer", "ann", 3)
    late = draft()
    await publish(storage, late)
    second = await storage.controls.retire("mailer", "ann", 3)
    last = await storage.controls.retire("mailer", "ann", 3)
    after = await storage.controls.retire("mailer", "ann", 3)

    assert (first, second, last, after) == (3, 2, 0, None)
    assert await listed(storage, "parked") == [late.id]
    assert (await storage.ledger.roster()).groups == ()


async def test_a_retired_groups_deliveries_are_kept_as_cancelled_runs(storage: Storage) -> None:
    await declare(storage, "mailer")
    message = draft()
    await publish(storage, message)
    held = await claim_one(storage)

    await storage.controls.retire("mailer", "ann", 10)

    view = await found(storage, message.id)
    assert view.deliveries == ()
    assert [(run.status, run.group, run.error) for run in view.runs] == [("cancelled", "mailer", "group retired")]
    assert await settle(storage, held, DONE) == Settled(gone=frozenset({held.claim}))


async def test_retiring_a_group_leaves_its_neighbours_and_its_dead_letters(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    buried = await bury_one(storage, "mailer")
    message = draft()
    await publish(storage, message)

    dropped = [await storage.controls.retire("mailer", "ann", 10) for _ in range(2)]

    assert dropped == [1, 0]
    assert await listed(storage, "dead") == [buried.message_id]
    assert ids(await claim(storage, "analytics")) == [message.id]
    assert [group.name for group in (await storage.ledger.roster()).groups] == ["analytics"]


async def test_a_retired_group_may_be_declared_anew_by_another_app(storage: Storage) -> None:
    await declare(storage, "mailer", app="shop")
    await storage.controls.retire("mailer", "ann", 10)

    await declare(storage, "mailer", app="crm")

    (group,) = (await storage.ledger.roster()).groups
    assert group.app == "crm"


async def test_what_an_operator_did_is_written_down_newest_first(storage: Storage) -> None:
    await declare(storage, "mailer")

    await storage.controls.pause("mailer", "ann", "it's an upgrade")
    turn(storage, MINUTE)
    await storage.controls.resume("mailer", "bob")
    await storage.controls.retire("mailer", "cid", 10)

    retired, resumed, paused = await storage.ledger.audit(None, 10)
    assert (paused.by, paused.action, paused.subject, paused.at) == ("ann", "pause", "mailer", NOON)
    assert "it's an upgrade" in paused.detail
    assert (resumed.by, resumed.action, resumed.subject) == ("bob", "resume", "mailer")
    assert (retired.by, retired.action, retired.subject) == ("cid", "retire", "mailer")
    assert resumed.at == retired.at == NOON + MINUTE
    assert paused.id < resumed.id < retired.id


async def test_the_audit_is_read_page_by_page(storage: Storage) -> None:
    await declare(storage, "mailer")
    for number in range(5):
        await storage.controls.pause("mailer", "ann", f"reason {number}")

    first = await storage.ledger.audit(None, 2)
    second = await storage.ledger.audit(first[-1].id, 2)
    third = await storage.ledger.audit(second[-1].id, 2)

    details = [each.detail for each in first + second + third]
    assert [detail[-1] for detail in details] == ["4", "3", "2", "1", "0"]
