"""Fan-out on PostgreSQL: a batch costs what it has, not what its topic has, and no coordinator overtakes another."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.fanout import Batch, Candidate, CursorKey, Planning
from mainspring.model.lease import Hold
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from mainspring.storage.script import run_async
from tests.contract.test_fanouts import held, plan
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.plans import explain

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SHARDS = ", ".join(f"'shard-{n}'" for n in range(100))
NAMED = f"'etl', array_fill('work'::text, ARRAY[100]), ARRAY[{SHARDS}]"

STATEMENTS = {
    "fanout_candidates": f"{NAMED}, array_fill('load'::text, ARRAY[100]), '1 day', NULL",
    "fanout_planned": f"{NAMED}, array_fill(gen_random_uuid(), ARRAY[100]), now(), NULL",
    "fanout_seen": f"{NAMED}, NULL",
    "fanout_advance": "'etl', 'work', 'shard-7', now(), NULL",
    "fanout_seek": f"'etl', 'work', ARRAY[{SHARDS}], now(), NULL",
    "fanout_cursors": "'etl', 'work', 'shard-7', 50, false",
    "prune_cursors": "'1 hour', 100, now()",
}


def nobody(_: Sequence[Candidate]) -> list[Planning]:
    return []


@pytest.mark.no_schema
async def test_every_shard_is_looked_up_by_its_key(storage: PostgresStorage, postgres_schema: str) -> None:
    shared = await dial(storage, SHARED_SETTINGS)
    await shared.execute(
        f"INSERT INTO {postgres_schema}.fanout_cursor (topic, work, shard, completed, seen_at, slice_id) "
        "SELECT 'etl', 'work', 'shard-' || n, now(), now() - n * interval '1 second', gen_random_uuid() "
        "FROM generate_series(0, 9999) AS n"
    )
    read: dict[str, int] = {}
    for cache in ("generic", "custom"):
        await shared.execute(f"SET plan_cache_mode = force_{cache}_plan")
        for statement, arguments in STATEMENTS.items():
            name = f"{statement}_{cache}"
            await shared.execute(f"PREPARE {name} AS " + Names(postgres_schema).sql(statement))
            plan = await explain(shared, name, arguments)
            assert plan.read_whole == set(), name
            read[name] = plan.buffers
    await shared.close(timeout=5)

    # To read ten thousand cursors, and ask for their slices, takes more than twenty thousand.
    assert {name: buffers for name, buffers in read.items() if buffers > 4_000} == {}


async def test_nobody_plans_before_the_batch_of_the_one_before_is_committed(
    storage: PostgresStorage, connection: Connection
) -> None:
    storage.now = NOON
    ttl = timedelta(seconds=30)
    first = await storage.leases.acquire("fanout:etl", "one", ttl)
    assert first is not None
    batch = Batch("etl", NOON, [("work", "a")], Hold("fanout:etl", first.epoch, "one"))

    async with connection.transaction():
        await run_async(EnlistedAsyncpg(connection), storage.enlisted().fanouts.plan.script(batch, nobody))
        storage.now = NOON + ttl
        during = await storage.leases.acquire("fanout:etl", "two", ttl)
    after = await storage.leases.acquire("fanout:etl", "two", ttl)

    assert during is None
    assert after is not None
    assert await storage.fanouts.plan(batch, nobody) is None


async def test_a_cursor_that_is_advanced_in_a_transaction_that_fails_stays(
    storage: PostgresStorage, connection: Connection
) -> None:
    key, advance = CursorKey("etl", "payments", "a"), storage.enlisted().fanouts.advance.script
    await plan(storage, await held(storage), NOON, "a")

    transaction = connection.transaction()
    await transaction.start()
    advanced = await run_async(EnlistedAsyncpg(connection), advance(key, NOON))
    await transaction.rollback()

    assert advanced
    assert [each.completed for each in await storage.fanouts.cursors("etl", "payments", None, 10)] == [None]
