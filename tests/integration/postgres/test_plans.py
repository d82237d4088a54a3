"""A claim costs what it takes, not what lies around: a million rows that are none of its business."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import psycopg
import pytest

from mainspring.storage.migrations import migrations
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.columns import of_drafts
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.postgres.gateway import RESERVED_SETTINGS, SHARED_SETTINGS
from tests.integration.postgres.acting import Connection, dial, draft
from tests.integration.postgres.filling import fill_mailbox, filled
from tests.integration.postgres.plans import WANT, explain, hundred, settling

pytestmark = pytest.mark.timeout(300)

NAMES = Names("loaded")
EVER = "NULL, NULL, NULL, NULL"
LATELY = ", ".join(["now() - interval '1 minute'"] * 4)
CLAIM = WANT + ", 'node', interval '30 seconds', NULL"
MANY = 250_000
FIRST_HELD = 3 * MANY + 1  # the deliveries that are held were made last
LAST = 2**63 - 1
NONE = ", NULL"
ONE = "'00000000-0000-7000-8000-000000000001'"
SOME = f"ARRAY[{', '.join(map(str, range(2 * MANY + 1, 2 * MANY + 101)))}]"
BURIED = f"ARRAY[{', '.join(map(str, range(100_000_001, 100_000_101)))}]"
HELD = hundred(FIRST_HELD, MANY + 1)


@pytest.fixture(scope="module")
def loaded(postgres_url: str) -> Iterator[str]:
    """A database with many future, many dead, many of another group, and as many on four levels that are ready."""

    def fill(connection: psycopg.Connection) -> None:
        fill_mailbox(connection, NAMES.schema, future=MANY, dead=MANY, other=MANY, ready=MANY, held=1_000)

    with filled(postgres_url, NAMES.schema, ["message", "delivery", "dead"], fill) as url:
        yield url


@pytest.fixture
async def storage(loaded: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(loaded, schema=NAMES.schema)
    yield storage
    await storage.close()


@pytest.fixture
async def reserved(storage: PostgresStorage) -> AsyncIterator[Connection]:
    """A connection as the engine uses it for claiming and settling."""
    connection = await dial(storage, RESERVED_SETTINGS)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def shared(storage: PostgresStorage) -> AsyncIterator[Connection]:
    """A connection as the engine uses it for everything else."""
    connection = await dial(storage, SHARED_SETTINGS)
    yield connection
    await connection.close(timeout=5)


async def test_a_claim_reads_what_it_takes(reserved: Connection) -> None:
    await reserved.execute("PREPARE claim AS " + NAMES.sql("claim"))
    await explain(
        reserved, "claim", CLAIM.format(limit=1, since=EVER)
    )  # the first run of a statement also reads the catalogue

    one = await explain(reserved, "claim", CLAIM.format(limit=1, since=EVER))
    hundred = await explain(reserved, "claim", CLAIM.format(limit=100, since=EVER))

    assert "delivery_ready" in hundred.indexes
    assert (hundred.read_whole, hundred.unbounded) == (set(), [])
    assert "Sort" not in hundred.under("taken")
    assert one.buffers < 60
    assert hundred.buffers < 4_000


async def test_a_claim_of_nothing_reads_nearly_nothing(reserved: Connection) -> None:
    await reserved.execute("PREPARE claim AS " + NAMES.sql("claim"))
    nobody = CLAIM.replace("'mail'", "'sleeper'")
    await explain(reserved, "claim", nobody.format(limit=100, since=EVER))

    # All of this group's are in the future.
    plan = await explain(reserved, "claim", nobody.format(limit=100, since=EVER))

    assert plan.buffers < 40


async def test_a_low_water_mark_is_a_bound_of_the_index(reserved: Connection) -> None:
    await reserved.execute("PREPARE claim AS " + NAMES.sql("claim"))
    await explain(reserved, "claim", CLAIM.format(limit=100, since=LATELY))

    plan = await explain(reserved, "claim", CLAIM.format(limit=100, since=LATELY))

    [scan] = [node for node in plan.nodes if node.get("Index Name") == "delivery_ready"]
    assert "due_at >=" in scan["Index Cond"]
    assert plan.buffers < 40


@pytest.mark.parametrize(
    ("name", "arguments", "most"),
    [
        ("settle_done", f"{HELD}, 'somebody', NULL", 2_500),
        ("extend", f"{HELD}, 'somebody', interval '30 seconds', NULL", 5_000),
        ("settle", settling(HELD, "bury", "all", "somebody"), 12_000),
        ("reap", "ARRAY['mail', 'other'], 'node', interval '30 seconds', NULL, false, ARRAY[1, 2]::bigint[]", 400),
        ("upcoming", "ARRAY['mail', 'other', 'sleeper'], '1 second', NULL", 150),
    ],
)
async def test_every_reserved_statement_probes_row_by_row(
    reserved: Connection, name: str, arguments: str, most: int
) -> None:
    await reserved.execute(f"PREPARE hot AS {NAMES.sql(name)}")
    await explain(reserved, "hot", arguments)

    plan = await explain(reserved, "hot", arguments)

    assert (plan.read_whole - {"groups"}, plan.unbounded) == (set(), [])
    assert "Hash Join" not in {node["Node Type"] for node in plan.nodes}
    assert plan.buffers < most


async def test_what_is_settled_is_found_by_its_seq_and_removed_by_its_place(reserved: Connection) -> None:
    await reserved.execute(f"PREPARE hot AS {NAMES.sql('settle_done')}")

    plan = await explain(reserved, "hot", f"{HELD}, 'somebody', NULL")

    [locking] = [node for node in plan.nodes if node["Node Type"] == "LockRows"]
    assert [(child["Node Type"], child["Index Name"]) for child in locking["Plans"]] == [
        ("Index Scan", "delivery_pkey")
    ]
    [deletion] = [node for node in plan.nodes if node["Node Type"] == "ModifyTable" and node["Operation"] == "Delete"]
    assert {child["Node Type"] for child in deletion["Plans"]} == {"CTE Scan", "Tid Scan"}


@pytest.mark.parametrize(
    ("name", "arguments", "most"),
    [
        ("cancel", "'00000000-0000-7000-8000-000000000001', NULL, NULL, 'why', 'bell', NULL", 100),
        ("cancel", "NULL, 'topic', 'no such key', 'why', 'bell', NULL", 100),
        ("prune_dead", "interval '1 year', 1000, NULL, NULL", 50),
        ("prune_messages", "interval '1 hour', 1000, NULL", 50),
        ("prune_runs", "ARRAY['done', 'snoozed'], interval '1 hour', 1000, NULL, NULL", 50),
        ("reroute", "1000, 'channel', NULL, '', 1000, 20000", 50),
        ("find_deliveries", "'00000000-0000-7000-8000-000000000001', NULL", 50),
        ("held", f"{FIRST_HELD}, 1, '00000000-0000-7000-8000-000000000001', NULL", 50),
        ("release", "'mail', 'ann', 500, NULL, NULL, 'bell', NULL", 50),
    ],
)
async def test_every_shared_statement_finds_its_rows_by_an_index(
    shared: Connection, name: str, arguments: str, most: int
) -> None:
    await shared.execute(f"PREPARE cold AS {NAMES.sql(name)}")
    await explain(shared, "cold", arguments)

    plan = await explain(shared, "cold", arguments)

    assert plan.read_whole & {"message", "delivery", "dead", "run", "ended", "parked"} == set()
    assert plan.buffers < most


@pytest.mark.parametrize("cache", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("name", "arguments", "most"),
    [
        ("scan_live", f"{LAST}, 500, 'live'{NONE * 7}", 600),
        ("scan_live", f"{LAST}, 500, 'ready', 'mail'{NONE * 4}, 'delayed', NULL", 600),
        ("via_index_live", f"1000, {LAST}, 'running', NULL, NULL", 1_200),
        ("via_index_live", f"100, {LAST}, 'live', 'mail', NULL", 600),
        ("via_index_live", f"100, {LAST}, 'scheduled', NULL, NULL", 600),
        ("via_index_live", f"100, {LAST}, 'ready', 'nobody', NULL", 60),
        ("via_index_keyed", f"100, {LAST}, 'live', NULL, 'no such key'", 60),
        ("via_index_correlated", f"100, {LAST}, 'live', 'no such id', NULL", 60),
        ("via_index_correlated", f"100, {LAST}, 'dead', {ONE}, {ONE}", 60),
        ("find_replacements", ONE, 60),
        ("browse_live", f"{SOME}, 50, 'live'{NONE * 7}, 'x', NULL, NULL, true, NULL", 1_200),
        ("browse_live", f"{SOME}, 50, 'live'{NONE * 8}, {ONE}, {ONE}, true, NULL", 1_500),
        ("scan_dead", f"{LAST}, 500{NONE * 8}", 100),
        ("scan_dead_group", f"{LAST}, 500, 'grave'{NONE * 7}", 100),
        ("scan_dead_cause", f"{LAST}, 500, 'grave'{NONE * 5}, '', 'recurring'", 600),
        ("via_index_dead", f"100, {LAST}, 'topic', NULL", 600),
        ("via_index_dead", f"100, {LAST}, NULL, 'no such cause'", 60),
        ("browse_dead", f"{BURIED}, 50{NONE * 11}, true", 900),
        ("via_index_live", f"100, {LAST}, 'retrying', NULL, NULL", 60),
        ("scan_live", f"{LAST}, 1000, 'retrying'{NONE * 7}", 300),
        ("browse_live", f"{SOME}, 50, 'retrying'{NONE * 10}, false, NULL", 1_500),
        ("payload_sizes", f"{SOME}, 'live'", 900),
        ("payload_sizes", f"{BURIED}, 'dead'", 900),
        ("causes_known", "NULL, 2000", 30),
        ("causes_known", "'grave', 2000", 30),
        ("causes_count", "ARRAY['grave', 'none'], ARRAY['', ''], 100", 150),
        ("causes_latest", "ARRAY['grave', 'none'], ARRAY['', '']", 20),
        ("scan_ended", f"{LAST}, 500, 'done'{NONE * 4}", 50),
        ("scan_ended_group", f"{LAST}, 500, 'done', 'mail'{NONE * 3}", 50),
        ("via_index_ended", f"100, {LAST}, 'cancelled', NULL", 50),
        ("scan_parked", f"{LAST}, 500{NONE * 5}", 50),
        ("scan_parked_topic", f"{LAST}, 500, 'topic'{NONE * 4}", 50),
        ("chain", f"{ONE}, 50, NULL", 100),
        ("runs_failed", f"8{NONE * 2}", 50),
        ("run_now", f"ARRAY[{ONE}::uuid], ARRAY['mail'], 'ann', 'one', 'bell', NULL", 100),
        ("cancel_picked", f"ARRAY[{ONE}::uuid], ARRAY['mail'], 'ann', 'one', 'why', 'bell', NULL", 150),
        ("unbury", f"NULL{NONE * 4}, ARRAY[{ONE}::uuid], ARRAY['grave'], 10, 'ann', 'one', NULL, 'bell', true", 100),
        ("unbury", f"NULL{NONE * 4}, ARRAY[{ONE}::uuid], ARRAY['grave'], 10, 'ann', 'one', NULL, 'bell', false", 100),
    ],
)
async def test_what_operators_look_for_is_found_by_an_index_under_either_plan(
    shared: Connection, name: str, arguments: str, most: int, cache: str
) -> None:
    await shared.execute(f"SET plan_cache_mode = {cache}")
    await shared.execute(f"PREPARE looked AS {NAMES.sql(name)}")
    await explain(shared, "looked", arguments)

    plan = await explain(shared, "looked", arguments)

    assert plan.read_whole & {"message", "delivery", "dead", "run", "parked"} == set()
    assert plan.buffers < most


async def test_counting_stops_at_the_cap(storage: PostgresStorage, shared: Connection) -> None:
    await shared.execute(f"PREPARE tally AS {NAMES.sql('tally')}")
    await explain(shared, "tally", "100, NULL")

    plan = await explain(shared, "tally", "100, NULL")
    tally = await storage.ledger.tally(cap=100)

    assert {each.group: (each.scheduled, each.ready, each.dead) for each in tally.groups} == {
        "grave": (0, 0, 100),
        "mail": (0, 100, 0),
        "other": (0, 100, 0),
        "sleeper": (100, 0, 0),
    }
    assert plan.read_whole & {"message", "delivery", "dead"} == set()
    assert plan.buffers < 5_000


async def test_what_waits_is_counted_in_the_index_and_only_up_to_the_limit(
    storage: PostgresStorage, shared: Connection
) -> None:
    arguments = "ARRAY['mail', 'sleeper', 'nobody'], ARRAY[1000, 10, 1000]"
    for cache in ("force_generic_plan", "force_custom_plan"):
        await shared.execute(f"SET plan_cache_mode = {cache}")
        await shared.execute(f"PREPARE pending_{cache} AS {NAMES.sql('pending')}")
        await explain(shared, f"pending_{cache}", arguments)

        plan = await explain(shared, f"pending_{cache}", arguments)

        [scan] = [node for node in plan.nodes if node.get("Relation Name") == "delivery"]
        assert (scan["Node Type"], scan["Index Name"]) == ("Index Only Scan", "delivery_ready")
        assert "group_name =" in scan["Index Cond"]
        assert (plan.read_whole, plan.buffers < 100) == (set(), True)

    counted = await storage.ledger.pending({"mail": 1_000, "sleeper": 10, "nobody": 1_000})

    assert counted == {"mail": 1_000, "sleeper": 10, "nobody": 0}


def test_the_planner_knows_the_tables(loaded: str) -> None:
    with psycopg.connect(loaded) as connection:
        found = connection.execute("SELECT reltuples FROM pg_class WHERE oid = 'loaded.delivery'::regclass").fetchone()

    assert found is not None
    assert found[0] > 2 * MANY


_PARAMETERS = (
    *("text[]", "text[]", "text[]", "smallint[]", "integer[]", "uuid[]", "bytea[]", "text[]", "text[]", "interval[]"),
    *("timestamptz[]", "interval[]", "timestamptz[]", "text[]", "uuid[]", "text[]", "boolean[]", "uuid[]"),
    *("text", "timestamptz"),
)


def _published() -> str:
    """The statement that the function runs, whose plan none but the function's session knows."""
    [text] = [each.sql(NAMES.quoted) for each in migrations(PACKAGE) if "FUNCTION mainspring.publish_all(" in each.text]
    return text[text.index("WITH kind") : text.index("INTO known")]


