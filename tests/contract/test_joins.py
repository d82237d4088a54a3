"""Joins: members end one after the other, and what follows is published once, whoever looks."""

import asyncio
from uuid import UUID, uuid4

import pytest

from mainspring.model.join import Join, JoinOutcome, follower_id, is_member, outcome
from mainspring.model.message import Delivery, Draft, Priority
from mainspring.model.schedule import ScheduleTick
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Release, Retry, Settlement, Snooze, Verdict
from mainspring.storage.contract import Keyed, Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    WORKER,
    claim,
    claim_one,
    counts,
    declare,
    draft,
    failure,
    found,
    ids,
    publish,
    settle,
    siblings,
    turn,
)
from tests.contract.scheduling import leaving

NOTHING = ScheduleTick()


def then(id: UUID, group: str = "boss") -> Draft:
    return draft("all.done", id=id, group=group, payload=b'"then"', priority=Priority.HIGH, correlation_id="c", key="k")


def failed(id: UUID, group: str = "boss") -> Draft:
    return draft("some.failed", id=id, group=group, payload=b'"failed"')


async def open_join(storage: Storage, *members: Draft, with_failed: bool = True, with_then: bool = True) -> Join:
    id = uuid4()
    join = Join(id, then(id) if with_then else None, failed(id) if with_failed else None)
    published = await storage.mailbox.join(join, members)
    assert published.stored == {each.id for each in members}
    return join


async def end(storage: Storage, delivery: Delivery, verdict: Verdict) -> None:
    """Settle as a worker does, which knows a member by its header."""
    await storage.mailbox.settle([Settlement(delivery.claim, verdict, member=is_member(delivery))], WORKER)


async def look(storage: Storage, limit: int = 100) -> ScheduleTick:
    return await storage.timetable.tick("anybody's", leaving, limit)


async def continuation(storage: Storage) -> Delivery:
    """The one that follows, as its consumer gets it."""
    return await claim_one(storage, "boss")


def two() -> tuple[Draft, Draft]:
    return draft(group="mailer"), draft(group="printer")


async def test_members_are_messages_like_others(storage: Storage) -> None:
    one = draft(group="mailer", headers={"a": "b"}, key="k", correlation_id="c")

    join = await open_join(storage, one)

    delivery = await claim_one(storage)
    assert delivery.message_id == one.id
    assert dict(delivery.headers or {}) == {"a": "b", "mainspring-join-member": str(join.id)}
    assert (delivery.key, delivery.correlation_id, delivery.topic) == ("k", "c", one.topic)


async def test_what_follows_is_published_when_the_last_member_is_done(storage: Storage) -> None:
    join = await open_join(storage, *two())
    first, second = await claim_one(storage), await claim_one(storage, "printer")

    await end(storage, first, DONE)
    assert await look(storage) == NOTHING
    turn(storage, MINUTE)
    await end(storage, second, DONE)
    found_now = await look(storage)

    assert (found_now.joined, found_now.more, found_now.fired) == (1, False, 0)
    assert [each.id for each in found_now.continuations] == [follower_id(join.id)]
    delivery = await continuation(storage)
    assert (delivery.message_id, delivery.topic, delivery.payload) == (follower_id(join.id), "all.done", b'"then"')
    assert (delivery.priority, delivery.correlation_id, delivery.key) == (Priority.HIGH, "c", "k")
    assert (delivery.due_at, delivery.published_at) == (NOON + MINUTE, NOON + MINUTE)
    assert outcome(delivery) == JoinOutcome(join.id, done=2, failed=0)
    assert not is_member(delivery)


async def test_it_is_published_once(storage: Storage) -> None:
    await open_join(storage, draft(group="mailer"))
    await end(storage, await claim_one(storage), DONE)

    looks = [await look(storage), await look(storage)]

    assert [each.joined for each in looks] == [1, 0]
    assert len(await claim(storage, "boss")) == 1


@pytest.mark.parametrize(
    "verdict",
    [Bury(failure()), Cancel("obsolete")],
    ids=lambda verdict: type(verdict).__name__,
)
async def test_one_that_failed_makes_it_fail_when_all_have_ended(storage: Storage, verdict: Verdict) -> None:
    join = await open_join(storage, *two())

    await end(storage, await claim_one(storage), verdict)
    assert await look(storage) == NOTHING
    await end(storage, await claim_one(storage, "printer"), DONE)
    await look(storage)

    delivery = await continuation(storage)
    assert (delivery.message_id, delivery.topic) == (follower_id(join.id), "some.failed")
    assert outcome(delivery) == JoinOutcome(join.id, done=1, failed=1)


