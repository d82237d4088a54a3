"""Databases that come and go while a fleet is open, and functions that name them badly."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mainspring import Fleet, Mainspring
from mainspring.model.errors import NotOpen, UnknownDatabase
from tests.integration.fleet.conftest import Make, until

QUICK: dict[str, Any] = {"longest_pause": "1s", "idle": "1s"}


class Directory:
    """Names databases, until it fails."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.urls: Any = dict(urls)
        self.asked = 0

    async def __call__(self) -> Mapping[str, str]:
        return self.answer()

    def answer(self) -> Mapping[str, str]:
        self.asked += 1
        if isinstance(self.urls, Exception):
            raise self.urls
        found: Mapping[str, str] = self.urls
        return found


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("fleet://", name="shop")


@pytest.mark.parametrize("kind", ["object", "plain", "async"])
async def test_a_function_names_the_databases_when_the_fleet_opens(app: Mainspring, files: Make, kind: str) -> None:
    directory = Directory(files("acme"))
    named: Any = {"object": directory, "plain": directory.answer, "async": directory.__call__}[kind]
    fleet = Fleet(app, named)
    with pytest.raises(UnknownDatabase, match=r"There are: none\. If it is new, `await fleet.refresh\(\)`"):
        fleet["acme"]

    async with fleet:
        await fleet.publish("a", {}, database="acme")

        assert directory.asked == 1
        assert len(await fleet["acme"].messages.list("parked")) == 1


async def test_it_is_asked_again_while_the_fleet_is_open(app: Mainspring, files: Make) -> None:
    directory = Directory(files("acme"))
    async with Fleet(app, directory, refresh="10ms") as fleet:
        directory.urls = files("acme", "bolt")
        await until(lambda: "bolt" in fleet)

    asked = directory.asked
    await asyncio.sleep(0)
    assert directory.asked == asked


async def test_a_new_database_is_served_and_one_that_is_gone_is_drained(app: Mainspring, files: Make) -> None:
    done: list[str] = []
    began, release = asyncio.Event(), asyncio.Event()

    @app.consumer("orders.placed")
    async def receipts(tenant: str) -> None:
        if tenant == "acme":
            began.set()
            await release.wait()
        done.append(tenant)

    directory = Directory(files("acme"))
    fleet = Fleet(app, directory)
    async with fleet.worker(**QUICK) as worker:
        acme = fleet["acme"]
        await fleet.publish("orders.placed", "acme", database="acme")
        await began.wait()
        directory.urls = files("bolt")
        await fleet.refresh()
        await fleet.publish("orders.placed", "bolt", database="bolt")
        await until(lambda: done == ["bolt"])
        assert list(fleet) == ["bolt"]

        release.set()
        await until(lambda: done == ["bolt", "acme"])
        await until(lambda: not fleet._departing)
        assert not acme._connection.is_open
        with pytest.raises(NotOpen, match="no longer has this database"):
            await acme.publish("orders.placed", "acme")
        assert worker.troubles == {}

        # It comes back with nothing left to do: what was in hand when it went was settled.
        directory.urls = files("acme", "bolt")
        await fleet.refresh()
        assert [each.running for each in (await fleet["acme"].stats.tally()).groups if each.running] == []
        assert await fleet["acme"].messages.list() == []
        assert fleet["acme"] is not acme


async def test_a_function_that_fails_leaves_the_databases_as_they_were(
    app: Mainspring, files: Make, caplog: pytest.LogCaptureFixture
) -> None:
    directory = Directory(files("acme"))
    caplog.set_level(logging.INFO, "mainspring.fleet")
    async with Fleet(app, directory) as fleet:
        await fleet["acme"].migrate()
        acme = fleet["acme"]
        for bad in (RuntimeError("no directory"), 7, None, ["acme"]):
            directory.urls = bad
            await fleet.refresh()
            assert fleet["acme"] is acme
        health = await fleet.health()
        directory.urls = files("acme")
        await fleet.refresh()
        healed = await fleet.health()

    assert (health.status, [each.name for each in health.checks]) == ("degraded", ["discovery"])
    assert "must be a mapping" in health.checks[0].summary
    assert healed.status == "healthy"
    told = [each.message for each in caplog.records if each.name == "mainspring.fleet"]
    assert told == [
        "failed to ask for the databases of the fleet, which stay the 1 known: RuntimeError: no directory",
        "the databases of the fleet are known again: 1",
    ]


