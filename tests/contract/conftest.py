"""The storage under test: empty, migrated, its clock at noon, once for every database there is.

Memory runs the scripts of SQLite, so that it is tested only where it can differ: in what is marked ``memory``.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from mainspring.storage.contract import Storage
from mainspring.storage.memory import MemoryStorage
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.sqlite import SqliteStorage
from tests.contract.acting import NOON
from tests.services.postgres import HOME, NAMED, SERVERS, new_database, shared_server

SCHEMA = "contract"


@pytest.fixture(scope="session")
def postgres_database(request: pytest.FixtureRequest, worker_id: str) -> Iterator[Callable[[str], str]]:
    """A database of this worker by the name of its server, made when it is first asked for.

    The fixture `postgres_url` would make one for the tests of the other storages too.
    """
    with ExitStack() as stack:

        @cache
        def database(server: str) -> str:
            url = NAMED if server == "named" else shared_server(request.config.stash[HOME])
            assert url is not None
            return stack.enter_context(new_database(url, f"contract_{worker_id}_{uuid4().hex[:8]}"))

        yield database


@pytest.fixture(scope="session")
def empty(postgres_database: Callable[[str], str]) -> Iterator[Callable[[str], None]]:
    """Deletes every row of the database of a server but those of the migrations.

    That is far faster than making the tables for every test, and faster still on a connection that is there already.
    """
    with ExitStack() as stack:

        @cache
        def connected(server: str) -> psycopg.Connection:
            return stack.enter_context(psycopg.connect(postgres_database(server), autocommit=True))

        yield lambda server: _empty(connected(server))


DATABASES = [
    "sqlite",
    *(f"asyncpg-{server}" for server in SERVERS),
    # Both drivers run the same scripts, and tests/integration/postgres measures what is psycopg's own.
    *(pytest.param(f"psycopg-{server}", marks=pytest.mark.unmeasured) for server in SERVERS),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "blank" in metafunc.fixturenames:
        memory = ["memory"] if metafunc.definition.get_closest_marker("memory") else []
        metafunc.parametrize("blank", [*memory, *DATABASES], indirect=True)


@pytest.fixture
def blank(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_database: Callable[[str], str],
    empty: Callable[[str], None],
) -> Callable[[str], Storage]:
    """Makes the storage of a name, not opened and, unless the name was used before, without any tables."""
    kind, _, server = str(request.param).partition("-")

    def make(name: str) -> Storage:
        match kind:
            case "memory":
                return MemoryStorage()
            case "sqlite":
                return SqliteStorage(str(tmp_path / f"{name}.db"))
            case "asyncpg" | "psycopg":
                return PostgresStorage(postgres_database(server), schema=name, driver=kind)
        raise AssertionError(kind)

    if server:
        empty(server)
    return make


@pytest.fixture
async def storage(blank: Callable[[str], Storage]) -> AsyncIterator[Storage]:
    storage = blank(SCHEMA)
    await storage.open()
    try:
        await storage.schema.migrate()
        storage.now = NOON
        yield storage
    finally:
        await storage.close()


def _empty(connection: psycopg.Connection) -> None:
    found = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migration'", (SCHEMA,)
    )
    deletes = [sql.SQL("DELETE FROM {}").format(sql.Identifier(SCHEMA, table)) for (table,) in found.fetchall()]
    if deletes:
        connection.execute(sql.SQL("; ").join(deletes))  # in one trip
