"""Reading and pruning measures costs what is in the window and what goes, not what is kept: eight days of it."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import psycopg
import pytest

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial
from tests.integration.postgres.filling import filled
from tests.integration.postgres.plans import explain

NAMES = Names("measured")
# Five groups that were at work all the time, each with ten counts in every span, and what they make together.
_FILL = """
    INSERT INTO measured.measure (span, at, group_name, what, bin, count)
    SELECT s.span, to_timestamp(floor(extract(epoch FROM now()) / s.span) * s.span) - n * s.span * interval '1 second',
        CASE g WHEN 0 THEN '' ELSE 'group-' || g END, 'run', b, CASE g WHEN 0 THEN 5 ELSE 1 END
    FROM (VALUES (10, 720), (600, 1152)) AS s (span, spans)
    CROSS JOIN LATERAL generate_series(0, s.spans - 1) AS n
    CROSS JOIN generate_series(0, 5) AS g
    CROSS JOIN generate_series(1, 10) AS b
"""


# What is not moved yet of the two latest spans, of 64 slots.
_SLOTS = """
    INSERT INTO measured.measure_slot (span, at, slot, group_name, what, bin, count)
    SELECT s.span, to_timestamp(floor(extract(epoch FROM now()) / s.span) * s.span) - n * s.span * interval '1 second',
        slot, CASE g WHEN 0 THEN '' ELSE 'group-' || g END, 'wait', b, 1
    FROM (VALUES (10), (600)) AS s (span)
    CROSS JOIN generate_series(0, 1) AS n
    CROSS JOIN generate_series(0, 63) AS slot
    CROSS JOIN generate_series(0, 5) AS g
    CROSS JOIN generate_series(1, 10) AS b
"""


@pytest.fixture(scope="module")
def loaded(postgres_url: str) -> Iterator[str]:

    def fill(connection: psycopg.Connection) -> None:
        connection.execute(_FILL)
        connection.execute(_SLOTS)

    with filled(postgres_url, NAMES.schema, ["measure", "measure_slot"], fill) as url:
        yield url


@pytest.fixture
async def storage(loaded: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(loaded, schema=NAMES.schema)
    yield storage
    await storage.close()


@pytest.fixture
async def shared(storage: PostgresStorage) -> AsyncIterator[Connection]:
    """A connection as the engine uses it for reading and pruning."""
    connection = await dial(storage, SHARED_SETTINGS)
    yield connection
    await connection.close(timeout=5)


@pytest.mark.parametrize(
    ("name", "arguments", "most"),
    [
        # 90 spans of ten counts, and each takes a look at its page: 900 of 112,320; and two spans in 64 slots.
        ("measure_read", "10, interval '890 s', '', NULL", 2_600),
        ("measure_read", "10, interval '890 s', 'group-1', NULL", 2_600),
        ("measure_rates", "10, interval '60 s', NULL", 1_200),
        ("prune_measures", "ARRAY[10, 600], ARRAY[864000, 864000], 1000, NULL", 50),
    ],
)
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_a_statement_reads_what_it_is_asked_for(
    shared: Connection, name: str, arguments: str, most: int, mode: str
) -> None:
    await shared.execute(f"SET plan_cache_mode = {mode}")
    await shared.execute(f"PREPARE asked AS {NAMES.sql(name)}")

    plan = await explain(shared, "asked", arguments)

    assert plan.read_whole == set()
    assert plan.unbounded == []
    assert plan.buffers <= most


async def test_all_that_is_kept_is_read_in_one_statement(storage: PostgresStorage) -> None:
    await storage.open()

    sums = await storage.measures.read(600, timedelta(seconds=600) * 1007, "")
    one = await storage.measures.read(600, timedelta(seconds=600) * 1007, "group-1")

    # A window may begin a span later than it was filled, where a span has ended since.
    assert 1006 * 10 <= len([what for _, what, _, _ in sums.rows if what == "run"]) <= 1008 * 10
    assert {(what, count) for _, what, _, count in sums.rows} == {("run", 5), ("wait", 64)}
    assert {(what, count) for _, what, _, count in one.rows} == {("run", 1), ("wait", 64)}


async def test_what_goes_is_removed_by_its_key(shared: Connection) -> None:
    await shared.execute(f"PREPARE asked AS {NAMES.sql('prune_measures')}")

    plan = await explain(shared, "asked", "ARRAY[10, 600], ARRAY[3600, 864000], 100, NULL")

    assert plan.read_whole == set()
    assert plan.unbounded == []
    assert plan.buffers <= 1_500


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_what_is_moved_out_of_its_slots_is_found_by_its_time(shared: Connection, mode: str) -> None:
    await shared.execute(f"SET plan_cache_mode = {mode}")
    await shared.execute(f"PREPARE asked AS {NAMES.sql('measure_merge')}")

    plan = await explain(shared, "asked", "ARRAY[10, 600], 100, NULL")

    assert plan.read_whole == set()
    assert plan.unbounded == []
    assert plan.buffers <= 1_500
