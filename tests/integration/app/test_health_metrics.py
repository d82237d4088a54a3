"""Health as a metric, whether the database answers, and the pool: what a scrape tells beside the counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring import HealthLimits, Mainspring
from mainspring.model.errors import StorageUnavailable
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import Script, Statement
from tests.integration.app.measuring import Make, maker, of, scraped, storage_of


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


async def test_each_check_is_a_number(make: Make) -> None:
    app = make()
    app.consumer("orders.placed", group="mailer")(repr)
    app.health.check("stripe", lambda: "degraded")
    app.health.check("bank", lambda: False)
    app.health.limits = HealthLimits(backlog=(-1, 10))
    async with app.worker():
        numbers = scraped(await app.metrics())

    process, database = of(numbers, "mainspring_health"), of(numbers, "mainspring_database_health")
    assert process == {"worker": 0, "stripe": 1, "bank": 2}
    assert database["backlog"] == 1
    assert {"storage", "workers", "dead", "schedules"} <= database.keys()
    assert of(numbers, "mainspring_database_up") == {"": 1}


async def test_a_database_that_answers_is_up_whatever_cannot_be_read(make: Make) -> None:
    async with make() as app:
        storage = await storage_of(app)

        async def refused(*_: object) -> None:
            raise StorageUnavailable("cannot execute UPDATE in a read-only transaction")

        storage.leases.acquire = refused  # type: ignore[assignment, method-assign]
        up = of(scraped(await app.metrics()), "mainspring_database_up")

        async def away() -> None:
            raise StorageUnavailable("no route to host")

        storage.ping = away  # type: ignore[assignment, method-assign]
        down = scraped(await app.metrics())

    assert up == {"": 1}
    assert of(down, "mainspring_database_up") == {"": 0}
    assert of(down, "mainspring_database_health") == {}


async def test_a_pool_tells_its_size(make: Make) -> None:
    async with make() as app:
        numbers = scraped(await app.metrics())

    assert of(numbers, "mainspring_pool_size")[""] >= 1
    assert of(numbers, "mainspring_pool_waits_total") == of(numbers, "mainspring_pool_wait_seconds_total") == {"": 0}


@asynccontextmanager
async def held(storage: PostgresStorage) -> AsyncIterator[None]:
    """Keep a connection of the pool busy."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    lines = storage._gateway._shared

    async def hold() -> None:
        async with lines.line():
            begun.set()
            await go_on.wait()

    holding = asyncio.create_task(hold())
    await begun.wait()
    try:
        yield
    finally:
        go_on.set()
        await holding


def nothing() -> Script[None]:
    yield Statement("SELECT 1")


async def test_waits_for_a_connection_are_counted_also_after_it_was_closed(
    postgres_url: str, postgres_schema: str
) -> None:
    app = Mainspring(postgres_url, schema=postgres_schema, pool_size=1)
    async with app:
        storage = await storage_of(app)
        assert isinstance(storage, PostgresStorage)
        async with held(storage):
            busy = app._connection.pool
            waiting = asyncio.create_task(storage._gateway.run(nothing(), "read"))
            await asyncio.sleep(0)
        await waiting
        counted = app._connection.pool
    async with app:
        numbers = scraped(await app.metrics())

    assert busy is not None
    assert counted is not None
    assert (busy.size, busy.busy, busy.waits) == (1, 1, 0)
    assert (counted.busy, counted.waits) == (0, 1)
    assert of(numbers, "mainspring_pool_waits_total") == {"": 1}
    assert of(numbers, "mainspring_pool_wait_seconds_total")[""] == counted.waited > 0


async def test_a_file_that_is_opened_twice_counts_no_wait_twice(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", auto_migrate=True)
    async with app:
        storage = await storage_of(app)
        other = storage.sibling()
        await other.open()
        await asyncio.gather(*(storage.ledger.tally() for _ in range(20)))
        first = app._connection.pool
    async with app:
        second = app._connection.pool
    await other.close()

    assert first is not None
    assert second is not None
    assert first.size == 2
    assert first.waits > 0
    assert second.waits == first.waits