async def test_a_bad_entry_is_left_out_and_the_others_count(
    app: Mainspring, files: Make, caplog: pytest.LogCaptureFixture
) -> None:
    urls = files("acme", "bolt")
    directory = Directory({"acme": urls["acme"]})
    async with Fleet(app, directory) as fleet:
        await fleet["acme"].migrate()
        directory.urls = {"again": urls["acme"], "acme": urls["acme"], "odd": "shop.db", "bolt": urls["bolt"]}
        await fleet.refresh()
        await fleet.refresh()
        health = await fleet.health(databases="acme")

        assert list(fleet) == ["acme", "bolt"]
    assert [each.name for each in health.checks] == ["database again", "database odd"]
    assert health.status == "degraded"
    told = [each.message for each in caplog.records if "cannot be used" in each.message]
    assert len(told) == 2
    assert any("'again' and 'acme' are the same database" in each for each in told)


async def test_a_database_that_moves_is_another_one(app: Mainspring, files: Make) -> None:
    urls = files("old", "new")
    directory = Directory({"acme": urls["old"]})
    async with Fleet(app, directory) as fleet:
        await fleet.publish("a", {}, database="acme")
        directory.urls = {"acme": urls["new"]}
        await fleet.refresh()

        assert await fleet["acme"].messages.list("parked") == []


async def test_a_database_that_moves_while_it_is_served_is_served_where_it_is(app: Mainspring, files: Make) -> None:
    done: list[str] = []

    @app.consumer("orders.placed")
    async def receipts(where: str) -> None:
        done.append(where)

    urls = files("old", "new")
    directory = Directory({"acme": urls["old"]})
    fleet = Fleet(app, directory)
    async with fleet.worker(**QUICK), Mainspring(urls["old"], name="shop") as old:
        await fleet.publish("orders.placed", "old", database="acme")
        await until(lambda: done == ["old"])
        directory.urls = {"acme": urls["new"]}
        await fleet.refresh()
        await until(lambda: not fleet._departing)
        await old.publish("orders.placed", "too late")
        await fleet.publish("orders.placed", "new", database="acme")
        await until(lambda: done == ["old", "new"])
        # Nothing looks at the old one any more.
        await asyncio.sleep(2)
        assert [each.ready for each in (await old.stats.tally()).groups if each.ready] == [1]


def test_a_fleet_that_was_closed_opens_again_on_another_loop(app: Mainspring, files: Make) -> None:
    fleet = Fleet(app, files("acme"))

    async def publish(count: int) -> None:
        async with fleet:
            for _ in range(count):
                await fleet.publish("a", {}, database="acme")

    for count in (1, 0, 1):
        asyncio.run(publish(count))


async def test_databases_that_flap_lose_nothing(app: Mainspring, files: Make) -> None:
    done: list[int] = []

    @app.consumer("orders.placed")
    async def receipts(number: int) -> None:
        done.append(number)

    both, one = files("acme", "bolt"), files("bolt")
    directory = Directory(both)
    fleet = Fleet(app, directory)
    async with fleet.worker(**QUICK):
        for number in range(20):
            directory.urls = both
            await fleet.refresh()
            await fleet.publish("orders.placed", number, database="acme")
            directory.urls = one
            await fleet.refresh()
        directory.urls = both
        await fleet.refresh()
        await until(lambda: len(done) == 20)

    assert sorted(done) == list(range(20))
