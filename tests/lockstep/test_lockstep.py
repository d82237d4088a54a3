"""SQLite and PostgreSQL, driven in lockstep through histories that Hypothesis makes up."""

from functools import partial
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from psycopg import sql

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName
from mainspring.storage.sqlite import SqliteStorage
from tests.lockstep.fanouts import Fanned
from tests.lockstep.inboxes import Inboxes
from tests.lockstep.joins import Joined
from tests.lockstep.leases import Leased
from tests.lockstep.limits import Limited
from tests.lockstep.machine import Lockstep
from tests.lockstep.timetables import Timetabled
from tests.lockstep.twins import Runner, Twins

# Tracing takes a good part of the time, and tests/contract measures nearly every line that runs here.
pytestmark = [pytest.mark.no_cover, pytest.mark.timeout(7200)]

CI = settings(
    max_examples=10,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
LARGE = settings(CI, max_examples=1000, stateful_step_count=60, derandomize=False, print_blob=True)


@pytest.fixture
def size(large: bool) -> settings:
    return LARGE if large else CI


@pytest.fixture(params=[Lockstep, Timetabled, Joined, Leased, Inboxes, Limited, Fanned])
def histories(request: pytest.FixtureRequest) -> type[Twins]:
    made: type[Twins] = request.param
    return made


@pytest.mark.parametrize("by", ["asyncpg", "psycopg"])
def test_postgres_keeps_step_with_sqlite(
    tmp_path: Path, postgres_url: str, postgres_schema: str, by: DriverName, histories: type[Twins], size: settings
) -> None:
    runner, postgres = Runner(), PostgresStorage(postgres_url, schema=postgres_schema, driver=by)
    sqlite = SqliteStorage(str(tmp_path / "migrated.db"))
    runner.run(sqlite.open())
    runner.run(sqlite.schema.migrate())
    runner.run(sqlite.close())
    # Both drivers run the same scripts: what could differ is how values travel, which a few histories show.
    few = size.max_examples // 3 if by == "psycopg" else size.max_examples
    runner.run(postgres.open())
    try:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            empty = partial(_empty, connection, postgres_schema)
            where = {"migrated": tmp_path / "migrated.db", "runner": runner, "postgres": postgres, "empty": empty}
            here = type("Here", (histories,), where)
            run_state_machine_as_test(here, settings=settings(size, max_examples=few))
    finally:
        runner.run(postgres.close())
        runner.close()


def _empty(connection: psycopg.Connection, schema: str) -> None:
    found = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migration'", (schema,)
    )
    deletes = [sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, table)) for (table,) in found.fetchall()]
    connection.execute(sql.SQL("; ").join(deletes))  # in one trip
