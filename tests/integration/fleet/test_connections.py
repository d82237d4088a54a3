"""The connections of a fleet: two for a database that works, three while its handlers take long."""

import asyncio
from typing import Any

import psycopg

from mainspring import Fleet, Mainspring
from tests.integration.fleet.conftest import Make, until

MESSAGES = 300


async def test_a_database_that_works_has_two_connections_or_three(servers: Make, postgres_url: str) -> None:
    app = Mainspring("fleet://", name="shop", pool_size=8)
    handled = 0

    @app.consumer("orders.placed", concurrency=50)
    async def handle(order: dict[str, Any]) -> None:
        nonlocal handled
        await app.publish("orders.handled", order)
        handled += 1

    @app.recurring("* * * * *")
    async def tick() -> None: ...

    urls = servers("acme", "bolt", "cask")
    called = [url.rpartition("/")[2] for url in urls.values()]
    sql = "SELECT datname, count(*) FROM pg_stat_activity WHERE datname = ANY (%s) GROUP BY 1"
    most: dict[str, int] = {}
    fleet = Fleet(app, urls)
    await fleet.migrate()
    async with fleet, await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        for name in urls:
            await fleet[name].publish_many(("orders.placed", {"n": n}) for n in range(MESSAGES))
        async with fleet.worker() as worker:
            while handled < MESSAGES * len(urls):
                for name, count in await (await connection.execute(sql, [called])).fetchall():
                    most[name] = max(most.get(name, 0), count)
                await asyncio.sleep(0)
            await until(lambda: len(worker.open) == len(urls))

    # A third one extends claims that are in hand for ten seconds, as on a slow machine.
    assert set(most) == set(called)
    assert max(most.values()) <= 3


async def test_its_worker_declares_nothing_that_the_fleet_has_declared(servers: Make) -> None:
    app = Mainspring("fleet://", name="shop")
    handled = asyncio.Event()

    @app.consumer("orders.placed")
    async def handle(_: dict[str, Any]) -> None:
        handled.set()

    urls = servers("acme")
    fleet = Fleet(app, urls)
    await fleet.migrate()
    async with fleet.worker(longest_pause="1s", idle="100ms") as worker:
        async with asyncio.timeout(60):
            while not (groups := [each.name for each in await fleet["acme"].groups.list()]):
                await asyncio.sleep(0.02)
        assert groups == ["handle", "mainspring.fleet.shop"]
        await fleet["acme"].groups.pause("handle")
        await fleet.publish("orders.placed", {}, database="acme")
        async with await psycopg.AsyncConnection.connect(urls["acme"], autocommit=True) as connection:
            await connection.execute("DELETE FROM mainspring.subscription")
            await fleet["acme"].groups.resume("handle")
            async with asyncio.timeout(60):
                await handled.wait()
            await until(lambda: not worker.open)
            row = await (await connection.execute("SELECT count(*) FROM mainspring.subscription")).fetchone()

    assert row == (0,)
