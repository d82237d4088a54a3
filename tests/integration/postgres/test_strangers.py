"""A stranger's open transaction holds one row: all else is written, and that too when it has ended (invariant 28)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import uuid4

import pytest

from mainspring import Mainspring
from mainspring.model.errors import StorageUnavailable
from mainspring.model.join import Join, follower_id
from mainspring.model.lease import Hold, Renewal, Renewed
from mainspring.model.limits import Limits
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Keep, Progress, ReleasedClaims, Settled
from mainspring.model.retention import Retention
from mainspring.model.schedule import Schedule
from mainspring.model.verdict import DONE, Bury, Done, Failure, Retry, Settlement, Verdict
from mainspring.model.views import Beat, GroupRuns
from mainspring.model.worker import Declarer
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import run_async
from tests.contract import scheduling, test_fanouts, test_repeated_deaths
from tests.contract.acting import NOON
from tests.integration.postgres.acting import HOLD, TOPIC, Connection, blocked, claim, declare, draft, publish

SOON = timedelta(seconds=5)
HOUR = timedelta(hours=1)
BY = Declarer("shop/a", "1")


class Lock(Protocol):
    """Has the rows of a table locked by a stranger while the block lasts."""

    def __call__(self, table: str, where: str, *args: object) -> AbstractAsyncContextManager[None]: ...


@pytest.fixture
def locked(another: Connection, postgres_schema: str) -> Lock:
    @asynccontextmanager
    async def lock(table: str, where: str, *args: object) -> AsyncIterator[None]:
        async with another.transaction():
            rows = await another.fetch(f"SELECT FROM {postgres_schema}.{table} WHERE {where} FOR UPDATE", *args)
            assert rows, f"there is no such row of {table}"
            yield

    return lock


async def test_what_is_put_aside_is_not_reaped_however_many_lapsed_ones_are_locked(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    await declare(storage)
    await publish(storage, 40)
    *_, aside = sorted(await claim(storage), key=lambda delivery: delivery.id)
    storage.now += 2 * HOLD

    async with locked("delivery", "seq < $1", aside.id):
        reaped = await storage.mailbox.reap(["mail"], "node", HOLD, aside=[aside.claim])

    assert reaped is None


@pytest.mark.parametrize(
    ("verdict", "left"),
    [(DONE, 1), (Done("kept"), 1), (Retry(HOUR, Failure("error", "no")), 3), (Bury(Failure("error", "no")), 1)],
)
async def test_every_other_verdict_is_written(
    storage: PostgresStorage, locked: Lock, verdict: Verdict, left: int
) -> None:
    await declare(storage)
    await publish(storage, 3)
    first, second, third = (each.claim for each in await claim(storage))
    keep: Keep = "all" if verdict == Done("kept") else "failures"

    async with locked("delivery", "seq = $1", second.id):
        made = [Settlement(each, verdict, keep) for each in (first, second, third)]
        answer = await storage.mailbox.settle(made, "node")
        again = await storage.mailbox.settle(made, "node")
        tally = await storage.ledger.tally()
    after = await storage.mailbox.settle([made[1]], "node")

    assert answer == Settled(busy=frozenset({second}))
    assert again == Settled(gone=frozenset({first, third}), busy=frozenset({second}))
    assert (tally.groups[0].running, tally.groups[0].running + tally.groups[0].scheduled) == (1, left)
    assert after == Settled()


async def test_a_dead_letter_that_is_locked_is_replaced_when_the_next_one_dies(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    await declare(storage, "mailer")
    hours = [test_repeated_deaths.due(hour) for hour in range(3)]
    await test_repeated_deaths.die(storage, hours[0])

    async with locked("dead", "message_id = $1", hours[0].id):
        await test_repeated_deaths.die(storage, hours[1])
        beside = await test_repeated_deaths.dead(storage, *hours[:2])
    await test_repeated_deaths.die(storage, hours[2])

    assert beside == [("dead", 0), ("dead", 0)]
    assert await test_repeated_deaths.dead(storage, *hours) == [("dead", 2)]


async def test_a_repeat_whose_mark_is_locked_holds_no_received_message_up(
    storage: PostgresStorage, locked: Lock
) -> None:
    await declare(storage)
    await storage.inbox.receive("mail", "kafka:orders", {"a": draft()})

    async with locked("inbox", "message_id = 'a'"), asyncio.timeout(SOON.total_seconds()):
        new, _ = await storage.inbox.receive("mail", "kafka:orders", {"a": draft(payload=b"2"), "b": draft()})

    assert new == {"b"}
    assert len(await claim(storage)) == 2


async def test_a_claim_that_lapsed_under_the_lock_is_reaped_by_nobody_and_settles_afterwards(
    storage: PostgresStorage, locked: Lock
) -> None:
    await declare(storage)
    await publish(storage)
    storage.now = NOON + timedelta(days=36_500)
    [held] = await claim(storage)

    storage.now += 2 * HOLD
    async with locked("delivery", "seq = $1", held.id):
        reaped = await storage.mailbox.reap(["mail"], "another", HOLD)
        extended = await storage.mailbox.extend([held.claim], "node", HOLD)

    assert (reaped, extended.busy) == (None, frozenset({held.claim}))
    assert await storage.mailbox.settle([Settlement(held.claim, DONE)], "node") == Settled()


async def test_however_many_lapsed_claims_are_locked_the_next_is_taken_over(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    await declare(storage)
    await declare(storage, "other")
    await publish(storage, 40)
    held = sorted(each.id for each in await claim(storage))
    storage.now += 2 * HOLD

    async with locked("delivery", "seq < $1", held[-2]):
        reaped = [await storage.mailbox.reap(["other", "mail"], "another", HOLD) for _ in range(3)]

    assert [None if each is None else each.id for each in reaped] == [held[-2], held[-1], None]


async def test_lapsed_claims_that_are_locked_are_passed_over_by_a_release_and_counted(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    await declare(storage)
    await publish(storage, 5)
    held = sorted(each.id for each in await claim(storage))
    storage.now += 2 * HOLD

    async with locked("delivery", "seq <= $1", held[1]):
        first = await storage.controls.release("mail", "ann", 4, None)
        assert first is not None
        rest = await storage.controls.release("mail", "ann", 4, first[1])
    afterwards = await storage.controls.release("mail", "ann", 4, None)

    assert first[0] == ReleasedClaims(released=2, busy=2)
    assert rest == (ReleasedClaims(released=1), None)
    assert afterwards == (ReleasedClaims(released=2), None)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_callers_own_transaction_waits_for_the_row_as_for_any_other(
    storage: PostgresStorage, connection: Connection, another: Connection, locked: Lock, count: int
) -> None:
    await declare(storage)
    await publish(storage, count)
    held = await claim(storage)
    made = [Settlement(each.claim, DONE) for each in held]

    async def conclude() -> Settled:
        async with connection.transaction():
            return await run_async(
                EnlistedAsyncpg(connection), storage.enlisted().mailbox.settle.script(made, "node", waits=True)
            )

    async with locked("delivery", "seq = $1", held[-1].id):
        concluding = asyncio.create_task(conclude())
        await blocked(another)

    assert await concluding == Settled()
    assert (await storage.ledger.tally()).groups[0].running == 0


async def test_a_queue_settles_the_others_at_once_and_the_locked_one_when_it_can(
    storage: PostgresStorage, postgres_url: str, postgres_schema: str, locked: Lock
) -> None:
    app = Mainspring(postgres_url, name="shop", schema=postgres_schema)
    async with app:
        queue = app.queue("mail", TOPIC)
        await app.declare()
        await app.publish(TOPIC, 1)
        await app.publish(TOPIC, 2)
        items = await queue.claim()
        async with locked("delivery", "seq = $1", items[0].claim.id):
            settling = asyncio.create_task(queue.ack(*items))
            async with asyncio.timeout(60):
                while (await storage.ledger.tally()).groups[0].running != 1:
                    await asyncio.sleep(0.01)
            assert not settling.done()

        assert (await settling).settled == tuple(items)


async def test_schedules_go_on_while_the_run_that_one_of_them_replaces_is_locked(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    await declare(storage, "mailer")
    await scheduling.keep(storage, scheduling.schedule("nightly"), scheduling.schedule("weekly"))
    await scheduling.look(storage)
    old = await claim(storage, group="mailer")
    nightly = next(each for each in old if each.message_id == scheduling.occurrence_id("nightly", NOON))

    storage.now = NOON + HOUR
    async with locked("delivery", "seq = $1", nightly.id):
        found = await scheduling.look(storage, scheduling.stopping)
    after = await scheduling.look(storage, scheduling.stopping)

    assert (found.moved, found.fired, found.asked) == (1, 1, 1)
    assert found.next_in == timedelta()
    assert (after.moved, after.fired, after.asked) == (1, 1, 1)


async def test_rows_of_schedules_are_kept_while_one_is_locked(storage: PostgresStorage, locked: Lock) -> None:
    storage.now = NOON
    rows = [scheduling.schedule(name, declared_at=NOON - 2 * HOUR) for name in ("daily", "nightly")]
    await scheduling.keep(storage, *rows)

    def edited(name: str, known: Schedule | None, _now: datetime) -> Schedule:
        return scheduling.schedule(name) if known is None else replace(known, version=7)

    async with locked("schedule", "name = 'nightly'"):
        written = await storage.timetable.rewrite(["daily", "nightly", "new"], edited, waits=False)
        standing = await storage.timetable.declare("shop", 7, ["new"], BY, ["daily", "nightly"])

    assert [None if row is None else row.version for row in written] == [7, None, 0]
    assert (standing.retired, standing.unclaimed) == (("daily",), ("nightly",))
    assert (await storage.timetable.declare("shop", 7, ["new"], BY, ["nightly"])).retired == ("nightly",)


@pytest.mark.parametrize("group", ["mail", None])
async def test_a_schedule_is_retired_while_a_copy_of_it_is_locked(
    storage: PostgresStorage, locked: Lock, group: str | None
) -> None:
    await declare(storage)
    storage.now = NOON
    await scheduling.keep(storage, scheduling.schedule())
    copies = [draft(topic="unheard", schedule=scheduling.NAME, group=group) for _ in range(2)]
    await storage.mailbox.publish(copies)

    async with locked("delivery" if group else "parked", "message_id = $1", copies[0].id):
        standing = await storage.timetable.declare("shop", 0, [], BY, [scheduling.NAME])

    assert standing.retired == (scheduling.NAME,)
    views = [await storage.ledger.find(each.id) for each in copies]
    assert [len(view.runs) for view in views if view is not None] == [0, 1]


async def test_a_join_is_complete_while_another_is_locked(storage: PostgresStorage, locked: Lock) -> None:
    await declare(storage)
    joins = []
    for _ in range(2):
        id = uuid4()
        joins.append(id)
        await storage.mailbox.join(Join(id, draft(id=id, group="then"), None), [draft(group="mail")])
    for each in await claim(storage):
        await storage.mailbox.settle([Settlement(each.claim, DONE, member=True)], "node")

    async with locked("joint", "id = $1", joins[0]):
        found = await storage.timetable.tick("shop", scheduling.leaving, 1)
        again = await storage.timetable.tick("shop", scheduling.leaving, 1)
    after = await storage.timetable.tick("shop", scheduling.leaving, 1)

    assert [draft.id for draft in found.continuations] == [follower_id(joins[1])]
    assert (found.more, again.joined, again.more) == (True, 0, True)
    assert [draft.id for draft in after.continuations] == [follower_id(joins[0])]
    assert not after.more


def beat(worker: str, number: int = 1) -> Beat:
    return Beat(worker, "shop", "host", 1, ("mail",), 0, "poll", {"mail": GroupRuns(1, 0)}, (), (), worker, number)


@pytest.mark.parametrize(("table", "where"), [("worker", "name = 'a'"), ("tally", "worker = 'a'")])
async def test_other_workers_beat_while_the_row_of_one_is_locked(
    storage: PostgresStorage, locked: Lock, table: str, where: str
) -> None:
    await declare(storage)
    for worker in ("a", "b"):
        await storage.upkeep.beat(beat(worker))

    async with locked(table, where):
        await storage.upkeep.beat(beat("b", 2))
        async with asyncio.timeout(SOON.total_seconds() * 6):
            with pytest.raises(StorageUnavailable, match="55P03"):
                await storage.upkeep.beat(beat("a", 2))
    await storage.upkeep.beat(beat("a", 2))

    assert (await storage.ledger.tally()).groups[0].handled == 4


async def test_a_beat_does_not_wait_for_its_groups(storage: PostgresStorage, locked: Lock) -> None:
    await declare(storage)

    async with locked("groups", "name = 'mail'"):
        await storage.upkeep.beat(beat("a"))

    assert (await storage.ledger.tally()).groups[0].handled == 1


async def test_who_is_locked_stays_on_the_roster_and_the_others_leave_it(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    for worker in ("a", "b"):
        await storage.upkeep.beat(beat(worker))

    storage.now = NOON + timedelta(days=30)
    async with locked("worker", "name = 'a'"):
        await storage.upkeep.prune(Retention(), 100)
        left = [each.name for each in (await storage.ledger.roster()).workers]
    await storage.upkeep.prune(Retention(), 100)

    assert left == ["a"]
    assert (await storage.ledger.roster()).workers == ()


async def test_a_limited_group_is_claimed_while_the_turn_of_another_is_locked(
    storage: PostgresStorage, locked: Lock
) -> None:
    limits = Limits(global_concurrency=5)

    async def take(group: str) -> int:
        ration = await storage.mailbox.claim_limited(ClaimRequest(group, 1, ALL_LEVELS), limits, None, "node", HOLD)
        return len(ration.deliveries)

    for group in ("mail", "other"):
        await publish(storage, 2, group=group)
        assert await take(group) == 1

    async with locked("limits", "group_name = 'mail'"):
        async with asyncio.timeout(SOON.total_seconds() * 6):
            with pytest.raises(StorageUnavailable, match="55P03"):
                await take("mail")
        assert await take("other") == 1

    assert await take("mail") == 1


async def test_slices_are_planned_while_the_cursor_of_one_shard_is_locked(
    storage: PostgresStorage, locked: Lock
) -> None:
    storage.now = NOON
    await declare(storage, "load", test_fanouts.SLICES)
    hold = await test_fanouts.held(storage)
    await test_fanouts.plan(storage, hold, NOON, "a", "b")

    async with locked("fanout_cursor", "shard = 'a'"):
        planned, _ = await test_fanouts.plan(storage, hold, NOON + HOUR, "a", "b", "c")
    later, _ = await test_fanouts.plan(storage, hold, NOON + HOUR, "a", "b", "c", but=("b", "c"))

    assert planned is not None
    assert later is not None
    assert (len(planned.stored), len(later.stored)) == (2, 1)


async def test_leases_are_renewed_while_one_is_locked(storage: PostgresStorage, locked: Lock) -> None:
    holds = []
    for name in ("a", "b"):
        granted = await storage.leases.acquire(name, "one", HOLD)
        assert granted is not None
        holds.append(Hold(name, granted.epoch, "one"))

    async with locked("lease", "name = 'a'"):
        renewed = await storage.leases.renew([Renewal(hold, HOLD) for hold in holds])
        refused = await storage.leases.acquire("a", "two", HOLD)

    assert renewed == Renewed(busy=frozenset({holds[0]}))
    assert refused is None


async def test_parked_messages_are_routed_while_one_is_locked(storage: PostgresStorage, locked: Lock) -> None:
    first, second = await publish(storage, 2)
    await declare(storage)

    async with locked("parked", "message_id = $1", first):
        routed = await storage.upkeep.reroute(10)
    later = await storage.upkeep.reroute(10)

    assert (routed.routed, later.routed) == (1, 1)
    assert [each.message_id for each in await claim(storage)] == [second, first]


async def test_bells_are_armed_and_disarmed_while_one_is_locked(
    storage: PostgresStorage, connection: Connection, postgres_schema: str, locked: Lock
) -> None:
    sql = storage._bell._names.sql
    armed = f"SELECT group_name FROM {postgres_schema}.bell WHERE armed_until > now() ORDER BY 1"
    await connection.fetch(sql("bell_arm"), ["a", "b"], "ear", timedelta(seconds=-1), None)

    async with locked("bell", "group_name = 'a'"):
        await connection.fetch(sql("bell_arm"), ["a", "b", "c"], "ear", HOUR, None)
        while_locked = [row[0] for row in await connection.fetch(armed)]
    await connection.fetch(sql("bell_arm"), ["a", "b", "c"], "ear", HOUR, None)
    async with locked("bell", "group_name = 'a'"):
        await connection.fetch(sql("bell_disarm"), ["a", "b", "c"], "ear", None)

    assert while_locked == ["b", "c"]
    assert [row[0] for row in await connection.fetch(armed)] == ["a"]


async def test_progress_is_reported_while_that_of_one_run_is_locked(
    storage: PostgresStorage, connection: Connection, postgres_schema: str, locked: Lock
) -> None:
    await declare(storage)
    await publish(storage, 2)
    first, second = (each.claim for each in await claim(storage))
    await storage.upkeep.report([Progress(first, "one"), Progress(second, "one")], "node")

    async with locked("progress", "seq = $1", first.id):
        await storage.upkeep.report([Progress(first, "two"), Progress(second, "two")], "node")

    said = await connection.fetch(f"SELECT said FROM {postgres_schema}.progress ORDER BY seq")
    assert [row[0] for row in said] == ["one", "two"]
