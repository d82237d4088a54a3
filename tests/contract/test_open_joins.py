"""Joins as operators see them while they are open: how far they are, what follows, and who is still to end."""

import asyncio
from uuid import UUID, uuid4

import pytest

from mainspring.model.join import Follower, Join, JoinView, Recount
from mainspring.model.message import Draft
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Retry, Settlement, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    WORKER,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    publish,
    siblings,
    the_copy,
    turn,
)
from tests.contract.scheduling import leaving


async def open_join(storage: Storage, *members: Draft, id: UUID | None = None) -> UUID:
    id = id or uuid4()
    then = draft("all.done", id=id, group="boss", payload=b'{"big": "\\u0000"}', correlation_id="it's 夜", key="k")
    await storage.mailbox.join(Join(id, then, draft("some.failed", id=id, group="clerk")), members)
    return id


async def end(storage: Storage, verdict: Verdict, group: str = "mailer") -> None:
    delivery = await claim_one(storage, group)
    await storage.mailbox.settle([Settlement(delivery.claim, verdict, member=True)], WORKER)


async def look(storage: Storage) -> int:
    return (await storage.timetable.tick("anybody's", leaving, 100)).joined


async def shown(storage: Storage, id: UUID) -> JoinView:
    view = await storage.ledger.find_join(id)
    assert view is not None
    return view


async def test_where_there_is_no_join_there_is_nothing_to_show(storage: Storage) -> None:
    one = draft(group="mailer")
    await publish(storage, one)

    assert await storage.ledger.joins(None, 10) == []
    assert await storage.ledger.find_join(one.id) is None
    assert await storage.ledger.members(one.id, None, 10) == []


async def test_an_open_join_is_shown_with_what_follows_and_its_oldest_member(storage: Storage) -> None:
    first, second = draft(group="mailer", key="a"), draft(group="printer", delay=HOUR)
    id = await open_join(storage, first, second)

    view = await shown(storage, id)

    assert view == JoinView(
        id=id,
        opened_at=NOON,
        members=2,
        ended=0,
        failed=0,
        then=Follower("all.done", "boss"),
        otherwise=Follower("some.failed", "clerk"),
        key="k",
        correlation_id="it's 夜",
        oldest=await the_copy(storage, first.id),
    )
    assert await storage.ledger.joins(None, 10) == [view]


async def test_a_join_may_have_one_continuation(storage: Storage) -> None:
    id, other = sorted([uuid4(), uuid4()])
    await storage.mailbox.join(Join(id, then=draft("all.done", id=id, group="boss")), [draft(group="mailer")])
    failed = draft("some.failed", id=other, group="boss", key="f", correlation_id="c")
    await storage.mailbox.join(Join(other, failed=failed), [draft(group="mailer")])

    first, second = await storage.ledger.joins(None, 10)

    assert (first.then, first.otherwise) == (Follower("all.done", "boss"), None)
    assert (first.key, first.correlation_id) == (None, None)
    assert (second.then, second.otherwise) == (None, Follower("some.failed", "boss"))
    assert (second.key, second.correlation_id) == ("f", "c")


async def test_what_has_ended_is_shown_at_once_counted_or_not(storage: Storage) -> None:
    last = draft(group="printer")
    id = await open_join(storage, draft(group="mailer"), draft(group="mailer"), draft(group="mailer"), last)

    await end(storage, DONE)
    await end(storage, Bury(failure()))
    noted = await shown(storage, id)
    await look(storage)
    await storage.mailbox.cancel((await storage.ledger.members(id, None, 1))[0].message_id, "obsolete")
    view = await shown(storage, id)

    assert (noted.members, noted.ended, noted.failed) == (4, 2, 1)
    assert (view.members, view.ended, view.failed) == (4, 3, 2)
    assert view.oldest == await the_copy(storage, last.id, "printer")


async def test_a_retry_is_no_end(storage: Storage) -> None:
    id = await open_join(storage, draft(group="mailer"))

    await end(storage, Retry(HOUR, failure()))

    view = await shown(storage, id)
    assert view.oldest is not None
    assert (view.ended, view.oldest.state, view.oldest.attempt) == (0, "scheduled", 1)


async def test_a_join_whose_members_have_all_ended_is_open_until_somebody_looks(storage: Storage) -> None:
    id = await open_join(storage, draft(group="mailer"))
    await end(storage, DONE)

    view = await shown(storage, id)

    assert (view.members, view.ended, view.oldest) == (1, 1, None)
    assert await look(storage) == 1
    assert await storage.ledger.find_join(id) is None
    assert await storage.ledger.joins(None, 10) == []


