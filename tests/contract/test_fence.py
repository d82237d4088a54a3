"""The fence: a verdict is written once, and only under its own unmoved epoch."""

from uuid import uuid4

import pytest

from mainspring.model.message import Claim, Settled
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Release, Retry, Settlement, Snooze, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    WORKER,
    bury_one,
    claim,
    claim_one,
    draft,
    failure,
    found,
    hold_one,
    publish,
    reap,
    settle,
    statuses,
    the_copy,
    turn,
)

VERDICTS: list[Verdict] = [
    DONE,
    Retry(NOW, failure()),
    Snooze(NOW, "later"),
    Release(),
    Bury(failure()),
    Cancel("obsolete"),
]
LEFT = {Retry: ["ready"], Snooze: ["ready"], Release: ["ready"], Bury: ["dead"]}
RUNS = {Retry: ["failed"], Snooze: ["snoozed"], Bury: ["dead"], Cancel: ["cancelled"], type(DONE): ["done"]}

every_verdict = pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)


async def _assert_written(storage: Storage, verdict: Verdict) -> None:
    runs = await storage.ledger.runs("mailer", None, 10)
    assert [run.status for run in runs] == RUNS.get(type(verdict), [])
    if runs:
        states = [view.state for view in (await found(storage, runs[0].message_id)).deliveries]
        assert states == LEFT.get(type(verdict), [])


@every_verdict
async def test_a_fresh_claim_settles(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)

    answer = await settle(storage, held, verdict, keep="all")

    assert answer == Settled()
    await _assert_written(storage, verdict)


@every_verdict
async def test_a_lapsed_claim_that_nobody_took_settles(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)

    turn(storage, 2 * HOLD)
    answer = await settle(storage, held, verdict, keep="all")

    assert answer == Settled()
    await _assert_written(storage, verdict)


@every_verdict
async def test_a_claim_that_another_has_taken_writes_nothing(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)
    turn(storage, MINUTE)
    taken = await reap(storage, owner="node-2")
    assert taken is not None

    turn(storage, MINUTE + SECOND)
    answer = await settle(storage, held, verdict, keep="all")

    assert answer == Settled(lost=frozenset({held.claim}))
    copy = await the_copy(storage, held.message_id)
    assert (copy.state, copy.held_by, copy.due_at) == ("running", "node-2", NOON + MINUTE + HOLD)
    assert (copy.attempt, copy.deaths) == (2, 0)
    assert await statuses(storage, held.message_id) == ["lost"]
    assert await settle(storage, taken, DONE, owner="node-2") == Settled()


@every_verdict
async def test_a_verdict_sent_again_counts_as_settled_and_is_not_written_twice(
    storage: Storage, verdict: Verdict
) -> None:
    held = await hold_one(storage)
    await settle(storage, held, verdict, keep="all")

    again = await settle(storage, held, verdict, keep="all")

    assert again == Settled(gone=frozenset({held.claim}))
    await _assert_written(storage, verdict)


@every_verdict
async def test_a_verdict_sent_again_after_a_lapse_counts_as_settled(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)
    turn(storage, MINUTE)
    await settle(storage, held, verdict, keep="all")

    turn(storage, 2 * MINUTE)
    again = await settle(storage, held, verdict, keep="all")

    assert again == Settled(gone=frozenset({held.claim}))


@pytest.mark.parametrize("verdict", VERDICTS[1:4], ids=lambda verdict: type(verdict).__name__)
async def test_a_verdict_sent_again_after_the_next_claim_is_lost(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)
    await settle(storage, held, verdict)
    next_holder = await claim_one(storage, owner="node-2")

    again = await settle(storage, held, verdict)

    assert again == Settled(lost=frozenset({held.claim}))
    assert (await the_copy(storage, held.message_id)).held_by == "node-2"
    assert await settle(storage, next_holder, DONE, owner="node-2") == Settled()


async def test_the_epoch_of_a_buried_delivery_is_fenced_by_its_revival(storage: Storage) -> None:
    buried = await bury_one(storage)
    await storage.controls.revive(DeadSelection(), "ann", 10)

    again = await settle(storage, buried, Bury(failure()))

    assert again == Settled(lost=frozenset({buried.claim}))
    assert (await the_copy(storage, buried.message_id)).state == "ready"


async def test_a_claim_of_a_future_epoch_is_lost(storage: Storage) -> None:
    held = await hold_one(storage)
    ahead = held.claim._replace(epoch=held.epoch + 1)

    answer = await settle(storage, ahead, DONE)

    assert answer == Settled(lost=frozenset({ahead}))
    assert (await the_copy(storage, held.message_id)).state == "running"


async def test_a_claim_that_never_was_counts_as_settled(storage: Storage) -> None:
    invented = Claim(2**40, 3, uuid4())

    answer = await settle(storage, invented, DONE)

    assert answer == Settled(gone=frozenset({invented}))


async def test_each_verdict_of_a_batch_is_fenced_for_itself(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(30)))
    held = await claim(storage)
    await settle(storage, held[3], DONE)
    turn(storage, MINUTE)
    reaped = [await reap(storage, owner="node-2") for _ in range(2)]
    lost = {each.claim for each in held if each.id in {taken.id for taken in reaped if taken is not None}}

    answer = await storage.mailbox.settle([Settlement(each.claim, DONE) for each in reversed(held)], WORKER)

    assert len(lost) == 2
    assert answer == Settled(lost=frozenset(lost), gone=frozenset({held[3].claim}))
    running = [view for each in held for view in (await found(storage, each.message_id)).deliveries]
    assert [view.held_by for view in running] == ["node-2", "node-2"]


@pytest.mark.parametrize("old_first", [True, False])
async def test_an_old_and_a_new_claim_of_one_delivery_in_one_batch_do_not_mix(
    storage: Storage, old_first: bool
) -> None:
    old = await hold_one(storage)
    turn(storage, MINUTE)
    new = await reap(storage)
    assert new is not None
    batch = [
        Settlement(old.claim, Retry(HOLD, failure("not mine"))),
        Settlement(new.claim, Retry(MINUTE, failure("mine"))),
    ]

    answer = await storage.mailbox.settle(batch if old_first else batch[::-1], WORKER)

    assert answer == Settled(lost=frozenset({old.claim}))
    copy = await the_copy(storage, old.message_id)
    assert (copy.state, copy.attempt, copy.due_at) == ("scheduled", 2, NOON + 2 * MINUTE)
    lost, run = (await found(storage, old.message_id)).runs
    assert (lost.status, run.status, run.error) == ("lost", "failed", "mine")
