"""The metrics of a fleet: each number is of a database, and a scrape opens none."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.metrics import _internal
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from prometheus_client.parser import text_string_to_metric_families

from mainspring import Fleet, Mainspring
from mainspring.model.errors import NotOpen
from tests.integration.fleet.conftest import Make, until

REFUSING = "postgresql://shop@127.0.0.1:1/none"
Numbers = dict[tuple[str, ...], float]


def shop() -> Mainspring:
    app = Mainspring("fleet://", name="shop")

    @app.consumer("orders.placed")
    async def ship(order: dict[str, Any]) -> None: ...

    return app


def scraped(text: str) -> dict[str, Numbers]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    found: dict[str, Numbers] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def read(fleet: Fleet) -> dict[str, Numbers]:
    """Scrape once all databases were tried."""
    await fleet.metrics()
    await fleet._survey.caught_up(30)
    return scraped(await fleet.metrics())


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """Reads what the configured provider observes. It can be set once in a process, so a test puts it there."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(_internal, "_METER_PROVIDER", provider)
    yield reader
    provider.shutdown()


async def test_every_number_has_the_database_that_it_is_of(files: Make) -> None:
    async with Fleet(shop(), files("acme", "bolt") | {"dead": REFUSING}) as fleet:
        await fleet.migrate(databases=["acme", "bolt"])
        await fleet.declare(databases=["acme", "bolt"])
        await fleet.publish_many([("orders.placed", {})] * 3, database="acme")
        await fleet.publish("orders.placed", {}, database="bolt")
        numbers = await read(fleet)
        alone = scraped(await fleet["acme"].metrics())

    # The labels are in the order of their names: database, topic; database, group, state.
    assert numbers["mainspring_published_total"] == {("acme", "orders.placed"): 3, ("bolt", "orders.placed"): 1}
    # Each database has a group of the fleet's own, too.
    of_ship = numbers["mainspring_deliveries"].items()
    ready = {labels: value for labels, value in of_ship if labels[1:] == ("ship", "ready")}
    assert ready == {("acme", "ship", "ready"): 3, ("bolt", "ship", "ready"): 1}
    assert numbers["mainspring_database_up"] == {("acme",): 1, ("bolt",): 1, ("dead",): 0}
    assert set(numbers["mainspring_fleet_reading_age_seconds"]) == {("acme",), ("bolt",)}
    counts = numbers["mainspring_fleet_databases"]
    assert (counts["", "known"], counts["", "trouble"]) == (3, 1)
    assert counts["", "open"] >= 2
    assert numbers["mainspring_fleet_discovery_age_seconds"][("",)] >= 0
    assert numbers["mainspring_fleet_turns_waiting"] == {("",): 0}
    # That of one database is as ever.
    assert alone["mainspring_published_total"] == {("orders.placed",): 3}


async def test_a_database_that_this_process_never_used_has_only_what_is_read_of_it(files: Make) -> None:
    names = [f"t{n:02}" for n in range(20)]
    await Fleet(shop(), files(*names)).migrate()
    async with Fleet(shop(), files(*names)) as fleet:
        await fleet.publish("orders.placed", {}, database="t07")
        numbers = await read(fleet)

    assert set(numbers["mainspring_in_hand"]) == {("t07",)}
    assert len(numbers["mainspring_database_up"]) == 20
    assert len(numbers["mainspring_parked"]) == 20


async def test_one_process_reports_on_the_databases_where_the_fleet_names_a_home(files: Make) -> None:
    urls = files("acme", "bolt")
    await Fleet(shop(), urls).migrate()
    async with Fleet(shop(), urls, home="acme") as one, Fleet(shop(), urls, home="acme") as other:
        await other.publish("orders.placed", {}, database="bolt")
        first, second = await read(one), await read(other)

    assert len(first["mainspring_parked"]) == 2
    assert "mainspring_parked" not in second
    # What each process knows of itself, each reports.
    assert len(second["mainspring_database_up"]) == 2
    assert second["mainspring_published_total"] == {("bolt", "orders.placed"): 1}
    # The lease of the election is none of the application's.
    assert first["mainspring_leases"][("acme", "held")] == 0


async def test_a_fleet_that_is_not_open_has_no_metrics(files: Make) -> None:
    with pytest.raises(NotOpen, match="the fleet is not open"):
        await Fleet(shop(), files("acme")).metrics()


async def test_the_checks_of_the_fleet_and_of_its_own_are_numbers(files: Make) -> None:
    app = shop()
    app.health.check("stripe", lambda: "degraded")
    fleet = Fleet(app, files("acme") | {"dead": REFUSING})
    await fleet.migrate(databases=["acme"])
    async with fleet.worker(longest_pause="200ms") as worker:
        await until(lambda: "dead" in worker.troubles)
        numbers = await read(fleet)

    health = {check: value for (check, database), value in numbers["mainspring_health"].items() if not database}
    assert health == {"discovery": 0, "databases": 1, "stripe": 1}


async def test_what_waits_for_a_turn_is_counted(files: Make) -> None:
    app = Mainspring("fleet://", name="shop")
    release, held = asyncio.Event(), asyncio.Event()

    @app.consumer("orders.placed")
    async def ship(order: dict[str, Any]) -> None:
        held.set()
        await release.wait()

    fleet = Fleet(app, files("acme", "bolt", "cask"))
    await fleet.migrate()
    waiting: Numbers = {}
    async with fleet.worker(most_open=1, longest_pause="200ms"):
        for name in fleet:
            await fleet.publish("orders.placed", {}, database=name)
        await held.wait()
        async with asyncio.timeout(30):
            while waiting != {("",): 2}:
                waiting = scraped(await fleet.metrics())["mainspring_fleet_turns_waiting"]
        release.set()


def observed(reader: InMemoryMetricReader) -> dict[str, dict[tuple[Any, ...], float]]:
    """Every number by the name of its instrument and the values of its attributes."""
    data = reader.get_metrics_data()
    return {
        metric.name: {
            tuple(value for _, value in sorted((point.attributes or {}).items())): point.value
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        }
        for resource in (() if data is None else data.resource_metrics)
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def test_opentelemetry_tells_databases_apart_by_an_attribute(files: Make, reader: InMemoryMetricReader) -> None:
    def settled() -> Numbers:
        return {labels: count for labels, count in observed(reader).get("mainspring.settled", {}).items() if count}

    fleet = Fleet(shop(), files("acme", "bolt"))
    await fleet.migrate()
    async with fleet.worker(longest_pause="200ms"):
        await fleet.publish("orders.placed", {}, database="acme")
        await fleet.publish_many([("orders.placed", {})] * 2, database="bolt")
        await until(lambda: settled() == {("acme", "ship", "done"): 1, ("bolt", "ship", "done"): 2})
        await fleet._survey.caught_up(30)
        await fleet._metrics._otel.refresh()
        numbers = observed(reader)

    assert numbers["mainspring.published"] == {("acme", "orders.placed"): 1, ("bolt", "orders.placed"): 2}
    ran = {labels: count for labels, count in numbers["mainspring.run.count"].items() if labels[-1] == "ship"}
    assert ran == {("acme", "ship"): 1, ("bolt", "ship"): 2}
    assert set(numbers["mainspring.parked"]) == {("acme",), ("bolt",)}
    assert numbers["mainspring.fleet_databases"]["", "known"] == 2
