"""What is written under the right seq and epoch by another holder, or on another message: all of it is refused.

A database that was promoted or restored hands out seqs and epochs again. Whoever kept a claim on what is gone has then
the very numbers under which somebody else holds another message.
"""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from mainspring.model.fanout import Batch, Candidate, Planning
from mainspring.model.inbox import InboxFilter, InboxKey, MarkStatus
from mainspring.model.lease import Hold, Renewal, Renewed
from mainspring.model.limits import Limits, Rate
from mainspring.model.message import ALL_LEVELS, Claim, ClaimRequest, Delivery, Extended, Progress, Settled
from mainspring.model.search import Filter
from mainspring.model.verdict import DONE, Bury, Cancel, Release, Retry, Settlement, Snooze, Verdict
from mainspring.model.worker import holder, shown
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    claim,
    declare,
    draft,
    failure,
    found,
    publish,
    settle,
    the_copy,
    turn,
)

OURS = holder("node", "0123456789abcdef")
THEIRS = holder("node", "fedcba9876543210")
"""The same worker, started again."""

every_verdict = pytest.mark.parametrize(
    "verdict",
    [DONE, Retry(MINUTE, failure()), Snooze(MINUTE), Release(), Bury(failure()), Cancel()],
    ids=lambda verdict: type(verdict).__name__,
)
every_keep = pytest.mark.parametrize("keep", ["failures", "all"])


async def held_by_us(storage: Storage) -> Delivery:
    await publish(storage, draft(group="mailer"))
    (delivery,) = await claim(storage, owner=OURS)
    return delivery


def of_another_message(claimed: Claim) -> Claim:
    return claimed._replace(message_id=uuid4())


async def assert_untouched(storage: Storage, delivery: Delivery) -> None:
    copy = await the_copy(storage, delivery.message_id)
    assert (copy.state, copy.held_by, copy.due_at) == ("running", "node", NOON + HOLD)
    assert (copy.attempt, copy.progress) == (1, None)
    assert (await found(storage, delivery.message_id)).runs == ()
    assert await settle(storage, delivery, DONE, owner=OURS) == Settled()


@every_verdict
@every_keep
async def test_nobody_but_its_holder_settles_a_claim(storage: Storage, verdict: Verdict, keep: str) -> None:
    delivery = await held_by_us(storage)

    turn(storage, MINUTE / 6)
    answer = await settle(storage, delivery, verdict, keep, owner=THEIRS)  # type: ignore[arg-type]

    assert answer == Settled(lost=frozenset({delivery.claim}))
    await assert_untouched(storage, delivery)


@every_verdict
@every_keep
async def test_a_claim_settles_no_other_message_under_its_numbers(
    storage: Storage, verdict: Verdict, keep: str
) -> None:
    delivery = await held_by_us(storage)
    stale = of_another_message(delivery.claim)

    answer = await settle(storage, stale, verdict, keep, owner=OURS)  # type: ignore[arg-type]

    assert answer == Settled(lost=frozenset({stale}))
    await assert_untouched(storage, delivery)


@every_verdict
async def test_what_was_handed_back_under_its_numbers_is_not_taken_for_ones_own(
    storage: Storage, verdict: Verdict
) -> None:
    delivery = await held_by_us(storage)
    await settle(storage, delivery, Release(MINUTE), owner=OURS)
    stale = of_another_message(delivery.claim)

    ours, other = (
        await settle(storage, delivery, verdict, owner=OURS),
        await settle(storage, stale, verdict, owner=OURS),
    )

    assert ours == Settled(gone=frozenset({delivery.claim}))
    assert other == Settled(lost=frozenset({stale}))
    assert (await the_copy(storage, delivery.message_id)).due_at == NOON + MINUTE


