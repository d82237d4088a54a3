"""A plan that was made for an empty table stays the right one when the table has grown."""

import pytest

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.gateway import RESERVED_SETTINGS, SHARED_SETTINGS
from mainspring.storage.postgres.names import Names
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.plans import WANT, explain, settling

HELD = f"ARRAY[{', '.join(map(str, range(1, 101)))}]::bigint[], array_fill(1, ARRAY[100])"
GROWTH = """
    INSERT INTO {schema}.message (id, topic, key, payload, content_type, published_at, copies)
    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'topic', 'key' || n, '', '', now(), 1
    FROM generate_series(1, 100000) AS n;
    INSERT INTO {schema}.delivery (
        message_id, group_name, priority, due_at, scheduled_for, published_at, held_by, epoch
    )
    SELECT
        ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'mail', n % 4, now(), now(), now(),
        CASE WHEN n <= 1000 THEN 'node' END, CASE WHEN n <= 1000 THEN 1 ELSE 0 END
    FROM generate_series(1, 100000) AS n;
"""


@pytest.fixture
async def empty(storage: PostgresStorage, connection: Connection, postgres_schema: str) -> Names:
    """Tables that vacuum has seen empty, and that nobody will look at again."""
    for table in ("message", "delivery"):
        await connection.execute(f"ALTER TABLE {postgres_schema}.{table} SET (autovacuum_enabled = false)")
        await connection.execute(f"VACUUM (ANALYZE) {postgres_schema}.{table}")
    return Names(postgres_schema)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("claim", WANT.format(limit=100, since="NULL, NULL, NULL, NULL") + ", 'node', interval '30 seconds', NULL"),
        ("reap", "ARRAY['mail'], 'node', interval '30 seconds', NULL"),
        ("upcoming", "ARRAY['mail'], '1 second', NULL"),
        ("extend", f"{HELD}, interval '30 seconds', NULL"),
        ("settle_done", f"{HELD}, NULL"),
        ("settle", settling(HELD, "retry", "none")),
    ],
)
async def test_a_reserved_plan_made_for_an_empty_table_uses_the_index_ever_after(
    empty: Names, storage: PostgresStorage, connection: Connection, name: str, arguments: str
) -> None:
    reserved = await dial(storage, RESERVED_SETTINGS)
    await reserved.execute(f"PREPARE hot AS {empty.sql(name)}")
    await explain(reserved, "hot", arguments)

    await connection.execute(GROWTH.format(schema=empty.schema))
    plan = await explain(reserved, "hot", arguments)
    await reserved.close()

    assert (plan.read_whole & {"message", "delivery"}, plan.unbounded) == (set(), [])
    assert plan.buffers < 15_000


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cancel", "'00000000-0000-7000-8000-00000000ffff', NULL, NULL, 'why', 'bell', NULL"),
        ("cancel", "NULL, 'topic', 'key77', 'why', 'bell', NULL"),
        ("find_deliveries", "'00000000-0000-7000-8000-00000000ffff', NULL"),
    ],
)
async def test_a_shared_plan_made_for_an_empty_table_uses_the_index_ever_after(
    empty: Names, storage: PostgresStorage, connection: Connection, name: str, arguments: str
) -> None:
    shared = await dial(storage, SHARED_SETTINGS | {"plan_cache_mode": "force_generic_plan"})
    await shared.execute(f"PREPARE cold AS {empty.sql(name)}")
    await explain(shared, "cold", arguments)

    await connection.execute(GROWTH.format(schema=empty.schema))
    plan = await explain(shared, "cold", arguments)
    await shared.close()

    assert (plan.read_whole & {"message", "delivery"}, plan.unbounded) == (set(), [])
    assert plan.buffers < 200