async def test_open_joins_are_listed_page_by_page(storage: Storage) -> None:
    ids = sorted([await open_join(storage, draft(group="mailer")) for _ in range(5)])

    first = await storage.ledger.joins(None, 2)
    second = await storage.ledger.joins(first[-1].id, 2)
    third = await storage.ledger.joins(second[-1].id, 2)

    assert [[each.id for each in page] for page in (first, second, third)] == [ids[:2], ids[2:4], ids[4:]]
    assert await storage.ledger.joins(ids[-1], 2) == []
    assert await storage.ledger.joins(UUID(int=2**128 - 1), 2) == []


async def test_the_members_of_a_join_that_have_not_ended_are_listed_page_by_page(storage: Storage) -> None:
    members = [draft(group="mailer") for _ in range(4)]
    id = await open_join(storage, *members)
    await open_join(storage, draft(group="mailer"))
    await end(storage, DONE)
    turn(storage, MINUTE)
    running = await claim_one(storage)

    first = await storage.ledger.members(id, None, 2)
    second = await storage.ledger.members(id, first[-1].seq, 2)

    assert [each.message_id for each in (*first, *second)] == [each.id for each in members[1:]]
    assert [each.state for each in (*first, *second)] == ["running", "ready", "ready"]
    assert first[0] == await the_copy(storage, running.message_id)
    assert (first[0].held_by, first[0].state) == ("worker-1", "running")


async def test_a_revived_member_is_no_member_any_more(storage: Storage) -> None:
    id = await open_join(storage, draft(group="mailer"), draft(group="printer"))
    await end(storage, Bury(failure()))

    await storage.controls.revive(DeadSelection(), "ann", 10)

    assert [each.group for each in await storage.ledger.members(id, None, 10)] == ["printer"]


async def test_reading_changes_nothing_and_waits_for_nobody(storage: Storage) -> None:
    id = await open_join(storage, *(draft(group="mailer") for _ in range(20)))
    deliveries = await claim(storage)

    over = asyncio.Event()

    async def settle(door: Storage) -> None:
        for each in deliveries:
            await door.mailbox.settle([Settlement(each.claim, DONE, member=True)], WORKER)
        over.set()

    async def watch(door: Storage) -> list[int]:
        seen: list[int] = []
        while not over.is_set():
            seen.append((await shown(door, id)).ended)
            await asyncio.sleep(0)
        return [*seen, (await shown(door, id)).ended]

    async with siblings(storage, 2) as (one, other):
        _, seen = await asyncio.gather(settle(one), watch(other))

    assert seen == sorted(seen)
    assert seen[-1] == 20
    assert await look(storage) == 1


@pytest.mark.psycopg
async def test_a_recount_finds_nothing_where_every_end_was_noted(storage: Storage) -> None:
    await declare(storage, "printer")
    ids = [
        await open_join(storage, draft(group="mailer"), draft(group="mailer"), draft(group="printer")) for _ in range(3)
    ]
    await end(storage, DONE)
    await end(storage, Bury(failure()))
    before = [await shown(storage, id) for id in ids]

    noted = await storage.upkeep.recount(None, 10)
    after_notes = [await shown(storage, id) for id in ids]
    await look(storage)
    counted = await storage.upkeep.recount(None, 10)

    assert noted == counted == Recount()
    assert after_notes == [await shown(storage, id) for id in ids] == before
    assert await look(storage) == 0


async def test_a_recount_goes_on_where_the_last_one_ended(storage: Storage) -> None:
    ids = sorted([await open_join(storage, draft(group="mailer")) for _ in range(5)])

    first = await storage.upkeep.recount(None, 2)
    second = await storage.upkeep.recount(first.last, 2)
    third = await storage.upkeep.recount(second.last, 2)

    assert [each.last for each in (first, second, third)] == [ids[1], ids[3], None]
    assert await storage.upkeep.recount(ids[-1], 2) == Recount()


async def test_recounting_while_members_end_counts_none_twice(storage: Storage) -> None:
    id = await open_join(storage, *(draft(group="mailer") for _ in range(30)))
    deliveries = await claim(storage)
    over = asyncio.Event()

    async def work(door: Storage) -> int:
        joined = 0
        for each in deliveries:
            await door.mailbox.settle([Settlement(each.claim, DONE, member=True)], WORKER)
            joined += (await door.timetable.tick("anybody's", leaving, 100)).joined
        over.set()
        return joined

    async def recount(door: Storage) -> int:
        unnoted = 0
        while not over.is_set():
            unnoted += (await door.upkeep.recount(None, 10)).unnoted
            await asyncio.sleep(0)
        return unnoted

    async with siblings(storage, 3) as (one, *others):
        joined, *unnoted = await asyncio.gather(work(one), *map(recount, others))

    assert (joined, unnoted) == (1, [0, 0])
    assert await storage.ledger.find_join(id) is None
