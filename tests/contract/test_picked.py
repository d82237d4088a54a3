"""What an operator does to deliveries that were picked one by one."""

from datetime import timedelta
from uuid import uuid4

import pytest

from mainspring.model.message import Cancelled, Priority, Scan
from mainspring.model.schedule import NEVER
from mainspring.model.search import DeadSelection, Filter, Line, Picked
from mainspring.model.verdict import Release
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    WORKER,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    hold_one,
    ids,
    listed,
    publish,
    settle,
    statuses,
    the_copy,
    turn,
)


async def audited(storage: Storage) -> list[tuple[str, str, str, str]]:
    return [(each.by, each.action, each.subject, each.detail) for each in await storage.ledger.audit(None, 10)]


async def test_those_picked_of_the_dead_are_revived_and_no_others(storage: Storage) -> None:
    dead = [await bury_one(storage) for _ in range(3)]
    picked: Picked = tuple((each.message_id, "mailer") for each in (dead[2], dead[0], dead[0]))

    revived = await storage.controls.revive(DeadSelection(picked=picked), "ann", 10)

    assert revived == 2
    assert await listed(storage, "dead") == [dead[1].message_id]
    assert await listed(storage, "ready") == [dead[2].message_id, dead[0].message_id]
    assert await audited(storage) == [("ann", "revive", "3 picked", "2 revived")]


async def test_those_picked_of_the_dead_are_discarded_and_no_others(storage: Storage) -> None:
    dead = [await bury_one(storage, error=f"error {number}") for number in "ab"]
    one: Picked = ((dead[0].message_id, "mailer"),)

    stranger = await storage.controls.discard(DeadSelection(picked=((dead[0].message_id, "other"),)), "ann", 10)
    narrowed = await storage.controls.discard(DeadSelection(picked=one, error="error b"), "ann", 10)
    discarded = await storage.controls.discard(DeadSelection(picked=one), "ann", 10)
    nobody = await storage.controls.discard(DeadSelection(picked=()), "ann", 10)

    assert (stranger, narrowed, discarded, nobody) == (0, 0, 1, 0)
    assert await listed(storage, "dead") == [dead[1].message_id]
    subject = f"message {dead[0].message_id}, group mailer"
    assert await audited(storage) == [("ann", "discard", subject, "1 discarded")]


async def test_of_those_picked_no_more_than_the_limit_and_the_oldest_first(storage: Storage) -> None:
    dead = [await bury_one(storage) for _ in range(3)]
    picked: Picked = tuple((each.message_id, "mailer") for each in reversed(dead))

    assert await storage.controls.revive(DeadSelection(picked=picked), "ann", 1) == 1
    assert await listed(storage, "ready") == [dead[0].message_id]


async def test_what_is_scheduled_is_due_now(storage: Storage) -> None:
    later, latest = draft(group="mailer", delay=HOUR), draft(group="mailer", delay=2 * HOUR)
    await publish(storage, later, latest)

    due_now = await storage.controls.run_now(((latest.id, "mailer"), (latest.id, "mailer")), "ann")
    (delivery,) = await claim(storage)

    assert due_now == 1
    assert (delivery.message_id, delivery.epoch, delivery.attempt) == (latest.id, 1, 1)
    assert delivery.scheduled_for == NOON + 2 * HOUR, "what was asked for is remembered"
    assert await listed(storage, "scheduled") == [later.id]
    assert await audited(storage) == [("ann", "run_now", "2 picked", "1 due now")]


async def test_what_is_due_held_or_unknown_is_not_due_now(storage: Storage) -> None:
    held = await hold_one(storage)
    ready = draft(group="mailer")
    await publish(storage, ready, draft(group="other", delay=HOUR))
    picked: Picked = ((held.message_id, "mailer"), (ready.id, "mailer"), (uuid4(), "other"))

    assert await storage.controls.run_now(picked, "ann") == 0
    assert await storage.controls.run_now((), "ann") == 0
    assert (await the_copy(storage, held.message_id)).due_at == NOON + HOLD
    assert await audited(storage) == []


async def test_a_retry_is_due_now_and_what_waits_for_a_run_of_its_schedule_is_not(storage: Storage) -> None:
    held = await hold_one(storage)
    await settle(storage, held, Release(timedelta(hours=1)))
    waiting = draft(group="mailer", schedule="daily", at=NEVER)
    await publish(storage, waiting)

    due_now = await storage.controls.run_now(((held.message_id, "mailer"), (waiting.id, "mailer")), "ann")

    assert due_now == 1
    assert await listed(storage, "ready") == [held.message_id]
    assert (await the_copy(storage, waiting.id)).due_at == NEVER


async def test_a_due_now_delivery_lies_above_the_low_water_mark(storage: Storage) -> None:
    one = draft(group="mailer", delay=HOUR)
    await publish(storage, one)
    turn(storage, MINUTE)
    await storage.controls.run_now(((one.id, "mailer"),), "ann")

    from_now_on = tuple(Scan(level, NOON + MINUTE) for level in Priority)

    assert ids(await claim(storage, scans=from_now_on)) == [one.id]


