"""Client libraries that are not installed: a worker that needs one says so when it starts; publishing needs none."""

import sys
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams
from mainspring.brokers.contract import Broker
from mainspring.model.errors import MissingExtra
from tests.brokers.bench import until

BROKERS: dict[str, tuple[str, Broker]] = {
    "rabbitmq": ("aiormq", RabbitMQ(queue="billing")),
    "kafka": ("confluent_kafka", Kafka("localhost:9092", topics=["orders"], group_id="billing")),
    "redis": ("hiredis", RedisStreams(streams=["orders"], group="billing")),
    "nats": ("nats.errors", Nats(stream="ORDERS", durable="billing")),
}


@pytest.fixture(params=list(BROKERS))
def extra(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an extra whose package cannot be imported."""
    extra: str = request.param
    for name in [each for each in sys.modules if each.startswith(f"mainspring.brokers.{extra}_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, BROKERS[extra][0], None)
    return extra


@pytest.fixture
def app(tmp_path: Path) -> Mainspring:
    return Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", auto_migrate=True)


async def test_a_worker_of_a_route_names_the_extra_and_the_message_waits(app: Mainspring, extra: str) -> None:
    app.route("orders.placed", to=BROKERS[extra][1], group="broker")
    async with app:
        await app.declare()
        await app.publish("orders.placed", 1)

    with pytest.raises(MissingExtra, match=rf"pip install 'mainspring\[{extra}\]'"):
        async with app.worker():
            raise AssertionError("it has started")

    async with app:
        (group,) = (await app.stats.tally()).groups
    assert (group.ready, group.dead) == (1, 0)


async def test_a_worker_of_a_source_names_the_extra(app: Mainspring, extra: str) -> None:
    app.intake(BROKERS[extra][1], {"orders": "orders.placed"})

    with pytest.raises(MissingExtra, match=rf"pip install 'mainspring\[{extra}\]'"):
        async with app.worker():
            raise AssertionError("it has started")


async def test_a_worker_of_other_groups_needs_no_client(app: Mainspring, extra: str) -> None:
    handled: list[int] = []
    app.route("orders.placed", to=BROKERS[extra][1], group="broker")

    @app.consumer("invoices.paid")
    async def book(invoice: int) -> None:
        handled.append(invoice)

    async with app.worker(groups=["book"]):
        await app.publish("orders.placed", 1)
        await app.publish("invoices.paid", 2)
        await until(lambda: handled == [2])


async def test_a_test_needs_no_client(app: Mainspring, extra: str) -> None:
    app.route("orders.placed", to=BROKERS[extra][1], group="broker")

    async with app.testing() as kit, app.worker():
        await app.publish("orders.placed", {"n": 1})
        await kit.drain()
        (sent,) = kit.sent("orders.placed")

    assert sent.headers["ce_type" if extra == "kafka" else "ce-type"] == "orders.placed"
