"""What is looked for in every group costs what a thousand groups do, however many there are."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.filling import filled
from tests.integration.postgres.plans import explain

NAMES = Names("crowded")
LAST = 2**63 - 1
_ID = "('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
_FILL = f"""
    INSERT INTO crowded.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, held_by)
    SELECT {_ID}, 'group-' || n, 2, now(), now(), now(), CASE WHEN n % 2 = 0 THEN 'node' END
    FROM generate_series(1, 6000) AS n;
    INSERT INTO crowded.dead (
        seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
        buried_at, fingerprint
    )
    SELECT n, {_ID}, 'group-' || n, 'topic', 2, 1, 1, 0, now(), now(), 'error', 'boom', now(), 'abcd'
    FROM generate_series(1, 3000) AS n;
"""


@pytest.fixture(scope="module")
def loaded(postgres_url: str) -> Iterator[str]:
    with filled(postgres_url, NAMES.schema, ["delivery", "dead"], lambda made: made.execute(_FILL)) as url:
        yield url


@pytest.fixture
async def shared(loaded: str) -> AsyncIterator[Connection]:
    """A connection as the engine uses it for reading."""
    storage = PostgresStorage(loaded, schema=NAMES.schema)
    connection = await dial(storage, SHARED_SETTINGS)
    yield connection
    await connection.close(timeout=5)
    await storage.close()


@pytest.mark.parametrize("cache", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("name", "arguments", "most"),
    [
        ("via_index_live", f"20000, {LAST}, 'ready', NULL, NULL", 4_000),
        ("via_index_live", f"20000, {LAST}, 'scheduled', NULL, NULL", 4_000),
        ("via_index_live", f"20000, {LAST}, 'running', NULL, NULL", 4_000),
        ("via_index_live", f"20000, {LAST}, 'retrying', NULL, NULL", 4_000),
        ("via_index_dead", f"20000, {LAST}, NULL, 'abcd'", 4_000),
        ("causes_known", "NULL, 2000", 8_000),
    ],
)
async def test_no_more_than_a_thousand_groups_are_asked_one_by_one(
    shared: Connection, name: str, arguments: str, most: int, cache: str
) -> None:
    await shared.execute(f"SET plan_cache_mode = {cache}")
    await shared.execute(f"PREPARE looked AS {NAMES.sql(name)}")
    await explain(shared, "looked", arguments)

    plan = await explain(shared, "looked", arguments)

    assert plan.buffers < most