async def test_a_batch_is_published_without_comparing_all_with_all(
    shared: Connection, storage: PostgresStorage
) -> None:
    transaction = shared.transaction()
    await transaction.start()
    kinds = "ARRAY['t'], ARRAY['application/json'], ARRAY[NULL], ARRAY[2]"
    ids = "'{" + ",".join(str(uuid4()) for _ in range(1000)) + "}'"
    payloads = "array_fill('\\x00'::bytea, ARRAY[1000])"
    rest = ", ".join(["'{}'"] * (len(of_drafts([draft()])) - 7))
    await shared.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    await shared.execute(f"PREPARE publish ({', '.join(_PARAMETERS)}) AS {_published()}")
    arguments = f"{kinds}, array_fill(1, ARRAY[1000]), {ids}, {payloads}, {rest}, 'channel', NULL"

    plan = await explain(shared, "publish", arguments)
    await transaction.rollback()

    loops = [
        node
        for node in plan.nodes
        if node["Node Type"] == "Nested Loop"
        and node["Plans"][1].get("Actual Loops", 0) > 1
        and node["Plans"][1]["Node Type"] == "CTE Scan"
        and node["Plans"][1]["Actual Rows"] > 1
    ]
    assert any(node["Node Type"] == "ModifyTable" and node["Relation Name"] == "delivery" for node in plan.nodes)
    assert loops == []