@pytest.mark.parametrize(
    "verdict",
    [Retry(SECOND, failure()), Snooze(SECOND), Release(SECOND)],
    ids=lambda verdict: type(verdict).__name__,
)
async def test_a_delivery_that_comes_back_has_not_ended(storage: Storage, verdict: Verdict) -> None:
    await open_join(storage, draft(group="mailer"))
    await end(storage, await claim_one(storage), verdict)
    assert await look(storage) == NOTHING

    turn(storage, MINUTE)
    await end(storage, await claim_one(storage), DONE)

    assert (await look(storage)).joined == 1


async def test_a_verdict_is_counted_under_its_own_claim_and_once(storage: Storage) -> None:
    join = await open_join(storage, *two())
    lapsed = await claim_one(storage)
    turn(storage, HOUR)
    taken_over = await storage.mailbox.reap(["mailer"], WORKER, HOUR)
    assert taken_over is not None

    await end(storage, lapsed, Bury(failure()))
    await end(storage, taken_over, DONE)
    await end(storage, taken_over, DONE)

    assert await look(storage) == NOTHING
    await end(storage, await claim_one(storage, "printer"), DONE)
    await look(storage)
    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=2, failed=0)


async def test_whatever_is_kept_of_a_success_its_end_is_counted(storage: Storage) -> None:
    await open_join(storage, *two())
    kept, forgotten = await claim_one(storage), await claim_one(storage, "printer")

    await storage.mailbox.settle(
        [
            Settlement(kept.claim, Done("42 rows"), "all", member=True),
            Settlement(forgotten.claim, DONE, "none", member=True),
        ],
        WORKER,
    )

    assert (await look(storage)).joined == 1


async def test_members_settle_together_with_others(storage: Storage) -> None:
    join = await open_join(storage, *(draft(group="mailer") for _ in range(3)))
    await publish(storage, draft(group="mailer"))
    deliveries = await claim(storage)

    await storage.mailbox.settle([Settlement(each.claim, DONE, member=is_member(each)) for each in deliveries], WORKER)

    assert len(deliveries) == 4
    assert (await counts(storage)).ready == 0
    await look(storage)
    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=3, failed=0)


async def test_one_settle_ends_members_of_several_joins(storage: Storage) -> None:
    joins = [await open_join(storage, draft(group="mailer"), draft(group="mailer")) for _ in range(3)]
    deliveries = await claim(storage)

    await storage.mailbox.settle([Settlement(each.claim, DONE, member=True) for each in deliveries], WORKER)

    assert (await look(storage)).joined == 3
    assert set(ids(await claim(storage, "boss"))) == {follower_id(join.id) for join in joins}


async def test_what_nobody_holds_ends_when_it_is_cancelled(storage: Storage) -> None:
    by_id, by_key = draft(group="mailer"), draft(group="printer", key="k")
    join = await open_join(storage, by_id, by_key)

    await storage.mailbox.cancel(by_id.id, "obsolete")
    assert await look(storage) == NOTHING
    await storage.mailbox.cancel(Keyed(by_key.topic, "k"), "obsolete")
    await look(storage)

    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=0, failed=2)


async def test_what_somebody_holds_ends_when_it_has_stopped(storage: Storage) -> None:
    one = draft(group="mailer")
    join = await open_join(storage, one)
    held = await claim_one(storage)

    await storage.mailbox.cancel(one.id, "obsolete")
    assert await look(storage) == NOTHING
    await end(storage, held, Retry(SECOND, failure()))
    await look(storage)

    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=0, failed=1)


async def test_members_end_when_their_group_is_retired(storage: Storage) -> None:
    await declare(storage, "mailer")
    join = await open_join(storage, draft(group="mailer"), draft(group="mailer"), draft(group="printer"))
    await claim_one(storage)

    await storage.controls.retire("mailer", "ann", 10)
    assert await look(storage) == NOTHING
    await end(storage, await claim_one(storage, "printer"), DONE)
    await look(storage)

    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=1, failed=2)


async def test_a_dead_letter_that_is_revived_changes_nothing_any_more(storage: Storage) -> None:
    join = await open_join(storage, *two())
    await end(storage, await claim_one(storage), Bury(failure()))

    await storage.controls.revive(DeadSelection(), "ann", 10)
    revived = await claim_one(storage)
    assert is_member(revived)
    await end(storage, revived, DONE)
    assert await look(storage) == NOTHING
    await end(storage, await claim_one(storage, "printer"), DONE)
    await look(storage)

    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=1, failed=1)
    assert await look(storage) == NOTHING


