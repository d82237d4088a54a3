"""Pruning topic by topic costs what there are topics and what goes, not what is kept: a hundred thousand of each."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from mainspring.model.retention import Kind, Retention
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.filling import filled
from tests.integration.postgres.plans import explain

NAMES = Names("kept")
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
TABLES = {"run", "dead", "parked", "delivery"}
# Row n is n seconds old: what is kept is older than what goes, as where one topic keeps its history for a year.
# One in a hundred is of a topic that is kept for a minute only, a few of one that has just begun.
_TOPIC = "CASE WHEN n < 50 THEN 'late.one' WHEN n % 100 = 0 THEN 'brief.one' ELSE 'kept.' || n % 12 END"
_ID = "('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
_FILL = f"""
    INSERT INTO kept.run (started_at, finished_at, message_id, attempt, status, group_name, topic)
    SELECT now() - n * interval '1 s', now() - n * interval '1 s', {_ID}, 1, 'done', 'mail', {_TOPIC}
    FROM generate_series(1, 100000) AS n;
    INSERT INTO kept.dead (
        seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
        buried_at
    )
    SELECT n, {_ID}, 'grave', {_TOPIC}, 2, 1, 1, 0, now(), now(), 'error', 'boom', now() - n * interval '1 s'
    FROM generate_series(1, 100000) AS n;
    INSERT INTO kept.parked (message_id, topic, priority, due_at, scheduled_for, published_at, parked_at)
    SELECT {_ID}, {_TOPIC}, 2, now(), now(), now(), now() - n * interval '1 s'
    FROM generate_series(1, 100000) AS n;
"""


@pytest.fixture(scope="module")
def loaded(postgres_url: str) -> Iterator[str]:
    with filled(postgres_url, NAMES.schema, ["run", "dead", "parked"], lambda made: made.execute(_FILL)) as url:
        yield url


@pytest.fixture
async def storage(loaded: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(loaded, schema=NAMES.schema)
    yield storage
    await storage.close()


@pytest.fixture
async def shared(storage: PostgresStorage) -> AsyncIterator[Connection]:
    """A connection as the engine uses it for pruning."""
    connection = await dial(storage, SHARED_SETTINGS)
    yield connection
    await connection.close(timeout=5)


@pytest.mark.parametrize(
    ("name", "arguments", "most"),
    [
        ("topics_ran", "ARRAY['done', 'snoozed', 'cancelled'], NULL, '', 1000", 400),
        ("topics_dead", "NULL, '', 1000", 200),
        ("topics_parked", "NULL, '', 1000", 200),
        # Nothing is over, of one topic that keeps as much as there is, of one that keeps little, or of all of them.
        ("prune_runs", "ARRAY['done'], interval '1 year', 1000, NULL, 'kept.1'", 100),
        ("prune_dead", "interval '1 year', 1000, NULL, 'kept.1'", 50),
        ("prune_parked", "interval '1 year', 1000, NULL, 'kept.1'", 50),
        ("prune_runs", "ARRAY['done'], interval '10 minutes', 1000, NULL, 'late.one'", 100),
        ("prune_dead", "interval '10 minutes', 1000, NULL, 'late.one'", 50),
        ("prune_parked", "interval '10 minutes', 1000, NULL, 'late.one'", 50),
        ("prune_runs", "ARRAY['done'], interval '1 year', 1000, NULL, NULL", 100),
        ("prune_dead", "interval '1 year', 1000, NULL, NULL", 50),
        ("prune_parked", "interval '1 year', 1000, NULL, NULL", 50),
        # Ten go, from among what is kept.
        ("prune_runs", "ARRAY['done'], interval '1 minute', 10, NULL, 'brief.one'", 2_000),
        ("prune_dead", "interval '1 minute', 10, NULL, 'brief.one'", 200),
        ("prune_parked", "interval '1 minute', 10, NULL, 'brief.one'", 400),
    ],
)
async def test_what_is_over_is_found_by_an_index(shared: Connection, name: str, arguments: str, most: int) -> None:
    await shared.execute(f"PREPARE cold AS {NAMES.sql(name)}")
    for _ in range(6):  # by then PostgreSQL may have settled for one plan for any arguments
        await explain(shared, "cold", arguments)

    plan = await explain(shared, "cold", arguments)

    assert plan.read_whole & TABLES == set()
    assert plan.buffers < most


async def test_all_that_is_over_goes_and_all_else_stays(storage: PostgresStorage) -> None:
    brief: dict[Kind, timedelta | None] = {"done": MINUTE, "dead": MINUTE, "parked": MINUTE}
    kept = Retention(done=365 * DAY, failures=None, dead=None, parked=365 * DAY, topics={"brief.*": brief})

    batches = []
    while (batch := await storage.upkeep.prune(kept, 400)).total:
        batches.append((batch.runs, batch.dead, batch.parked))

    # A thousand of each, all of them older than a minute, and nothing of what is kept.
    assert batches == [(400, 400, 400), (400, 400, 400), (200, 200, 200)]
