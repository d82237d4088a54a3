"""Messages for databases of a fleet that cannot be used: they wait, and delay no other."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from mainspring import Fleet, HealthLimits, Mainspring
from mainspring.app.fleet.destinations import Destination
from mainspring.model.message import Draft
from mainspring.model.verdict import Snooze
from tests.faults.proxy import proxy_to
from tests.integration.fleet.across import GROUP, QUICK, Shop, arrived, consuming, sent, there
from tests.integration.fleet.conftest import Make, until
from tests.services.postgres import new_database


@pytest.fixture
def app() -> Mainspring:
    return consuming()


@pytest.fixture
def pair(app: Mainspring, files: Make) -> Shop:
    """Two files, where the database makes no difference."""
    return Shop(app, files("acme", "bolt"))


async def test_databases_that_cannot_be_used_delay_no_other_and_get_everything_later(
    app: Mainspring, files: Make, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with new_database(postgres_url, f"fleet_{uuid4().hex[:8]}") as url, proxy_to(url) as proxy:
        shop = Shop(app, {**files("acme", "bolt"), "hung": proxy.url})
        fleet = shop.fleet()
        await fleet.migrate()
        proxy.black_hole(also_new=True)
        async with fleet, fleet.worker(databases=["acme", "bolt"], **QUICK):
            async with shop.begun() as connection:
                await fleet.publish_many((("moved", n) for n in range(900)), database="hung", tx=connection)
                await fleet.publish_many((("moved", n) for n in range(9)), database="bolt", tx=connection)
            await arrived(fleet, "bolt", 9)
            assert caplog.text.count("hung: messages for it wait") == 0  # the first attempt there still hangs

            await until(lambda: "hung: messages for it wait" in caplog.text)
            report = await fleet.health(HealthLimits(overdue_after=timedelta(milliseconds=1)), databases=["acme"])
            checks = {each.name: each for each in report.databases["acme"].checks}
            assert (checks["forwards"].status, report.status) == ("degraded", "degraded")
            assert GROUP in checks["forwards"].summary

            proxy.cut()
            proxy.heal()
            await arrived(fleet, "hung", 900)
            await sent(fleet)
            assert len(await there(fleet, "hung")) == 900
            assert await fleet["acme"].dead.list() == []
    assert caplog.text.count("hung: messages for it wait") == 1


async def test_a_slow_database_delays_no_other_and_what_it_stores_late_is_not_stored_twice(
    app: Mainspring, servers: Make, files: Make
) -> None:
    shop = Shop(app, {**servers("slow"), **files("acme", "bolt")})
    fleet = shop.fleet()
    await fleet.migrate()
    async with fleet, fleet.worker(databases=["acme", "bolt"], **QUICK):
        async with shop.begun("slow") as stranger:
            await stranger.execute(text("LOCK TABLE mainspring.message"))
            async with shop.begun() as connection:
                await fleet.publish_many((("moved", n) for n in range(300)), database="slow", tx=connection)
                await fleet.publish("moved", 0, database="bolt", tx=connection)
            await put_off(fleet)
            await arrived(fleet, "bolt")
        await arrived(fleet, "slow", 300)
        await sent(fleet)

        assert len(await there(fleet, "slow")) == 300
        assert await fleet["acme"].dead.list() == []


async def test_a_database_without_tables_gets_its_messages_when_it_has_them(app: Mainspring, servers: Make) -> None:
    shop = Shop(app, servers("acme", "bolt"))
    fleet = shop.fleet()
    await fleet.migrate(databases=["acme"])
    async with fleet, fleet.worker(databases=["acme"], **QUICK):
        async with shop.begun() as connection:
            await fleet.publish("moved", 1, database="bolt", tx=connection)
        await put_off(fleet)
        await fleet.migrate(databases=["bolt"])
        await arrived(fleet, "bolt")

        assert await fleet["acme"].dead.list() == []


async def put_off(fleet: Fleet) -> None:
    """Wait until something of acme has been tried and waits."""
    async with asyncio.timeout(60):
        while not await fleet["acme"].messages.list("scheduled", group=GROUP):
            await asyncio.sleep(0.02)


async def test_a_database_that_is_no_longer_in_the_fleet_keeps_its_messages_waiting(
    pair: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainspring.fleet")
    named = dict(pair.urls)
    fleet = Fleet(pair.app, lambda: dict(named))
    await fleet.migrate()
    async with fleet:
        async with pair.begun() as connection:
            receipt = await fleet.publish("moved", 1, database="bolt", tx=connection)
        del named["bolt"]
        await fleet.refresh()
        async with fleet.worker(**QUICK):
            await put_off(fleet)
            assert "bolt: messages for it wait" in caplog.text
            assert "it is no database of the fleet" in caplog.text
            named |= pair.urls
            await fleet.refresh()
            (found,) = await arrived(fleet, "bolt")
            await sent(fleet)
        view = await fleet["acme"].messages.get(receipt.id)

    assert found.message_id == receipt.id
    assert view is not None
    assert view.done[0].attempt == 1  # what waits has not failed


async def test_while_a_database_is_away_few_attempts_are_made_and_a_backlog_is_spread_over_time() -> None:
    away = Destination("gone", None, set())
    draft = Draft(uuid4(), "moved", b"1")

    def waits(outcomes: Mapping[UUID, object]) -> list[timedelta]:
        snoozed = [each for each in outcomes.values() if isinstance(each, Snooze)]
        assert [each.reason for each in snoozed] == ["gone: it is no database of the fleet"] * len(outcomes)
        return [each.delay for each in snoozed if isinstance(each.delay, timedelta)]

    first = [waits(await away.store(GROUP, {draft.id: draft})) for _ in range(10)]
    many = waits(await away.store(GROUP, dict.fromkeys((uuid4() for _ in range(5_000)), draft)))
    most = waits(await away.store(GROUP, dict.fromkeys((uuid4() for _ in range(50_000)), draft)))

    assert max(max(each) for each in first) < timedelta(seconds=10)  # ten attempts would make it a minute
    assert timedelta(seconds=6) <= max(many) <= timedelta(seconds=30)
    assert max(most) <= timedelta(minutes=15)
