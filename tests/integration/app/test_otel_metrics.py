"""Metrics for OpenTelemetry: observed where its SDK is configured, and nothing where it is not."""

import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from opentelemetry.metrics import _internal
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from mainspring import Mainspring
from mainspring.app.connection import Connection
from mainspring.telemetry.metrics import CATALOGUE, Family, meter_provider, otel_name
from tests.integration.app.measuring import storage_of, until, until_measured

Seen = dict[str, dict[str, float]]


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """Reads what the configured provider observes. It can be set once in a process, so a test puts it there."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(_internal, "_METER_PROVIDER", provider)
    yield reader
    provider.shutdown()


def read(reader: InMemoryMetricReader) -> Seen:
    """Every number by the name of its instrument and the values of its attributes."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {
        metric.name: {
            ",".join(str(value) for _, value in sorted((point.attributes or {}).items())): point.value
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        }
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def test_a_configured_provider_observes_what_happened(reader: InMemoryMetricReader) -> None:
    app = Mainspring("memory://", name="shop")

    @app.consumer("work")
    async def work(number: int) -> None: ...

    async def looked() -> bool:
        return "mainspring.deliveries" in read(reader)

    async with app.worker():
        storage = await storage_of(app)
        await app.publish("work", 1)
        await until_measured(app, 1)
        await until(looked)
        seen = read(reader)
        lease = await storage.leases.find("mainspring.gauges")

    assert seen["mainspring.published"] == {"work": 1}
    assert seen["mainspring.settled"]["work,done"] == 1
    assert seen["mainspring.wait.count"] == seen["mainspring.run.count"] == {"work": 1}
    assert seen["mainspring.wait.bucket"]["work,+Inf"] == 1
    assert seen["mainspring.wait.bucket"]["work,5000.0"] == 1
    assert seen["mainspring.run.sum"]["work"] > 0
    assert seen["mainspring.database_up"] == {"": 1}
    assert seen["mainspring.workers"]["silent"] == 0
    assert lease is not None
    assert lease.state == "held"


async def test_who_does_not_hold_the_lease_tells_nothing_of_the_database(reader: InMemoryMetricReader) -> None:
    app = Mainspring("memory://")

    async with app:
        await (await storage_of(app)).leases.acquire("mainspring.gauges", "another", timedelta(hours=1))
        await app.publish("work", 1)
        await app._own.place.metrics._otel.refresh()
        seen = read(reader)

    assert seen["mainspring.published"] == {"work": 1}
    assert seen["mainspring.database_up"] == {"": 1}
    assert "mainspring.deliveries" not in seen


async def test_an_app_that_only_publishes_is_observed(reader: InMemoryMetricReader) -> None:
    async with Mainspring("memory://") as app:
        await app.publish("work", 1)
        await app.publish("work", 2)

        seen = read(reader)

    assert seen["mainspring.published"] == {"work": 2}
    assert "mainspring.deliveries" not in seen


def test_an_app_that_only_publishes_by_blocking_calls_is_observed(reader: InMemoryMetricReader) -> None:
    app = Mainspring("memory://")
    app.sync.publish("work", 1)

    seen = read(reader)
    app.sync.close()

    assert seen["mainspring.published"] == {"work": 1}


async def test_a_provider_that_objects_keeps_no_app_from_opening(
    reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def objects(*_: object, **__: object) -> object:
        raise RuntimeError("no more instruments")

    monkeypatch.setattr(MeterProvider, "get_meter", objects)

    async with Mainspring("memory://", name="shop") as app:
        receipt = await app.publish("work", 1)

    assert receipt.status == "stored"
    assert "does not observe the metrics of 'shop'" in caplog.text


async def test_without_a_provider_nothing_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_internal, "_METER_PROVIDER", None)
    app = Mainspring("memory://")

    async with app:
        await app.publish("work", 1)

        assert not app._own.place.metrics._otel.register()


def test_without_the_sdk_nobody_looks_for_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.metrics")

    assert meter_provider() is None


def test_names_are_written_with_dots_and_units_apart() -> None:
    spelled = {metric.name: otel_name(metric) for metric in CATALOGUE}

    assert spelled["mainspring_published_total"] == ("mainspring.published", "1")
    assert spelled["mainspring_wait_seconds"] == ("mainspring.wait", "s")
    assert spelled["mainspring_schedule_lateness_seconds"] == ("mainspring.schedule_lateness", "s")
    assert len(set(spelled.values())) == len(CATALOGUE)


async def test_a_collection_reads_everything_once(
    reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async with Mainspring("memory://") as app:
        of_process = app._own.place.metrics.of_process

        def counted(door: Connection) -> list[Family]:
            asked.append("once")
            return of_process(door)

        monkeypatch.setattr(app._own.place.metrics, "of_process", counted)
        await app.publish("work", 1)
        first, times = read(reader), len(asked)
        await app.publish("work", 2)
        second = read(reader)

    assert (times, len(asked)) == (1, 2)
    assert [seen["mainspring.published"] for seen in (first, second)] == [{"work": 1}, {"work": 2}]
