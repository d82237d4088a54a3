"""Showing and recounting open joins costs what is shown, when ten thousand are open among as many plain messages."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.filling import filled
from tests.integration.postgres.plans import explain

NAMES = Names("joining")
NIL, LAST = "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
MIDDLE = "'00000000-0000-7000-8001-000000001388'"
"""The id of the join in the middle."""
_FILL = """
    INSERT INTO {schema}.joint (id, opened_at, pending, on_done)
    SELECT
        ('00000000-0000-7000-8001-' || lpad(to_hex(n), 12, '0'))::uuid, now(), 4,
        '{{"topic": "all.done", "group": "boss", "key": null, "correlation_id": "c"}}'
    FROM generate_series(1, 10000) AS n;
    INSERT INTO {schema}.message (id, topic, payload, content_type, headers, published_at, copies)
    SELECT
        ('00000000-0000-7000-8002-' || lpad(to_hex(n), 12, '0'))::uuid, 'parts', '\\x7b7d', 'application/json',
        CASE WHEN n <= 40000 THEN
            '{{"mainspring-join-member": "00000000-0000-7000-8001-' || lpad(to_hex((n + 3) / 4), 12, '0') || '"}}'
        END,
        now(), 1
    FROM generate_series(1, 50000) AS n;
    -- Of every join four members: one has ended, and its end is noted but not counted.
    INSERT INTO {schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, join_id)
    SELECT
        id, 'part', 2, now(), now(), now(), (headers::json ->> 'mainspring-join-member')::uuid
    FROM {schema}.message
    WHERE headers IS NULL OR ('x' || right(id::text, 8))::bit(32)::bigint % 4 > 0;
    INSERT INTO {schema}.joint_end (join_id, done, failed) SELECT id, 1, 0 FROM {schema}.joint;
    INSERT INTO {schema}.run (started_at, finished_at, message_id, attempt, status, group_name, topic)
    SELECT now() - interval '1 day', now() - interval '1 day', id, 1, 'dead', 'part', 'parts' FROM {schema}.message;
"""


@pytest.fixture(scope="module")
def loaded(postgres_url: str) -> Iterator[str]:
    tables, rows = ["joint", "joint_end", "delivery", "message", "run"], _FILL.format(schema=NAMES.schema)
    with filled(postgres_url, NAMES.schema, tables, lambda made: made.execute(rows)) as url:
        yield url


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
async def shared(request: pytest.FixtureRequest, loaded: str) -> AsyncIterator[Connection]:
    """A connection as the engine uses it, with either kind of plan that it may come to."""
    storage = PostgresStorage(loaded, schema=NAMES.schema)
    connection = await dial(storage, SHARED_SETTINGS | {"plan_cache_mode": request.param})
    yield connection
    await connection.close(timeout=5)
    await storage.close()


@pytest.mark.parametrize(
    ("name", "arguments", "most", "indexes"),
    [
        ("joint_read", f"{NIL}, {LAST}, 50, NULL", 1_200, {"joint_pkey", "joint_end_join", "delivery_join"}),
        ("joint_read", f"{MIDDLE}, {LAST}, 50, NULL", 1_200, {"joint_pkey", "joint_end_join", "delivery_join"}),
        ("joint_read", f"{MIDDLE}, {MIDDLE}, 1, NULL", 30, {"joint_pkey", "joint_end_join", "delivery_join"}),
        ("joint_members", f"{MIDDLE}, 0, 50, NULL", 40, {"delivery_join", "message_pkey"}),
        ("joint_gone", f"{NIL}, 500", 6_000, {"joint_pkey", "joint_end_join", "delivery_join"}),
    ],
)
async def test_open_joins_are_read_by_their_indexes(
    shared: Connection, name: str, arguments: str, most: int, indexes: set[str]
) -> None:
    await shared.execute(f"PREPARE read AS {NAMES.sql(name)}")
    await explain(shared, "read", arguments)  # the first run of a statement also reads the catalogue

    plan = await explain(shared, "read", arguments)

    assert (plan.read_whole, plan.unbounded) == (set(), [])
    assert indexes <= plan.indexes
    assert plan.buffers < most


async def test_what_has_gone_without_a_note_is_looked_for_among_the_failures_since_then(shared: Connection) -> None:
    await shared.execute(f"PREPARE recount AS {NAMES.sql('joint_recount')}")
    undone = shared.transaction()
    await undone.start()
    await shared.execute(f"DELETE FROM {NAMES.schema}.delivery WHERE join_id = {MIDDLE}")

    plan = await explain(shared, "recount", f"ARRAY[{MIDDLE}]::uuid[], 'bell'")

    await undone.rollback()
    assert (plan.read_whole, plan.unbounded) == (set(), [])
    assert "run_age" in plan.indexes
    # None of the fifty thousand that were buried before the join was opened.
    assert plan.buffers < 400
