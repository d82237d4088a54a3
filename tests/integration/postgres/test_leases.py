"""Leases on PostgreSQL: what a transaction that has confirmed one holds up, and what it does not."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from mainspring.model.lease import Hold, Renewal, Renewed
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.plans import Plan, explain

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=30)
NAME = "reports"


async def hold(storage: PostgresStorage, holder: str = "one") -> Hold:
    storage.now = storage.now or NOON
    granted = await storage.leases.acquire(NAME, holder, TTL)
    assert granted is not None
    return Hold(NAME, granted.epoch, holder)


async def confirm(storage: PostgresStorage, connection: Connection, held: Hold) -> bool:
    return await run_async(EnlistedAsyncpg(connection), storage.enlisted().leases.confirm.script(*held))


async def test_while_a_transaction_has_confirmed_it_nobody_else_acquires_it(
    storage: PostgresStorage, connection: Connection
) -> None:
    held = await hold(storage)

    async with connection.transaction():
        confirmed = await confirm(storage, connection, held)
        storage.now = NOON + TTL
        ran_out = await storage.leases.acquire(NAME, "two", TTL)
    after = await storage.leases.acquire(NAME, "two", TTL)

    assert confirmed
    assert ran_out is None
    assert after is not None
    assert after.epoch > held.epoch


async def test_its_holder_goes_on_renewing_and_releases_it_without_waiting_for_that_transaction(
    storage: PostgresStorage, connection: Connection
) -> None:
    held = await hold(storage)

    async with connection.transaction():
        await confirm(storage, connection, held)
        renewed = await storage.leases.renew([Renewal(held, TTL)])
        released = await storage.leases.release(*held)
        # It is free, and still nobody gets it before what was written under it has been committed.
        too_early = await storage.leases.acquire(NAME, "two", TTL)
    in_time = await storage.leases.acquire(NAME, "two", TTL)

    assert (renewed, released, too_early) == (Renewed(), True, None)
    assert in_time is not None


async def test_an_operator_does_not_wait_for_that_transaction_either(
    storage: PostgresStorage, connection: Connection
) -> None:
    held = await hold(storage)

    async with connection.transaction():
        await confirm(storage, connection, held)
        revoked = await storage.leases.revoke(NAME, "ann", "stuck")
        again = await confirm(storage, connection, held)

    assert (revoked, again) == (True, False)


async def test_a_renewal_meanwhile_does_not_break_a_transaction_of_repeatable_read(
    storage: PostgresStorage, connection: Connection
) -> None:
    held = await hold(storage)

    async with connection.transaction(isolation="repeatable_read"):
        await connection.fetch("SELECT 1")
        await storage.leases.renew([Renewal(held, TTL)])
        confirmed = await confirm(storage, connection, held)

    assert confirmed


async def test_a_snapshot_from_before_another_holder_confirms_nothing(
    storage: PostgresStorage, connection: Connection
) -> None:
    held = await hold(storage)
    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    await connection.fetch("SELECT 1")
    await storage.leases.revoke(NAME, "ann", "stuck")
    await hold(storage, "two")

    # By what this transaction sees it is held under the old epoch.
    with pytest.raises(asyncpg.SerializationError):
        await confirm(storage, connection, held)
    await transaction.rollback()


async def test_who_is_refused_leaves_the_row_as_it_was(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await hold(storage)
    read = f"SELECT xmin::text, xmax::text, ctid::text FROM {postgres_schema}.lease"
    before = await connection.fetchrow(read)
    drawn = f"SELECT last_value FROM {postgres_schema}.lease_epoch"
    last = await connection.fetchval(drawn)

    for _ in range(3):
        assert await storage.leases.acquire(NAME, "two", TTL) is None

    assert await connection.fetchrow(read) == before
    assert await connection.fetchval(drawn) == last


async def test_a_row_that_somebody_has_locked_is_busy_and_not_waited_for(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    held = await hold(storage)

    async with connection.transaction():
        await connection.fetch(f"SELECT FROM {postgres_schema}.lease FOR UPDATE")
        renewed = await storage.leases.renew([Renewal(held, TTL)])

    assert renewed == Renewed(busy=frozenset({held}))


async def test_an_epoch_goes_on_from_the_row_where_the_sequence_has_fallen_back(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    held = await hold(storage)
    await connection.execute(f"UPDATE {postgres_schema}.lease SET epoch = 1000")
    storage.now = NOON + TTL

    newer = await hold(storage, "two")

    assert newer.epoch == 1001 > held.epoch


STATEMENTS = [
    ("lease_acquire", "'lease 7', 'two', interval '30 seconds', NULL"),
    ("lease_acquire", "'lease 20007', 'two', interval '30 seconds', NULL"),
    ("lease_acquire", "'new', 'two', interval '30 seconds', NULL"),
    ("lease_renew", "ARRAY['lease 7'], ARRAY[7], ARRAY['one'], ARRAY[interval '30 seconds'], NULL"),
    ("lease_release", "'lease 7', 7, 'one', NULL"),
    ("lease_confirm", "'lease 7', 7, 'one', NULL"),
    ("lease_find", "'lease 7', NULL"),
    ("lease_browse", "'lease 5', 10, NULL"),
    ("lease_revoke", "'lease 7', 'ann', '', NULL"),
    ("prune_leases", "interval '7 days', 10, NULL"),
]


@pytest.mark.no_schema
async def test_every_statement_reads_what_it_needs_of_many_leases(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await connection.execute(
        f"""
        INSERT INTO {postgres_schema}.lease (name, epoch, holder, acquired_at, renewed_at, expires_at)
        SELECT 'lease ' || n, n, 'one', now(), now(), now() + interval '1 day' * (1 - 31 * (n / 20001))
        FROM generate_series(1, 40000) AS n
        """
    )
    shared = await dial(storage, SHARED_SETTINGS)
    costly: list[tuple[str, str, Plan]] = []
    for statement, arguments in STATEMENTS:
        await shared.execute("PREPARE asked AS " + Names(postgres_schema).sql(statement))
        plan = await explain(shared, "asked", arguments)
        await shared.execute("DEALLOCATE asked")
        if plan.read_whole or plan.unbounded or plan.buffers >= 200:
            costly.append((statement, arguments, plan))
    await shared.close(timeout=5)

    assert costly == []