async def test_those_picked_are_withdrawn_and_no_other_copies(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    one, parked = draft(), draft("nobody.listens")
    await publish(storage, one, parked)

    answer = await storage.controls.cancel(
        ((one.id, "mailer"), (one.id, "mailer"), (parked.id, ""), (uuid4(), "mailer")), "ann", "no longer wanted"
    )

    assert answer == Cancelled(cancelled=2, asked=0)
    assert [view.group for view in (await storage.ledger.browse(Filter())).rows] == ["analytics"]
    assert await listed(storage, "parked") == []
    assert await statuses(storage, one.id) == await statuses(storage, parked.id) == ["cancelled"]
    runs = await storage.ledger.runs(None, None, 10)
    assert {(run.group, run.error, run.topic) for run in runs} == {
        ("mailer", "no longer wanted", "orders.placed"),
        ("", "no longer wanted", "nobody.listens"),
    }
    assert await audited(storage) == [
        ("ann", "cancel", "4 picked", "2 cancelled, 0 asked to stop: no longer wanted"),
    ]


async def test_the_holder_of_what_is_withdrawn_is_asked_to_stop(storage: Storage) -> None:
    held = await hold_one(storage)

    answer = await storage.controls.cancel(((held.message_id, "mailer"),), "ann", "enough")
    extended = await storage.mailbox.extend([held.claim], WORKER, HOLD)

    assert answer == Cancelled(cancelled=0, asked=1)
    assert extended.asked == {held.claim}
    assert (await the_copy(storage, held.message_id)).cancel_asked


async def test_what_is_dead_or_a_parked_message_by_a_group_is_not_withdrawn(storage: Storage) -> None:
    dead = await bury_one(storage)
    parked = draft("nobody.listens")
    await publish(storage, parked)

    answer = await storage.controls.cancel(((dead.message_id, "mailer"), (parked.id, "mailer")), "ann", "why")

    assert answer == Cancelled(0, 0)
    assert await audited(storage) == []


@pytest.mark.psycopg
async def test_a_line_is_brought_up_to_date_with_every_batch_until_it_says_how_it_ended(storage: Storage) -> None:
    dead = [await bury_one(storage) for _ in range(2)]
    later, ready = draft(group="mailer", delay=HOUR), draft(group="mailer")
    await publish(storage, later, ready)
    other = await storage.controls.note("other", "else", "bob", "0 done; goes on")
    line = Line(await storage.controls.note("steer", "state dead", "ann", "0 done; goes on"), "done", 3)

    async def told() -> str:
        (latest, untouched) = await audited(storage)
        assert (latest[:3], untouched) == (("ann", "steer", "state dead"), ("bob", "other", "else", "0 done; goes on"))
        return latest[3]

    await storage.controls.revive(DeadSelection(picked=((dead[0].message_id, "mailer"),)), line, 10)
    assert await told() == "4 done; goes on"
    await storage.controls.discard(DeadSelection(picked=((dead[1].message_id, "mailer"),)), line.after(1), 10)
    assert await told() == "5 done; goes on"
    await storage.controls.run_now(((later.id, "mailer"),), line.after(2))
    assert await told() == "6 done; goes on"
    await storage.controls.cancel(((ready.id, "mailer"), (later.id, "mailer")), line.after(3), "why")
    assert await told() == "8 done; goes on"
    await storage.controls.amend(line.id, "failed: \ud800 it goes on")
    assert (await told()).startswith("8 done; failed: ")
    assert other != line.id


async def test_a_line_that_has_been_pruned_holds_nothing_up(storage: Storage) -> None:
    dead = await bury_one(storage)

    assert await storage.controls.revive(DeadSelection(message_id=dead.message_id), Line(10**9, "done"), 10) == 1
    await storage.controls.amend(10**9, "ended")
    assert await audited(storage) == []


async def test_what_is_noted_may_hold_any_character(storage: Storage) -> None:
    await storage.controls.note("revive", "state dead, group 日", "ann\x00", "4 revived \ud800")
    ((by, action, subject, detail),) = await audited(storage)
    assert (action, subject) == ("revive", "state dead, group 日")
    assert (by.rstrip("\x00").removesuffix("\\x00"), detail.split()[:2]) == ("ann", ["4", "revived"])


async def test_a_due_now_delivery_keeps_its_fence(storage: Storage) -> None:
    held = await hold_one(storage)
    await settle(storage, held, Release(timedelta(hours=1)))
    await storage.controls.run_now(((held.message_id, "mailer"),), "ann")

    again = await claim_one(storage, owner="worker-2")

    assert again.epoch == held.epoch + 1
    assert (await storage.mailbox.extend([held.claim], WORKER, HOLD)).lost == {held.claim}
