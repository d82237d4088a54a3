"""Uniqueness: of messages that are alike one is stored, by what became of the earlier one."""

from uuid import UUID, uuid4

import pytest

from mainspring.model.message import Keeps, Receipt, Scope
from mainspring.model.retention import Pruned, Retention
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
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
    found,
    ids,
    listed,
    settle,
    statuses,
    the_copy,
    turn,
)
from tests.contract.uniqueness import OTHER, publish, stored

PLAIN = Retention(repeats=HOUR)


@pytest.mark.parametrize("scope", ["pending", "running", MINUTE])
async def test_the_first_is_stored_and_the_second_is_its_duplicate(storage: Storage, scope: Scope) -> None:
    await declare(storage, "mailer")
    first, second = draft(), draft()

    receipts = [await publish(storage, each, scope) for each in (first, second)]

    assert receipts == [Receipt(first.id, "stored"), Receipt(first.id, "duplicate")]
    assert type(receipts[1].id) is UUID
    assert await storage.ledger.find(second.id) is None
    assert ids(await claim(storage)) == [first.id]


async def test_what_is_not_alike_is_stored(storage: Storage) -> None:
    await stored(storage)
    other = await stored(storage, hash=OTHER)

    assert await publish(storage, hash=OTHER) == Receipt(other, "duplicate")


async def test_a_message_that_was_published_without_saying_so_is_not_asked_for(storage: Storage) -> None:
    await storage.mailbox.publish([draft(group="mailer")])

    await stored(storage)


async def test_what_a_worker_has_taken_is_running_and_not_pending(storage: Storage) -> None:
    first = await stored(storage)
    await claim_one(storage)

    running = await publish(storage, scope="running")
    second = await stored(storage, scope="pending")
    third = await publish(storage, scope="pending")

    assert running == Receipt(first, "duplicate")
    assert third == Receipt(second, "duplicate")


@pytest.mark.parametrize("verdict", [Retry(HOUR, failure()), Snooze(HOUR), Release()])
async def test_what_will_be_run_again_is_running_and_not_pending(storage: Storage, verdict: Verdict) -> None:
    first = await stored(storage)
    await settle(storage, await claim_one(storage), verdict)

    running = await publish(storage, scope="running")
    pending = await publish(storage, scope="pending")

    assert running == Receipt(first, "duplicate")
    assert pending.status == "stored"


@pytest.mark.parametrize("verdict", [Done(), Bury(failure()), Cancel("no")])
@pytest.mark.parametrize("scope", ["pending", "running"])
async def test_what_has_ended_counts_no_more(storage: Storage, verdict: Verdict, scope: Scope) -> None:
    await stored(storage, scope=scope)
    await settle(storage, await claim_one(storage), verdict)

    second = await stored(storage, scope=scope)

    assert await publish(storage, scope=scope) == Receipt(second, "duplicate")


async def test_what_was_cancelled_counts_no_more(storage: Storage) -> None:
    first = await stored(storage)
    await storage.mailbox.cancel(first, "obsolete")

    await stored(storage)


@pytest.mark.parametrize("scope", ["pending", "running"])
async def test_what_is_to_run_later_counts_until_then(storage: Storage, scope: Scope) -> None:
    first = await stored(storage, draft(group="mailer", delay=DAY), scope)

    turn(storage, DAY - TICK)

    assert await publish(storage, scope=scope) == Receipt(first, "duplicate")


@pytest.mark.parametrize("scope", ["pending", "running"])
async def test_what_nobody_subscribes_to_counts(storage: Storage, scope: Scope) -> None:
    first = await stored(storage, draft(), scope)
    parked = await publish(storage, draft(), scope)

    await declare(storage, "mailer")
    await storage.upkeep.reroute(10)
    routed = await publish(storage, draft(), scope)

    assert parked == routed == Receipt(first, "duplicate")


