"""A claim under limits costs what it looks at: with ten thousand keys, and with a hundred thousand waiting on one."""

from datetime import timedelta

import pytest

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import RESERVED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.plans import explain

GROWTH = """
    INSERT INTO {schema}.message (id, topic, key, payload, content_type, published_at, copies)
    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'topic', 'k', '', '', now(), 1
    FROM generate_series(1, {hot} + {keys}) AS n;
    INSERT INTO {schema}.delivery (message_id, group_name, key, priority, due_at, scheduled_for, published_at)
    SELECT
        ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'mail',
        CASE WHEN n <= {hot} THEN 'hot' ELSE 'k' || lpad(n::text, 6, '0') END, 2, now(), now(), now()
    FROM generate_series(1, {hot} + {keys}) AS n;
    -- Behind all of them, some that have none.
    INSERT INTO {schema}.delivery (message_id, group_name, key, priority, due_at, scheduled_for, published_at)
    SELECT gen_random_uuid(), 'mail', NULL, 2, now(), now(), now() FROM generate_series(1, 100);
    -- The neighbours in the index, whose keys are none of the group's business.
    INSERT INTO {schema}.delivery (message_id, group_name, key, priority, due_at, scheduled_for, published_at)
    SELECT gen_random_uuid(), 'other', 'hot', 2, now(), now(), now() FROM generate_series(1, 1000);
"""
KEYS = "ARRAY[" + ", ".join(f"'k{n:06}'" for n in range(100_001, 100_201)) + "]"
SEQS = "ARRAY[" + ", ".join(map(str, range(100_001, 100_021))) + "]"
STATEMENTS = {
    "limited_turn": ("'mail'", 100, set[str]()),
    "limited_due": (
        "'mail', '{0,1,2,3}', ARRAY[NULL, NULL, NULL, NULL]::timestamptz[], 200, NULL",
        300,
        {"delivery_ready"},
    ),
    "limited_keyless": ("'mail', '{0,1,2,3}', 20, NULL", 100, {"delivery_keyless"}),
    "limited_next_keys": ("'mail', '', 200", 1_500, {"delivery_keyed"}),
    "limited_heads": (f"'mail', ARRAY['hot'] || {KEYS}, true, false, 1, 1, NULL", 1_500, {"delivery_keyed"}),
    "limited_lapsed": ("'mail', 32, NULL, false, 'node', ARRAY[1, 2]::bigint[]", 20, {"delivery_held"}),
    "limited_spent": (f"'mail', {KEYS}, NULL", 1_500, {"spent_pkey"}),
    "limited_hold": (
        f"'mail', {SEQS}, false, 'node', interval '30 seconds', 60000000, 1200000, 60000000, 1200000, NULL",
        1_500,
        {"delivery_pkey"},
    ),
}


@pytest.fixture
async def names(storage: PostgresStorage, connection: Connection, postgres_schema: str) -> Names:
    """Tables that vacuum has seen empty, and that nobody will look at again."""
    for table in ("message", "delivery", "spent", "limits"):
        await connection.execute(f"ALTER TABLE {postgres_schema}.{table} SET (autovacuum_enabled = false)")
        await connection.execute(f"ALTER TABLE {postgres_schema}.{table} SET UNLOGGED")
        await connection.execute(f"VACUUM (ANALYZE) {postgres_schema}.{table}")
    return Names(postgres_schema)


@pytest.mark.no_schema
async def test_its_statements_read_little_whenever_they_were_planned(
    names: Names, storage: PostgresStorage, connection: Connection
) -> None:
    reserved = await dial(storage, RESERVED_SETTINGS)
    for name, (arguments, _, _) in STATEMENTS.items():
        await reserved.execute(f"PREPARE {name} AS {names.sql(name)}")
        await explain(reserved, name, arguments)
    await connection.execute(GROWTH.format(schema=names.schema, hot=100_000, keys=10_000))
    told = {}
    is_old = reserved.get_server_version().major < 14  # its plan for an empty table reads as little by another index
    for when in ("planned when empty", "planned anew"):
        for name, (arguments, most, indexes) in STATEMENTS.items():
            plan = await explain(reserved, name, arguments)
            whole = plan.read_whole & {"message", "delivery", "spent", "limits"}
            if whole or plan.unbounded or plan.buffers > most or not (is_old or indexes <= plan.indexes):
                told[name, when] = (whole, plan.unbounded, plan.buffers, plan.indexes)
        await connection.execute(f"ANALYZE {names.schema}.message, {names.schema}.delivery, {names.schema}.spent")
        await reserved.execute("DISCARD PLANS")
    await reserved.close()

    assert told == {}


@pytest.mark.no_schema
async def test_nobody_behind_twenty_thousand_has_to_wait(
    names: Names, storage: PostgresStorage, connection: Connection
) -> None:
    await connection.execute(GROWTH.format(schema=names.schema, hot=20_000, keys=2_000))
    limits = Limits(ordered=True, rate=Rate(1_000_000, timedelta(seconds=1)))
    found, after, calls = 0, None, 0
    while found < 2_001:
        ration = await storage.mailbox.claim_limited(
            ClaimRequest("mail", 500, ALL_LEVELS), limits, after, "node", timedelta(minutes=5)
        )
        found, after, calls = found + len(ration.deliveries), ration.after, calls + 1
        assert ration.deliveries

    # The hot key gives its first; of the others each call walks by two hundred.
    assert calls <= 2_000 / 200 + 1
