"""Progress on PostgreSQL: who comes late takes nothing back, nobody waits for a delivery, and few rows are read."""

import pytest

from mainspring.model.message import Progress
from mainspring.model.retention import Pruned, Retention
from mainspring.model.search import Filter
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, claim, declare, dial, publish
from tests.integration.postgres.plans import explain


async def test_an_old_holder_that_still_saw_itself_hold_it_takes_nothing_back(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage)
    (held,) = await claim(storage)
    # As if the delivery had been taken over, and spoken of, after the snapshot of the old holder's statement.
    await connection.execute(f"INSERT INTO {postgres_schema}.progress VALUES ({held.id}, now(), 2, 'mine')")

    await storage.upkeep.report([Progress(held.claim, "not mine")], "node")

    assert await connection.fetchval(f"SELECT said FROM {postgres_schema}.progress") == "mine"


async def test_reporting_waits_for_nobody_who_has_the_delivery_locked(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage)
    (held,) = await claim(storage)

    async with connection.transaction():
        await connection.execute(f"SELECT FROM {postgres_schema}.delivery FOR UPDATE")
        await storage.upkeep.report([Progress(held.claim, "half")], "node")
        (view,) = (await storage.ledger.browse(Filter())).rows

    assert view.progress == "half"


async def test_what_somebody_is_just_reporting_is_not_pruned(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage)
    (held,) = await claim(storage)
    await storage.upkeep.report([Progress(held.claim, "half")], "node")
    await storage.mailbox.settle([Settlement(held.claim, DONE)], "node")

    async with connection.transaction():
        await connection.execute(f"UPDATE {postgres_schema}.progress SET epoch = 2")
        meanwhile = await storage.upkeep.prune(Retention(), 10)

    assert meanwhile == Pruned()
    assert await storage.upkeep.prune(Retention(), 10) == Pruned(progress=1)


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        (
            "report",
            "ARRAY[7, 8], ARRAY[1, 1], array_fill(gen_random_uuid(), ARRAY[2]), ARRAY['half', 'all'], 'node', NULL",
        ),
        ("prune_progress", "10"),
    ],
)
@pytest.mark.no_schema
async def test_no_more_deliveries_are_read_than_are_spoken_of(
    storage: PostgresStorage, connection: Connection, postgres_schema: str, statement: str, arguments: str
) -> None:
    await connection.execute(
        f"""
        INSERT INTO {postgres_schema}.delivery
            (seq, due_at, scheduled_for, published_at, message_id, epoch, priority, group_name, held_by)
        SELECT n, now(), now(), now(), gen_random_uuid(), 1, 2, 'mail', CASE WHEN n <= 1000 THEN 'node' END
        FROM generate_series(1, 40000) AS n
        """
    )
    await connection.execute(
        f"INSERT INTO {postgres_schema}.progress SELECT n, now(), 1, 'half' FROM generate_series(1, 1010, 100) AS n"
    )
    await connection.execute(f"ANALYZE {postgres_schema}.delivery")
    shared = await dial(storage, SHARED_SETTINGS)
    await shared.execute(f"PREPARE {statement} AS " + Names(postgres_schema).sql(statement))

    plan = await explain(shared, statement, arguments)

    await shared.close(timeout=5)
    assert "delivery" not in plan.read_whole
    assert "delivery_pkey" in plan.indexes
    assert plan.buffers < 200