@pytest.mark.parametrize("stale_first", [True, False])
@pytest.mark.parametrize("verdict", [DONE, Retry(HOUR, failure("ours"))], ids=lambda verdict: type(verdict).__name__)
async def test_two_messages_under_the_same_numbers_in_one_batch_do_not_mix(
    storage: Storage, verdict: Verdict, stale_first: bool
) -> None:
    delivery = await held_by_us(storage)
    stale = of_another_message(delivery.claim)
    batch = [Settlement(stale, DONE if verdict is DONE else Retry(MINUTE, failure("theirs")))]
    batch.insert(stale_first, Settlement(delivery.claim, verdict))

    answer = await storage.mailbox.settle(batch, OURS)

    assert stale in answer.lost | answer.gone
    assert delivery.claim not in answer.lost | answer.gone
    view = await found(storage, delivery.message_id)
    assert [(run.error, run.node) for run in view.runs] == ([] if verdict is DONE else [("ours", "node")])
    assert [each.due_at for each in view.deliveries] == ([] if verdict is DONE else [NOON + HOUR])


async def test_nobody_but_its_holder_extends_a_claim(storage: Storage) -> None:
    delivery = await held_by_us(storage)
    stale = of_another_message(delivery.claim)

    theirs = await storage.mailbox.extend([delivery.claim], THEIRS, HOUR)
    other = await storage.mailbox.extend([stale], OURS, HOUR)

    assert theirs == Extended(lost=frozenset({delivery.claim}))
    assert other == Extended(lost=frozenset({stale}))
    await assert_untouched(storage, delivery)


async def test_a_claim_is_extended_beside_one_that_is_stale_under_the_same_numbers(storage: Storage) -> None:
    delivery = await held_by_us(storage)
    stale = of_another_message(delivery.claim)

    answer = await storage.mailbox.extend(sorted([delivery.claim, stale]), OURS, HOUR)

    assert answer == Extended(lost=frozenset({stale}))
    assert (await the_copy(storage, delivery.message_id)).due_at == NOON + HOUR


async def test_nobody_but_its_holder_reports_progress(storage: Storage) -> None:
    delivery = await held_by_us(storage)

    await storage.upkeep.report([Progress(delivery.claim, "theirs")], THEIRS)
    await storage.upkeep.report([Progress(of_another_message(delivery.claim), "stale")], OURS)

    await assert_untouched(storage, delivery)


@pytest.mark.psycopg
async def test_whichever_way_it_was_taken_a_delivery_is_its_takers_alone(storage: Storage) -> None:
    await declare(storage, "mailer")
    one = draft(group="mailer")
    await publish(storage, one)
    taken = await storage.mailbox.take(one.id, "mailer", OURS, HOLD)
    turn(storage, MINUTE)
    reaped = await storage.mailbox.reap(["mailer"], OURS, HOLD)
    turn(storage, 2 * MINUTE)
    again = await storage.mailbox.reap_limited("mailer", Limits(rate=Rate(5, HOUR)), OURS, HOLD)
    await publish(storage, draft(group="mailer"))
    rationed = await storage.mailbox.claim_limited(
        ClaimRequest("mailer", 1, ALL_LEVELS), Limits(global_concurrency=2), None, OURS, HOLD
    )

    assert taken is not None
    assert reaped is not None
    assert again is not None
    for each in (again, *rationed.deliveries):
        assert (await settle(storage, each, DONE, owner=THEIRS)).lost == {each.claim}
        assert await settle(storage, each, DONE, owner=OURS) == Settled()
    assert len(rationed.deliveries) == 1


async def test_people_see_the_name_of_a_holder_and_find_it_by_that(storage: Storage) -> None:
    await declare(storage, "mailer")
    await publish(storage, draft(), draft(), draft())
    ours, plain, other = [
        *await claim(storage, limit=1, owner=OURS),
        *await claim(storage, limit=1, owner="node"),
        *await claim(storage, limit=1, owner=holder("another", "0123456789abcdef")),
    ]

    page = await storage.ledger.browse(Filter(state="running", held_by="node"))
    await settle(storage, ours, DONE, "all", owner=OURS)
    await settle(storage, plain, Bury(failure()), owner="node")
    await storage.controls.retire("mailer", "ann", 10)

    assert {(row.seq, row.held_by) for row in page.rows} == {(ours.id, "node"), (plain.id, "node")}
    nodes = [run.node for each in (ours, plain, other) for run in (await found(storage, each.message_id)).runs]
    assert nodes == ["node", "node", "another"]


@pytest.mark.parametrize("name", ["node", "host:7:abc", "a~b", "a~0123456789abcdef", ""])
def test_a_name_comes_out_of_its_holder_as_it_went_in(name: str) -> None:
    assert shown(holder(name, "0123456789abcdef")) == name


