"""Release: an operator has all lapsed claims of a group claimed again at once, and no suspect among them."""

import asyncio

import pytest

from mainspring.model.message import Delivery, ReleasedClaims, Settled
from mainspring.model.verdict import DONE, Retry, Settlement
from mainspring.model.worker import holder
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    TICK,
    WORKER,
    claim,
    claim_one,
    counts,
    declare,
    draft,
    failure,
    found,
    publish,
    reap,
    settle,
    siblings,
    the_copy,
    turn,
)


async def held(storage: Storage, number: int = 1, owner: str = WORKER) -> list[Delivery]:
    """So many deliveries of a declared group, held since noon."""
    await declare(storage, "mailer")
    await publish(storage, *(draft(group="mailer") for _ in range(number)))
    return await claim(storage, owner=owner)


async def released(storage: Storage, limit: int = 100, group: str = "mailer") -> ReleasedClaims:
    answer = await storage.controls.release(group, "ann", limit, None)
    assert answer is not None
    return answer[0]


async def audited(storage: Storage) -> list[tuple[str, str, str, str]]:
    lines = await storage.ledger.audit(None, 10)
    return [(line.by, line.action, line.subject, line.detail) for line in lines]


@pytest.mark.memory
@pytest.mark.psycopg
async def test_lapsed_claims_are_released_all_at_once_and_claimed_again_under_a_new_epoch(storage: Storage) -> None:
    before = await held(storage, 3)
    turn(storage, MINUTE)

    answer = await released(storage)
    free = await counts(storage)
    again = await claim(storage, owner="node-2")

    assert answer == ReleasedClaims(released=3)
    assert (free.ready, free.lapsed, free.running) == (3, 0, 0)
    assert [(each.id, each.epoch, each.attempt) for each in again] == [(each.id, 3, 2) for each in before]
    assert [(each.suspect, each.deaths, each.due_at) for each in again] == [(False, 0, NOON + MINUTE)] * 3
    assert await audited(storage) == [("ann", "release", "mailer", "3 released")]


@pytest.mark.psycopg
async def test_it_leaves_a_run_with_the_holder_as_a_claim_that_is_reaped_does(storage: Storage) -> None:
    [one] = await held(storage, owner=holder("node-1", "0123456789abcdef"))
    turn(storage, MINUTE)

    await released(storage)

    (run,) = (await found(storage, one.message_id)).runs
    assert (run.status, run.group, run.topic, run.attempt) == ("lost", "mailer", "orders.placed", 1)
    assert (run.node, run.started_at, run.finished_at) == ("node-1", NOON, NOON + MINUTE)
    assert run.error is not None
    assert run.error.startswith("its claim lapsed")
    assert run.error.endswith("an operator has released it")


async def test_a_claim_that_has_not_lapsed_is_not_touched(storage: Storage) -> None:
    [one] = await held(storage)
    turn(storage, HOLD - TICK)

    answer = await released(storage)

    copy = await the_copy(storage, one.message_id)
    assert answer == ReleasedClaims()
    assert (copy.state, copy.held_by, copy.due_at) == ("running", WORKER, NOON + HOLD)
    assert await settle(storage, one, DONE) == Settled()
    assert await audited(storage) == []


async def test_a_claim_that_was_extended_is_not_touched(storage: Storage) -> None:
    lapsed, extended = await held(storage, 2)
    turn(storage, 20 * SECOND)
    await storage.mailbox.extend([extended.claim], WORKER, HOUR)
    turn(storage, MINUTE)

    answer = await released(storage)

    assert answer == ReleasedClaims(released=1)
    assert (await the_copy(storage, lapsed.message_id)).state == "ready"
    assert (await the_copy(storage, extended.message_id)).state == "running"


async def test_the_claims_of_other_groups_are_not_touched(storage: Storage) -> None:
    await held(storage)
    await declare(storage, "analytics", "nothing.at.all")
    turn(storage, MINUTE)

    answer = await released(storage, group="analytics")

    assert answer == ReleasedClaims()
    assert (await counts(storage)).lapsed == 1


async def test_a_group_that_does_not_exist_is_none(storage: Storage) -> None:
    assert await storage.controls.release("mailer", "ann", 100, None) is None


async def test_what_is_ready_or_scheduled_is_not_touched(storage: Storage) -> None:
    await declare(storage, "mailer")
    await publish(storage, draft(group="mailer"), draft(group="mailer", delay=HOUR))
    turn(storage, MINUTE)

    assert await released(storage) == ReleasedClaims()
    assert [each.due_at for each in await claim(storage)] == [NOON]


async def test_a_paused_group_is_released_and_stays_paused(storage: Storage) -> None:
    await held(storage)
    await storage.controls.pause("mailer", "ann", "upgrade")
    turn(storage, MINUTE)

    assert await released(storage) == ReleasedClaims(released=1)
    assert await claim(storage) == []


async def test_its_late_holder_is_told_that_the_claim_is_lost(storage: Storage) -> None:
    [one] = await held(storage)
    turn(storage, MINUTE)
    await released(storage)

    late = await settle(storage, one, DONE)
    extended = await storage.mailbox.extend([one.claim], WORKER, HOLD)

    # Not gone, by which an earlier copy of the call would be meant.
    assert late == Settled(lost=frozenset({one.claim}))
    assert extended.lost == frozenset({one.claim})
    assert (await the_copy(storage, one.message_id)).state == "ready"


async def test_a_second_call_finds_nothing_more(storage: Storage) -> None:
    await held(storage, 2)
    turn(storage, MINUTE)

    assert await released(storage) == ReleasedClaims(released=2)
    assert await released(storage) == ReleasedClaims()
    assert len(await audited(storage)) == 1


