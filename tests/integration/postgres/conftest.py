"""A migrated schema of the test's own, and plain connections beside it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest

from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName
from tests.integration.postgres.acting import Connection
from tests.services.schemas import Schemas


@pytest.fixture
def driver() -> DriverName:
    """The storage's driver. Where it matters, a file is marked to be run with every one."""
    return "asyncpg"


@pytest.fixture
async def alone(postgres_schemas: Schemas) -> None:
    """Nobody else of ours is connected: an app that an earlier test let go of, unclosed, is closed by now."""
    async with asyncio.timeout(60):
        while postgres_schemas.sessions():
            gc.collect()
            await asyncio.sleep(0.01)


@pytest.fixture
async def make(
    alone: None, postgres_url: str, postgres_schema: str, driver: DriverName
) -> AsyncIterator[Callable[[], PostgresStorage]]:
    """Opens one more storage on the test's schema; all of them are closed afterwards."""
    made: list[PostgresStorage] = []

    def storage() -> PostgresStorage:
        made.append(PostgresStorage(postgres_url, schema=postgres_schema, driver=driver))
        return made[-1]

    yield storage
    for each in made:
        await each.close()


@pytest.fixture
async def storage(make: Callable[[], PostgresStorage]) -> PostgresStorage:
    """A storage with its tables."""
    storage = make()
    await storage.schema.migrate()
    return storage


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Connection]:
    """Another client of the same database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def another(postgres_url: str) -> AsyncIterator[Connection]:
    """And one more."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)
