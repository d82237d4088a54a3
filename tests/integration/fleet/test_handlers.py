"""In a handler everything of the module's app is on the database whose worker runs it."""

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from mainspring import Context, Fleet, Mainspring, every
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import Misuse
from tests.integration.fleet.conftest import Make, until

QUICK: dict[str, Any] = {"longest_pause": "1s", "idle": "1s"}


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("fleet://", name="shop")


async def topics(app: Mainspring) -> list[str]:
    return sorted(each.topic for each in await app.messages.list("parked"))


async def test_a_coroutine_stays_in_its_database(app: Mainspring, servers: Make) -> None:
    done: list[str] = []

    @app.consumer("others")
    async def other(tenant: str) -> None:
        done.append(tenant)

    @app.consumer("orders.placed")
    async def receipts(tenant: str, ctx: Context) -> None:
        await app.publish("by.app", tenant)
        await app.publish_many([("by.many", tenant)])
        await ctx.publish("by.ctx", tenant)
        await other.send(tenant)
        async with app.leases.hold("nightly") as lease:
            done.append(f"{tenant} {lease.epoch}")
        assert await app.inbox.admit("7", source="shop")
        await asyncio.create_task(app.publish("by.task", tenant))

    urls = servers("acme", "bolt")
    async with Fleet(app, urls) as fleet:
        await fleet.migrate()
        async with fleet.worker(**QUICK):
            for name in urls:
                await fleet.publish("orders.placed", name, database=name)
            await until(lambda: len(done) == 4)

        for name in urls:
            assert await topics(fleet[name]) == ["by.app", "by.ctx", "by.many", "by.task"]
            assert [each.name for each in await fleet[name].leases.list()] == ["nightly"]
            assert len(await fleet[name].inbox.list()) == 1
    # One lease in each database: in one and the same, the second would have been its second.
    assert sorted(done) == ["acme", "acme 1", "bolt", "bolt 1"]


async def test_a_plain_function_stays_in_its_database(app: Mainspring, files: Make) -> None:
    done: list[str] = []

    @app.consumer("others")
    def other(tenant: str) -> None:
        done.append(tenant)

    @app.consumer("orders.placed")
    def receipts(tenant: str, ctx: Context) -> None:
        app.sync.publish("by.app", tenant)
        ctx.sync.publish("by.ctx", tenant)
        other.sync.send(tenant)

    async with Fleet(app, files("acme", "bolt")) as fleet:
        async with fleet.worker(**QUICK):
            for name in fleet:
                await fleet.publish("orders.placed", name, database=name)
            await until(lambda: len(done) == 2)

        for name in fleet:
            assert await topics(fleet[name]) == ["by.app", "by.ctx"]
    assert sorted(done) == ["acme", "bolt"]


async def test_a_handler_may_publish_to_another_database_of_its_fleet(app: Mainspring, files: Make) -> None:
    sent = asyncio.Event()

    @app.consumer("orders.placed")
    async def receipts(_order: dict[str, Any]) -> None:
        await fleet["bolt"].publish("moved", {})
        await fleet.publish("moved", {}, database="bolt")
        sent.set()

    fleet = Fleet(app, files("acme", "bolt"))
    async with fleet.worker(**QUICK):
        await fleet.publish("orders.placed", {}, database="acme")
        await asyncio.wait_for(sent.wait(), 30)

        assert await topics(fleet["bolt"]) == ["moved", "moved"]
        assert await topics(fleet["acme"]) == []


async def test_another_app_is_where_it_always_is(app: Mainspring, files: Make) -> None:
    other = Mainspring("memory://", name="billing")
    Fleet(other, files("billing"))
    sent = asyncio.Event()

    @app.consumer("orders.placed")
    async def receipts(_order: dict[str, Any]) -> None:
        await other.publish("billed", {})
        sent.set()

    fleet = Fleet(app, files("acme"))
    async with other, fleet.worker(**QUICK):
        await fleet.publish("orders.placed", {}, database="acme")
        await asyncio.wait_for(sent.wait(), 30)

        assert await topics(other) == ["billed"]


async def test_a_transactional_handler_has_a_transaction_of_its_database(app: Mainspring, servers: Make) -> None:
    sent: list[str] = []

    @app.consumer("orders.placed", transactional=True)
    async def receipts(tenant: str, ctx: Context) -> None:
        await ctx.publish("by.ctx", tenant)
        await fleet.publish("by.fleet", tenant, tx=ctx.tx)
        sent.append(await ctx.tx.fetchval("SELECT current_database()"))

    urls = servers("acme", "bolt")
    fleet = Fleet(app, urls)
    await fleet.migrate()
    async with fleet.worker(**QUICK):
        for name in urls:
            await fleet.publish("orders.placed", name, database=name)
        await until(lambda: len(sent) == 2)
        for name in urls:
            async with asyncio.timeout(30):
                while await topics(fleet[name]) != ["by.ctx", "by.fleet"]:
                    await asyncio.sleep(0.02)

    assert sorted(sent) == sorted(url.rpartition("/")[2] for url in urls.values())


async def test_a_schedule_fires_in_every_database(app: Mainspring, files: Make) -> None:
    runs: dict[str, int] = defaultdict(int)

    @app.recurring(every("1s"))
    async def nightly() -> None:
        place = repr(app.messages)
        runs[place] += 1
        await app.publish("ticked", {})

    async with Fleet(app, files("acme", "bolt")) as fleet:
        async with fleet.worker(**QUICK):
            await until(lambda: len(runs) == 2 and min(runs.values()) >= 2)

        fired = {name: (await fleet[name].schedules.get("nightly")) for name in fleet}
        counted = {name: len(await topics(fleet[name])) for name in fleet}
        # One may have been due just when the worker ended.
        left = {name: sum(each.ready for each in (await fleet[name].stats.tally()).groups) for name in fleet}
        assert {name: view.fired - left[name] for name, view in fired.items() if view is not None} == counted


async def test_an_intake_is_rejected_since_nothing_names_its_database(app: Mainspring, files: Make) -> None:
    app.intake(MemoryBroker(MemoryQueues({"orders": ()}), read="orders"), {"orders": "orders.placed"})

    with pytest.raises(Misuse, match="read it with an app of its own"):
        async with Fleet(app, files("acme")).worker():
            pass


async def test_the_kit_puts_an_app_that_leads_a_fleet_on_memory(app: Mainspring, files: Make) -> None:
    @app.consumer("orders.placed")
    async def receipts(tenant: str) -> None:
        await app.publish("by.app", tenant)

    Fleet(app, files("acme"))
    with app.testing() as kit:
        await app.publish("orders.placed", "acme")
        await kit.drain()

        assert [each.topic for each in kit.published()] == ["orders.placed", "by.app"]
