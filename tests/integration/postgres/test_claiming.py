"""Claims beside other transactions: late commits, clocks that go back, rows in other hands."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from asyncpg import LockNotAvailableError

from mainspring.model.message import ClaimRequest, Extended, Scan, Settled
from mainspring.model.verdict import DONE, Release, Settlement
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.operation import HandSet
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import HOLD, TOPIC, Connection, blocked, claim, declare, dial, draft, publish

MINUTE = timedelta(minutes=1)
GATE = 4712
"""An advisory lock: who reaps slowly waits for it when its snapshot is taken, and before it locks a row."""
_LOOKED = "LIMIT 32"
_WAITING = f"LIMIT (SELECT 32 FROM pg_advisory_xact_lock({GATE}))"


async def test_a_transaction_that_commits_late_is_found_by_a_full_scan(
    storage: PostgresStorage, connection: Connection
) -> None:
    await declare(storage)
    late = draft()
    transaction = connection.transaction()
    await transaction.start()
    await run_async(EnlistedAsyncpg(connection), storage.enlisted().mailbox.publish.script([late]))
    await publish(storage)
    [first] = await claim(storage)

    await transaction.commit()
    since = ClaimRequest("mail", 10, (Scan(2, first.due_at),))
    marked = await storage.mailbox.claim([since], "node", HOLD)
    full = await claim(storage)

    assert marked == []
    assert [each.message_id for each in full] == [late.id]


async def test_the_clock_set_back_a_minute_hides_nothing_for_longer_than_that(storage: PostgresStorage) -> None:
    await declare(storage)
    await publish(storage)
    [first] = await claim(storage)
    await storage.mailbox.settle([Settlement(first.claim, Release())], "node")

    storage.now = first.claimed_at - MINUTE
    [early] = await publish(storage)
    set_back = await claim(storage)
    storage.now = first.claimed_at + MINUTE
    caught_up = await claim(storage)

    # What was due by the clock that went on is not due by the one that was set back, and comes due again.
    assert [each.message_id for each in set_back] == [early]
    assert [each.message_id for each in caught_up] == [first.message_id]


async def test_rows_that_another_is_taking_are_passed_over(storage: PostgresStorage, connection: Connection) -> None:
    await declare(storage)
    await publish(storage, 10)
    async with connection.transaction():
        taken = await run_async(
            EnlistedAsyncpg(connection),
            storage.enlisted().mailbox.claim.script([ClaimRequest("mail", 4, (Scan(2, None),))], "other", HOLD),
        )
        rest = await claim(storage)

    assert (len(taken), len(rest)) == (4, 6)
    assert not {each.id for each in taken} & {each.id for each in rest}


async def test_no_row_more_is_locked_than_is_taken(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage, 50)
    async with connection.transaction():
        await run_async(
            EnlistedAsyncpg(connection),
            storage.enlisted().mailbox.claim.script([ClaimRequest("mail", 4, (Scan(2, None),))], "other", HOLD),
        )
        free = await dial(storage)
        left = await free.fetch(f"SELECT seq FROM {postgres_schema}.delivery FOR UPDATE SKIP LOCKED")
        await free.close()

    assert len(left) == 46


async def test_a_paused_group_has_no_row_locked(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage, 5)
    await storage.controls.pause("mail", "ann", "why")
    async with connection.transaction():
        await run_async(
            EnlistedAsyncpg(connection),
            storage.enlisted().mailbox.claim.script([ClaimRequest("mail", 4, (Scan(2, None),))], "other", HOLD),
        )
        free = await dial(storage)
        left = await free.fetch(f"SELECT seq FROM {postgres_schema}.delivery FOR UPDATE SKIP LOCKED")
        await free.close()

    assert len(left) == 5


async def test_many_claimers_never_hold_the_same_delivery(make: Callable[[], PostgresStorage]) -> None:
    storages = [make() for _ in range(4)]
    await storages[0].schema.migrate()
    await declare(storages[0])
    await publish(storages[0], 1000)

    async def drain(storage: PostgresStorage) -> list[int]:
        mine: list[int] = []
        while deliveries := await claim(storage, 20):
            mine += [each.id for each in deliveries]
        return mine

    taken = await asyncio.gather(*map(drain, storages))

    assert sorted(seq for mine in taken for seq in mine) == list(range(1, 1001))


async def test_a_claim_that_is_extended_after_a_reaper_has_looked_is_not_reaped(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage, 2)
    kept, lapsed = await claim(storage)
    later = kept.claimed_at + 2 * HOLD
    text = Names(postgres_schema).sql("reap")
    assert text.count(_LOOKED) == 1, "the statement is not what it was"
    await connection.execute("SELECT pg_advisory_lock($1)", GATE)
    reaping = asyncio.create_task(
        another.fetch(text.replace(_LOOKED, _WAITING), ["mail"], "other", HOLD, later, True, [])
    )
    await blocked(connection)

    storage.now = later
    extended = await storage.mailbox.extend([kept.claim], "node", HOLD)
    await connection.execute("SELECT pg_advisory_unlock($1)", GATE)

    assert extended == Extended()
    assert [row[0] for row in await reaping] == [lapsed.id]
    assert await storage.mailbox.settle([Settlement(kept.claim, DONE)], "node") == Settled()


async def test_a_heartbeat_passes_over_a_row_in_other_hands_and_says_busy(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage, 2)
    first, second = await claim(storage)
    async with connection.transaction():
        await connection.execute(f"SELECT FROM {postgres_schema}.delivery WHERE seq = {first.id} FOR UPDATE")
        invented = first.claim._replace(id=99)
        answer = await storage.mailbox.extend([first.claim, second.claim, invented], "node", MINUTE)

    assert answer == Extended(lost=frozenset({invented}), busy=frozenset({first.claim}))
    assert (await storage.mailbox.extend([first.claim], "node", MINUTE)).busy == frozenset()


async def test_a_settle_that_met_a_new_holder_says_lost_and_one_that_met_its_twin_says_gone(
    storage: PostgresStorage, connection: Connection
) -> None:
    await declare(storage)
    await publish(storage, 2)
    taken, settled = await claim(storage)
    made = [Settlement(taken.claim, DONE), Settlement(settled.claim, DONE)]
    async with connection.transaction():
        theirs = EnlistedAsyncpg(connection)
        later = taken.claimed_at + 2 * HOLD
        await run_async(theirs, storage.enlisted(clock=HandSet(later)).mailbox.reap.script(["mail"], "other", HOLD))
        await run_async(theirs, storage.enlisted().mailbox.settle.script([Settlement(settled.claim, DONE)], "node"))
        during = await storage.mailbox.settle(made, "node")

    after = await storage.mailbox.settle(made, "node")

    assert during == Settled(busy=frozenset({taken.claim, settled.claim}))
    assert after == Settled(lost=frozenset({taken.claim}), gone=frozenset({settled.claim}))


async def test_a_settle_of_a_caller_waits_for_a_heartbeat_and_is_written(
    storage: PostgresStorage, connection: Connection, another: Connection
) -> None:
    await declare(storage)
    await publish(storage)
    [delivery] = await claim(storage)
    transaction = connection.transaction()
    await transaction.start()
    await run_async(
        EnlistedAsyncpg(connection), storage.enlisted().mailbox.extend.script([delivery.claim], "node", MINUTE)
    )

    async def conclude() -> bool:
        async with another.transaction():
            return await run_async(
                EnlistedAsyncpg(another),
                storage.enlisted().mailbox.settle_all.script([Settlement(delivery.claim, DONE)], "node"),
            )

    waiting = asyncio.create_task(conclude())
    await blocked(connection)
    await transaction.commit()

    assert await waiting
    assert (await storage.ledger.tally()).groups[0].running == 0


@pytest.mark.parametrize("own", ["0", "20s", "60ms"])
async def test_a_handlers_verdict_waits_for_seconds_at_the_most_and_leaves_no_setting_behind(
    storage: PostgresStorage, connection: Connection, another: Connection, own: str
) -> None:
    await declare(storage)
    await publish(storage, 2)
    made = [Settlement(each.claim, DONE) for each in await claim(storage)]
    transaction = connection.transaction()
    await transaction.start()
    await run_async(
        EnlistedAsyncpg(connection), storage.enlisted().mailbox.extend.script([made[1].claim], "node", MINUTE)
    )

    async def conclude() -> str:
        """The session's own timeout, after it has settled."""
        async with another.transaction():
            await another.execute(f"SET LOCAL lock_timeout = '{own}'")
            assert await run_async(EnlistedAsyncpg(another), storage.enlisted().mailbox.settle_all.script(made, "node"))
            shown: str = await another.fetchval("SHOW lock_timeout")
            return shown

    async with asyncio.timeout(15):
        with pytest.raises(LockNotAvailableError):
            await conclude()
    await transaction.commit()

    assert await conclude() == own


async def test_retrying_a_publish_whose_commit_was_not_heard_stores_nothing_twice(storage: PostgresStorage) -> None:
    await declare(storage)
    drafts = [draft(TOPIC) for _ in range(20)]

    first = await storage.mailbox.publish(drafts)
    again = await storage.mailbox.publish([*reversed(drafts), extra := draft(TOPIC)])

    assert (len(first.stored), list(again.stored)) == (20, [extra.id])
    assert [each.message_id for each in await claim(storage)] == [*(each.id for each in drafts), extra.id]