async def test_those_that_lapsed_first_are_released_first_and_the_next_call_continues_behind_them(
    storage: Storage,
) -> None:
    await declare(storage, "mailer")
    held = []
    for number in range(5):
        turn(storage, number * SECOND)
        await publish(storage, draft(group="mailer"))
        held.append(await claim_one(storage))
    turn(storage, MINUTE)
    await storage.mailbox.cancel(held[1].message_id, "obsolete")  # it stays, and is counted once

    batches = []
    after = None
    while True:
        answer = await storage.controls.release("mailer", "ann", 2, after)
        assert answer is not None
        batch, after = answer
        batches.append(batch)
        if after is None:
            break

    assert batches == [ReleasedClaims(1, 1), ReleasedClaims(2), ReleasedClaims(1)]
    assert (await counts(storage)).lapsed == 1


# --- suspects ----------------------------------------------------------------------------------------------


@pytest.mark.psycopg
@pytest.mark.parametrize("deaths", [0, 1, 2, 3])
async def test_a_suspect_stays_one_and_its_next_reap_counts_its_deaths(storage: Storage, deaths: int) -> None:
    [one] = await held(storage)
    for minute in range(1, deaths + 2):
        turn(storage, minute * MINUTE)
        await reap(storage)
    turn(storage, HOUR)

    answer = await released(storage)
    copy = await the_copy(storage, one.message_id)
    claimed = await claim(storage)
    reaped = await reap(storage)

    assert answer == ReleasedClaims(left=1)
    assert (copy.state, copy.deaths, claimed) == ("lapsed", deaths, [])
    assert reaped is not None
    assert (reaped.id, reaped.suspect, reaped.deaths) == (one.id, True, deaths + 1)


async def test_what_has_died_before_is_left_though_it_was_handed_back_since(storage: Storage) -> None:
    await held(storage)
    for minute in (1, 2):
        turn(storage, minute * MINUTE)
        suspect = await reap(storage)
    assert suspect is not None
    await settle(storage, suspect, Retry(NOW, failure()))
    await claim(storage)
    turn(storage, HOUR)

    assert await released(storage) == ReleasedClaims(left=1)


async def test_what_lapses_again_after_a_release_is_left_so_that_it_is_buried_in_the_end(storage: Storage) -> None:
    [poison] = await held(storage)
    turn(storage, MINUTE)
    first = await released(storage)
    await claim(storage)
    deaths = []
    for minute in range(2, 6):
        turn(storage, minute * MINUTE)
        assert await released(storage) == ReleasedClaims(left=1)
        reaped = await reap(storage)
        assert reaped is not None
        deaths.append(reaped.deaths)

    assert first == ReleasedClaims(released=1)
    assert deaths == [0, 1, 2, 3]
    assert reaped is not None
    assert reaped.id == poison.id


async def test_what_a_holder_has_run_to_an_end_between_two_lapses_is_released_again(storage: Storage) -> None:
    await held(storage)
    turn(storage, MINUTE)
    await released(storage)
    await settle(storage, await claim_one(storage), Retry(NOW, failure()))
    await claim(storage)
    turn(storage, HOUR)

    assert await released(storage) == ReleasedClaims(released=1)


async def test_what_was_cancelled_is_left_for_a_reap_to_end(storage: Storage) -> None:
    [one] = await held(storage)
    await storage.mailbox.cancel(one.message_id, "obsolete")
    turn(storage, MINUTE)

    answer = await released(storage)
    reaped = await reap(storage)

    assert answer == ReleasedClaims(left=1)
    assert reaped is not None
    assert reaped.cancel_asked


# --- at once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 40])
async def test_of_a_late_holder_and_a_release_at_once_one_has_it_never_both(storage: Storage, number: int) -> None:
    before = await held(storage, number)
    turn(storage, MINUTE)

    async with siblings(storage, 2) as (one, other):
        late, answer = await asyncio.gather(
            one.mailbox.settle([Settlement(each.claim, DONE) for each in before], WORKER), released(other)
        )
        missed = [each.claim for each in before if each.claim in late.busy]
        again = await one.mailbox.settle([Settlement(each, DONE) for each in missed], WORKER)

    lost = late.lost | again.lost
    assert late.gone == again.gone == again.busy == frozenset()
    assert answer.released == len(lost)
    assert answer.released + answer.busy <= number
    left = await claim(storage, owner="node-2")
    assert {each.id for each in left} == {each.id for each in lost}


async def test_of_two_releases_at_once_each_claim_is_released_by_one(storage: Storage) -> None:
    before = await held(storage, 40)
    turn(storage, MINUTE)

    async with siblings(storage, 2) as doors:
        answers = await asyncio.gather(*(released(door) for door in doors))

    assert sum(answer.released for answer in answers) == 40
    assert all(answer.left == 0 for answer in answers)
    assert [len((await found(storage, each.message_id)).runs) for each in before] == [1] * 40
    assert [each.epoch for each in await claim(storage)] == [3] * 40


async def test_of_a_reap_and_a_release_at_once_each_delivery_has_one_holder(storage: Storage) -> None:
    await held(storage, 5)
    turn(storage, MINUTE)

    async with siblings(storage, 2) as (one, other):
        suspect, answer = await asyncio.gather(reap(one, owner="node-2"), released(other))
        free = await claim(storage, owner="node-3")

    taken = [] if suspect is None else [suspect.id]
    assert len({*taken, *(each.id for each in free)}) == len(taken) + len(free) == 5
    assert answer.released == len(free)
