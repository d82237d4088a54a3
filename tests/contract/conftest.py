"""The storage under test: empty, migrated, its clock at noon, once for every database there is.

Memory runs the scripts of SQLite, and psycopg those of asyncpg. They are tested where they can differ, in what is
marked ``memory`` or ``psycopg``: the latter is about values, errors and transactions, and runs every statement.

All tests share one loop, and those on PostgreSQL one open storage: a new connection plans every statement again, which
takes longer than most tests.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from shutil import copy
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio

from mainspring.storage.contract import Storage
from mainspring.storage.memory import MemoryStorage
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.sqlite import SqliteStorage
from tests.contract.acting import NOON
from tests.services.postgres import HOME, NAMED, SERVERS, new_database, shared_server
from tests.services.schemas import emptying

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


ASYNCPG = [f"asyncpg-{server}" for server in SERVERS]
# Not measured: tests/integration/postgres measures what is psycopg's own.
PSYCOPG = [pytest.param(f"psycopg-{server}", marks=pytest.mark.unmeasured) for server in SERVERS]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/contract/") and item.get_closest_marker("asyncio"):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "blank" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker
        embedded = ["memory", "sqlite"] if marked("memory") else ["sqlite"]
        servers = [*ASYNCPG, *(PSYCOPG if marked("psycopg") else [])]
        wanted = embedded if metafunc.config.getoption("--quick") else [*embedded, *servers]
        metafunc.parametrize("blank", wanted, indirect=True)


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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def open_storages() -> AsyncIterator[dict[str, Storage]]:
    """Storages on PostgreSQL that stay open from test to test, by their kind."""
    storages: dict[str, Storage] = {}
    yield storages
    for storage in storages.values():
        await storage.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with its tables, to be copied."""
    path = tmp_path_factory.mktemp("contract") / "migrated.db"
    storage = SqliteStorage(str(path))
    await storage.open()
    await storage.schema.migrate()
    await storage.close()
    return path


@pytest_asyncio.fixture(loop_scope="session")
async def storage(
    request: pytest.FixtureRequest,
    blank: Callable[[str], Storage],
    open_storages: dict[str, Storage],
    migrated: Path,
    tmp_path: Path,
) -> AsyncIterator[Storage]:
    kind: str = request.node.callspec.params["blank"]
    if kind == "sqlite":
        copy(migrated, tmp_path / f"{SCHEMA}.db")
    storage = open_storages.get(kind) or blank(SCHEMA)
    try:
        if kind not in open_storages:
            await storage.open()
            await storage.schema.migrate()
        if isinstance(storage, PostgresStorage):
            open_storages[kind] = storage
        storage.now = NOON
        yield storage
    finally:
        if kind not in open_storages:
            await storage.close()


def _empty(connection: psycopg.Connection) -> None:
    found = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migration'", (SCHEMA,)
    )
    if tables := tuple(table for (table,) in found):
        connection.execute(emptying(SCHEMA, tables))