@pytest.mark.parametrize("name", ["node", "a~b", "a~0123456789ABCDEF", "a~0123456789abcde", "~"])
def test_what_has_no_token_is_a_name(name: str) -> None:
    assert shown(name) == name


@pytest.mark.psycopg
async def test_nobody_but_its_holder_renews_confirms_or_releases_a_lease(storage: Storage) -> None:
    granted = await storage.leases.acquire("reports", "ours", MINUTE)
    assert granted is not None
    theirs = Hold("reports", granted.epoch, "theirs")

    renewed = await storage.leases.renew([Renewal(theirs, HOUR)])
    confirmed = await storage.leases.confirm(*theirs)
    released = await storage.leases.release(*theirs)

    assert (renewed, confirmed, released) == (Renewed(lost=frozenset({theirs})), False, False)
    view = await storage.leases.find("reports")
    assert view is not None
    assert (view.state, view.holder, view.expires_at) == ("held", "ours", NOON + MINUTE)
    assert await storage.leases.release("reports", granted.epoch, "ours") is True


async def test_two_holds_of_one_epoch_are_told_apart_in_one_batch(storage: Storage) -> None:
    granted = await storage.leases.acquire("reports", "ours", MINUTE)
    assert granted is not None
    ours, theirs = Hold("reports", granted.epoch, "ours"), Hold("reports", granted.epoch, "theirs")

    answer = await storage.leases.renew([Renewal(theirs, MINUTE), Renewal(ours, HOUR)])

    assert answer == Renewed(lost=frozenset({theirs}))
    view = await storage.leases.find("reports")
    assert view is not None
    assert view.expires_at == NOON + HOUR


@pytest.mark.parametrize("fate", ["done", "seen", "dead"])
async def test_nobody_but_who_was_let_in_says_what_became_of_a_message(storage: Storage, fate: MarkStatus) -> None:
    key = InboxKey("billing", "stripe", "evt_1")
    turn(storage, MINUTE)
    ours = await storage.inbox.admit(key, None, "processing", None)

    # Let in by a primary that is gone, as the first attempt too.
    theirs = await storage.inbox.mark(key, ours.attempts, fate, "theirs", NOON)
    (view,) = await storage.inbox.browse(InboxFilter(message_id="evt_1"))
    said = await storage.inbox.mark(key, ours.attempts, fate, "ours", ours.admitted_at)
    again = await storage.inbox.mark(key, ours.attempts, fate, "ours", ours.admitted_at)

    assert ours.admitted_at == NOON + MINUTE
    assert (theirs, said, again) == (False, True, True)
    assert (view.status, view.error) == ("processing", None)


async def test_who_is_let_in_again_is_known_by_its_own_time(storage: Storage) -> None:
    key = InboxKey("billing", "stripe", "evt_1")
    first = await storage.inbox.admit(key, None, "processing", None)
    turn(storage, HOUR)
    refused = await storage.inbox.admit(key, None, "processing", None)
    second = await storage.inbox.admit(key, None, "processing", MINUTE)

    assert (first.admitted_at, refused.admitted_at, second.admitted_at) == (NOON, None, NOON + HOUR)
    assert await storage.inbox.mark(key, second.attempts, "done", None, first.admitted_at) is False
    assert await storage.inbox.mark(key, second.attempts, "done", None, second.admitted_at) is True


async def test_nothing_is_planned_under_the_lease_of_another(storage: Storage) -> None:
    await declare(storage, "etl", "etl")
    granted = await storage.leases.acquire("fanout", "ours", timedelta(days=1))
    assert granted is not None
    ours = Batch("etl", NOON, [("payments", "a")], Hold("fanout", granted.epoch, "ours"))

    def all_of_them(candidates: object) -> list[Planning]:
        assert isinstance(candidates, list)
        return [Planning(each.work, each.shard, draft("etl")) for each in candidates if isinstance(each, Candidate)]

    refused = await storage.fanouts.plan(replace(ours, hold=ours.hold._replace(holder="theirs")), all_of_them)
    planned = await storage.fanouts.plan(ours, all_of_them)

    assert refused is None
    assert planned is not None
    assert len(planned.stored) == 1
