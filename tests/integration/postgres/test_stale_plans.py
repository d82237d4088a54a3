"""A plan that was made for an empty table stays the right one when the table has grown."""

import pytest

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import RESERVED_SETTINGS, SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.plans import WANT, explain, hundred, settling

HELD = hundred(1, 1)
GROWTH = """
    INSERT INTO {schema}.message (id, topic, key, payload, content_type, published_at, copies, correlation_id)
    SELECT
        ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'topic', 'key' || n, '', '', now(), 1,
        'basket:' || n / 5
    FROM generate_series(1, 100000) AS n;
    INSERT INTO {schema}.delivery (
        message_id, group_name, priority, due_at, scheduled_for, published_at, held_by, epoch
    )
    SELECT
        ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'mail', n % 4, now(), now(), now(),
        CASE WHEN n <= 1000 THEN 'node' END, CASE WHEN n <= 1000 THEN 1 ELSE 0 END
    FROM generate_series(1, 100000) AS n;
    INSERT INTO {schema}.dead (
        seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
        buried_at, fingerprint
    )
    SELECT
        200000 + n, ('00000000-0000-7000-8001-' || lpad(to_hex(n), 12, '0'))::uuid,
        CASE WHEN n <= 10000 THEN 'grave' ELSE 'pit' END, 'topic', 2, 1, 1, 0, now(), now(), 'error', 'boom', now(),
        'cause ' || n % 10
    FROM generate_series(1, 100000) AS n;
"""
LAST = 2**63 - 1
ONE = "'00000000-0000-7000-8000-00000000ffff'"


@pytest.fixture
async def empty(storage: PostgresStorage, connection: Connection, postgres_schema: str) -> Names:
    """Tables that vacuum has seen empty, and that nobody will look at again."""
    for table in ("message", "delivery", "dead"):
        await connection.execute(f"ALTER TABLE {postgres_schema}.{table} SET (autovacuum_enabled = false)")
        await connection.execute(f"ALTER TABLE {postgres_schema}.{table} SET UNLOGGED")
        await connection.execute(f"VACUUM (ANALYZE) {postgres_schema}.{table}")
    return Names(postgres_schema)


# Which statement, for what, and how many blocks it may touch at the most.
RESERVED = [
    ("claim", WANT.format(limit=100, since="NULL, NULL, NULL, NULL") + ", 'node', interval '30 seconds', NULL", 15_000),
    ("reap", "ARRAY['mail'], 'node', interval '30 seconds', NULL, false, ARRAY[]::bigint[]", 15_000),
    ("upcoming", "ARRAY['mail'], '1 second', NULL", 15_000),
    ("extend", f"{HELD}, 'node', interval '30 seconds', NULL", 15_000),
    ("settle_done", f"{HELD}, 'node', NULL", 15_000),
    ("settle", settling(HELD, "retry", "none", "node"), 15_000),
]
SHARED = [
    ("cancel", "'00000000-0000-7000-8000-00000000ffff', NULL, NULL, 'why', 'bell', NULL", 200),
    ("cancel", "NULL, 'topic', 'key77', 'why', 'bell', NULL", 200),
    ("find_deliveries", "'00000000-0000-7000-8000-00000000ffff', NULL", 200),
    ("pending", "ARRAY['mail'], ARRAY[100]", 200),
    ("scan_live", f"{LAST}, 500, 'live', NULL, NULL, NULL, NULL, NULL, NULL, NULL", 1_200),
    ("via_index_live", f"100, {LAST}, 'live', 'mail', NULL", 1_200),
    ("via_index_keyed", f"100, {LAST}, 'live', 'topic', 'key77'", 200),
    ("via_index_correlated", f"100, {LAST}, 'live', 'basket:7', {ONE}", 200),
    ("find_replacements", ONE, 200),
    (
        "browse_live",
        f"ARRAY[70001, 70002], 50, 'live'{', NULL' * 7}, 'x', 'basket:7', {ONE}, true, NULL",
        200,
    ),
    ("run_now", f"ARRAY[{ONE}::uuid], ARRAY['mail'], 'ann', 'one', 'bell', NULL", 200),
    ("cancel_picked", f"ARRAY[{ONE}::uuid], ARRAY['mail'], 'ann', 'one', 'why', 'bell', NULL", 200),
    ("chain", f"{ONE}, 50, NULL", 200),
    ("scan_dead_group", f"{LAST}, 500, 'grave', NULL, NULL, NULL, NULL, NULL, NULL, NULL", 1_200),
    ("scan_dead_cause", f"{LAST}, 500, 'grave', NULL, NULL, NULL, NULL, NULL, 'cause 7', NULL", 1_200),
    ("causes_known", "'grave', 2000", 100),
    ("causes_count", "ARRAY['grave', 'none'], ARRAY['', ''], 100", 300),
    ("causes_latest", "ARRAY['grave', 'none'], ARRAY['', '']", 50),
    (
        "unbury",
        f"NULL, NULL, NULL, NULL, NULL, ARRAY[{ONE}::uuid], ARRAY['grave'], 10, 'ann', 'one', NULL, 'bell', true",
        200,
    ),
]


@pytest.mark.no_schema
async def test_plans_made_for_empty_tables_use_the_index_ever_after(
    empty: Names, storage: PostgresStorage, connection: Connection
) -> None:
    reserved = await dial(storage, RESERVED_SETTINGS)
    shared = await dial(storage, SHARED_SETTINGS | {"plan_cache_mode": "force_generic_plan"})
    # Each has a plan of its own, also where two are the same statement: all of them are made while there is nothing.
    made = [(reserved, *each) for each in RESERVED] + [(shared, *each) for each in SHARED]
    for number, (speaking, name, arguments, _) in enumerate(made):
        await speaking.execute(f"PREPARE plan_{number} AS {empty.sql(name)}")
        await explain(speaking, f"plan_{number}", arguments)

    await connection.execute(GROWTH.format(schema=empty.schema))
    wrong = []
    for number, (speaking, name, arguments, most) in enumerate(made):
        plan = await explain(speaking, f"plan_{number}", arguments)
        if name == "causes_latest" and speaking.get_server_version().major < 14:
            most = 300  # noqa: PLW2901 - it sorts more
        if plan.read_whole & {"message", "delivery", "dead"} or plan.unbounded or plan.buffers >= most:
            wrong.append((name, arguments, plan.read_whole, plan.unbounded, plan.buffers))
    for each in (reserved, shared):
        await each.close()

    assert wrong == []
