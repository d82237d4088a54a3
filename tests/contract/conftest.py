"""The storage under test: empty, migrated, its clock at noon, once for every database there is."""

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


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        *(f"{driver}-{server}" for server in SERVERS for driver in ("asyncpg", "psycopg")),
    ]
)
def blank(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_database: Callable[[str], str]
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
        _empty(postgres_database(server))
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


def _empty(url: str) -> None:
    """Delete every row but those of the migrations: far faster than making the tables for every test."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migration'", (SCHEMA,)
        )
        for (table,) in found.fetchall():
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(SCHEMA, table)))
