"""Rerouting costs a stretch of topics, however many are parked: twenty thousand here, each with a topic of its own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring.model.views import Declaration
from mainspring.storage.portable.retention import STRETCH
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.filling import filled
from tests.integration.postgres.plans import explain

NAMES = Names("lots")
TOPICS = 20_000
_FILL = f"""
    INSERT INTO lots.message (id, topic, payload, content_type, published_at, copies)
    SELECT gen_random_uuid(), 'orders.' || lpad(n::text, 6, '0') || '.placed', '', 'application/json', now(), 0
    FROM generate_series(1, {TOPICS}) AS n;
    INSERT INTO lots.parked (message_id, topic, priority, due_at, scheduled_for, published_at, parked_at)
    SELECT id, topic, 2, now(), now(), now(), now() FROM lots.message;
    INSERT INTO lots.subscription (pattern, group_name, wild, matcher)
    SELECT 'known.' || n, 'mail', false, '' FROM generate_series(1, 50) AS n;
"""


@pytest.fixture(scope="module")
def loaded(postgres_url: str) -> Iterator[str]:
    tables = ["message", "parked", "subscription"]
    with filled(postgres_url, NAMES.schema, tables, lambda made: made.execute(_FILL)) as url:
        yield url


@pytest.fixture
async def storage(loaded: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(loaded, schema=NAMES.schema)
    yield storage
    await storage.close()


@pytest.fixture
async def shared(storage: PostgresStorage) -> AsyncIterator[Connection]:
    """A connection as the engine uses it for rerouting."""
    connection = await dial(storage, SHARED_SETTINGS)
    yield connection
    await connection.close(timeout=5)


async def _buffers(shared: Connection, name: str, arguments: str) -> int:
    await shared.execute(f"DEALLOCATE ALL; PREPARE cold AS {NAMES.sql(name)}")
    for _ in range(6):  # by then PostgreSQL may have settled for one plan for any arguments
        await explain(shared, "cold", arguments)
    plan = await explain(shared, "cold", arguments)
    assert "parked" not in plan.read_whole
    return plan.buffers


async def test_where_groups_subscribe_by_name_no_topic_is_walked_to(shared: Connection) -> None:
    assert await _buffers(shared, "reroute", f"1000, 'channel', NULL, '', {STRETCH}, 20000") < 50 * 5 + 50


async def test_for_patterns_a_stretch_of_topics_is_walked_over(storage: PostgresStorage, shared: Connection) -> None:
    await storage.upkeep.declare([Declaration("wild", "shop", ("*.*.cancelled",), "shop:wild")])

    # A step is a descent of the index, a route a look at the subscriptions.
    assert await _buffers(shared, "reroute", f"1000, 'channel', NULL, '', {STRETCH}, 20000") < 12 * STRETCH


async def test_a_stretch_is_bounded_where_topics_are_kept_for_different_times(shared: Connection) -> None:
    assert await _buffers(shared, "topics_parked", f"NULL, 'orders.005000', {STRETCH}") < 10 * STRETCH


async def test_a_new_subscriber_is_found_by_name_in_one_turn_and_by_pattern_in_so_many(
    storage: PostgresStorage,
) -> None:
    late = Declaration("late", "shop", (f"orders.{TOPICS:06}.placed",), "shop:late")
    await storage.upkeep.declare([late])
    at_once = await storage.upkeep.reroute(1000)
    await storage.upkeep.declare([Declaration("wild", "shop", ("orders.019999.*", "*.*.cancelled"), "shop:wild")])
    turns = 0
    after: str | None = None
    while not (found := await storage.upkeep.reroute(1000, after)).routed:
        after, turns = found.last, turns + 1
        assert after is not None

    assert at_once.routed == 1
    assert turns == TOPICS // STRETCH - 1