async def test_with_several_groups_one_that_has_begun_is_a_beginning(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    first = await stored(storage, draft(), "pending")
    taken = await claim_one(storage, "mailer")

    second = await stored(storage, draft(), "pending")
    await settle(storage, taken, Done())
    third = await publish(storage, draft(), "pending")

    assert third == Receipt(second, "duplicate")
    assert set(await listed(storage, "ready")) == {first, second}


async def test_with_several_groups_one_that_has_ended_had_begun(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    first = await stored(storage, draft(), "running")
    await settle(storage, await claim_one(storage, "mailer"), Done())

    running = await publish(storage, draft(), "running")
    pending = await publish(storage, draft(), "pending")

    assert running == Receipt(first, "duplicate")
    assert pending.status == "stored"


async def test_a_window_counts_from_when_the_first_was_stored(storage: Storage) -> None:
    first = await stored(storage, scope=10 * MINUTE)
    await settle(storage, await claim_one(storage), Done())

    turn(storage, 10 * MINUTE - TICK)
    within = await publish(storage, scope=10 * MINUTE)
    turn(storage, 10 * MINUTE)
    after = await publish(storage, scope=10 * MINUTE)

    assert within == Receipt(first, "duplicate")
    assert after.status == "stored"


async def test_a_window_outlasts_its_message(storage: Storage) -> None:
    first = await stored(storage, scope=DAY)
    await settle(storage, await claim_one(storage), Done())
    turn(storage, DAY - TICK)

    pruned = await storage.upkeep.prune(PLAIN, 100)

    assert pruned == Pruned(messages=1)
    assert await publish(storage, scope=DAY) == Receipt(first, "duplicate")


async def test_a_longer_window_is_remembered_from_when_it_is_asked_for(storage: Storage) -> None:
    first = await stored(storage, scope=MINUTE)
    await settle(storage, await claim_one(storage), Done())
    asked = await publish(storage, scope=DAY)
    turn(storage, 20 * HOUR)
    await storage.upkeep.prune(PLAIN, 100)

    later = await publish(storage, scope=DAY)

    assert asked == later == Receipt(first, "duplicate")


async def test_the_last_replaces_what_has_not_begun(storage: Storage) -> None:
    first = await stored(storage, draft(group="mailer", delay=MINUTE), keep="last", scope="pending")
    turn(storage, 30 * SECOND)
    second = draft(group="mailer", delay=MINUTE)

    receipt = await publish(storage, second, "pending", "last")

    (run,) = (await found(storage, first)).runs
    assert receipt == Receipt(second.id, "replaced")
    assert (run.status, run.error, run.source, run.node) == ("cancelled", "replaced", "delayed", None)
    assert (run.started_at, run.finished_at) == (NOON + 30 * SECOND, NOON + 30 * SECOND)
    assert (await the_copy(storage, second.id)).due_at == NOON + 90 * SECOND
    assert await listed(storage, "scheduled") == [second.id]


async def test_each_of_many_is_replaced_by_the_next(storage: Storage) -> None:
    drafts = [draft(group="mailer", delay=MINUTE) for _ in range(5)]

    receipts = [await publish(storage, each, "pending", "last") for each in drafts]

    assert [each.status for each in receipts] == ["stored", *["replaced"] * 4]
    assert await listed(storage, "scheduled") == [drafts[-1].id]


async def test_what_has_begun_is_left_alone_by_the_last(storage: Storage) -> None:
    first = await stored(storage, keep="last", scope="pending")
    taken = await claim_one(storage)

    second = await publish(storage, keep="last", scope="pending")

    assert second.status == "stored"
    assert (await the_copy(storage, first)).cancel_asked is False
    assert (await settle(storage, taken, Done())).gone == frozenset()
    assert ids(await claim(storage)) == [second.id]


async def test_of_several_groups_those_that_have_not_begun_are_replaced(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    first = await stored(storage, draft(), keep="last", scope="pending")
    await claim_one(storage, "mailer")

    second = await publish(storage, draft(), keep="last", scope="pending")

    assert second.status == "replaced"
    assert [run.group for run in (await found(storage, first)).runs] == ["analytics"]
    assert ids(await claim(storage, "analytics")) == [second.id]
    assert ids(await claim(storage, "mailer")) == [second.id]


async def test_what_is_parked_is_replaced(storage: Storage) -> None:
    first = await stored(storage, draft(), keep="last", scope="pending")

    second = await publish(storage, draft(), keep="last", scope="pending")

    assert second.status == "replaced"
    assert await statuses(storage, first) == ["cancelled"]
    assert await listed(storage, "parked") == [second.id]


@pytest.mark.parametrize("keep", ["first", "last"])
async def test_a_call_that_is_sent_again_finds_what_it_has_stored(storage: Storage, keep: Keeps) -> None:
    one = draft(group="mailer")
    scope: Scope = "pending" if keep == "last" else "running"

    receipts = [await publish(storage, one, scope, keep) for _ in range(2)]

    assert receipts == [Receipt(one.id, "stored")] * 2
    assert ids(await claim(storage)) == [one.id]


async def test_a_call_that_is_sent_again_takes_nothing_from_who_replaced_it(storage: Storage) -> None:
    one, other = draft(group="mailer"), draft(group="mailer")
    await publish(storage, one, "pending", "last")
    await publish(storage, other, "pending", "last")

    again = await publish(storage, one, "pending", "last")

    assert again == Receipt(one.id, "stored")
    assert ids(await claim(storage)) == [other.id]


async def test_a_revived_dead_letter_is_another_matter(storage: Storage) -> None:
    first = await stored(storage)
    await settle(storage, await claim_one(storage), Bury(failure()))
    second = await stored(storage)

    await storage.controls.revive(DeadSelection(), "ann", 10)

    assert await publish(storage) == Receipt(second, "duplicate")
    assert set(await listed(storage, "ready")) == {first, second}


async def test_an_id_that_is_known_otherwise_changes_nothing(storage: Storage) -> None:
    known = draft(group="mailer", id=uuid4())
    await storage.mailbox.publish([known])

    receipt = await publish(storage, known)

    assert receipt == Receipt(known.id, "stored")
    assert (await publish(storage)).status == "stored"