@pytest.mark.parametrize("verdict", [DONE, Bury(failure())], ids=["then", "failed"])
async def test_a_join_without_that_continuation_is_simply_over(storage: Storage, verdict: Verdict) -> None:
    await open_join(storage, draft(group="mailer"), with_then=verdict is not DONE, with_failed=verdict is DONE)

    await end(storage, await claim_one(storage), verdict)

    assert await look(storage) == ScheduleTick(joined=1)
    assert await look(storage) == NOTHING
    assert await claim(storage, "boss") == []


async def test_the_same_join_again_changes_nothing(storage: Storage) -> None:
    members = two()
    join = await open_join(storage, *members)

    again = await storage.mailbox.join(join, members)

    assert again.stored == frozenset()
    for group in ("mailer", "printer"):
        await end(storage, await claim_one(storage, group), DONE)
    assert (await look(storage)).joined == 1
    assert (await storage.mailbox.join(join, members)).stored == frozenset()
    assert await look(storage) == NOTHING


async def test_what_was_there_already_is_no_member(storage: Storage) -> None:
    known, new = draft(group="mailer"), draft(group="printer")
    await publish(storage, known)
    id = uuid4()

    published = await storage.mailbox.join(Join(id, then(id)), [known, new])

    assert published.stored == {new.id}
    await settle(storage, await claim_one(storage), DONE)
    assert await look(storage) == NOTHING
    await end(storage, await claim_one(storage, "printer"), DONE)
    assert (await look(storage)).joined == 1


async def test_a_look_lets_a_bounded_number_go_on(storage: Storage) -> None:
    joins = [await open_join(storage, draft(group="mailer")) for _ in range(5)]
    for delivery in await claim(storage):
        await end(storage, delivery, DONE)

    first, second, third = [await look(storage, limit=2) for _ in range(3)]

    assert [(each.joined, each.more) for each in (first, second, third)] == [(2, True), (2, True), (1, False)]
    assert set(ids(await claim(storage, "boss"))) == {follower_id(join.id) for join in joins}


async def test_a_freeze_holds_up_no_join(storage: Storage) -> None:
    await storage.timetable.freeze("", "ann", "black Friday")
    await open_join(storage, draft(group="mailer"))
    await end(storage, await claim_one(storage), DONE)

    found_now = await look(storage)

    assert (found_now.joined, found_now.frozen) == (1, True)


async def test_a_join_of_thousands_is_complete_when_the_last_has_ended(storage: Storage) -> None:
    members = [draft(group="mailer") for _ in range(2500)]
    join = await open_join(storage, *members)
    deliveries = await claim(storage, limit=3000)
    early, late = deliveries[:2400], deliveries[2400:]

    await storage.mailbox.settle([Settlement(each.claim, DONE, member=True) for each in early], WORKER)
    assert (await look(storage)).joined == 0
    await storage.mailbox.settle([Settlement(each.claim, DONE, member=True) for each in late], WORKER)
    await look(storage)

    assert outcome(await continuation(storage)) == JoinOutcome(join.id, done=2500, failed=0)


async def test_whoever_settles_and_whoever_looks_at_once_it_is_published_once(storage: Storage) -> None:
    joins = [await open_join(storage, *(draft(group="mailer") for _ in range(8))) for _ in range(5)]
    deliveries = await claim(storage)

    async def work(door: Storage, share: list[Delivery]) -> int:
        joined = 0
        for each in share:
            await end(door, each, DONE)
            joined += (await look(door)).joined
        return joined

    async with siblings(storage, 4) as doors:
        shares = [deliveries[start::4] for start in range(4)]
        joined = sum(await asyncio.gather(*map(work, doors, shares)))
    while (last := await look(storage)).joined or last.more:
        joined += last.joined

    assert joined == 5
    told = {delivery.message_id: outcome(delivery) for delivery in await claim(storage, "boss")}
    assert told == {follower_id(join.id): JoinOutcome(join.id, done=8, failed=0) for join in joins}


async def test_members_may_be_due_later(storage: Storage) -> None:
    await open_join(storage, draft(group="mailer", delay=HOUR))
    assert await claim(storage) == []

    turn(storage, HOUR)
    await end(storage, await claim_one(storage), DONE)

    assert (await look(storage)).joined == 1


async def test_a_replaced_dead_letter_is_no_member(storage: Storage) -> None:
    one = draft(group="mailer")
    await open_join(storage, one, draft(group="printer"))
    await end(storage, await claim_one(storage), Bury(failure()))

    assert await storage.controls.replace(one.id, "mailer", "ann", draft(group="mailer"))
    await end(storage, await claim_one(storage), DONE)

    assert await look(storage) == NOTHING
    assert (await found(storage, one.id)).deliveries == ()
