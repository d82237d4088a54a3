"""Names of servers: two whose queues, topics or streams have the same names are read by one app."""

import asyncio
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams
from mainspring.brokers.contract import Broker
from mainspring.model.errors import BadOption, Conflict
from tests.brokers.bench import until
from tests.brokers.benches.redis import RedisBench
from tests.services.brokers import SERVERS, listens
from tests.services.needs import need

NAMED: list[tuple[Broker, str]] = [
    (RabbitMQ(queue="billing", name="eu"), "rabbitmq:eu:billing"),
    (RabbitMQ(queue="billing"), "rabbitmq:billing"),
    (Kafka("a:1", topics=["orders", "carts"], group_id="billing", name="eu"), "kafka:eu:billing:carts,orders"),
    (Kafka("a:1", topics=["orders"], group_id="billing"), "kafka:billing:orders"),
    (RedisStreams(streams=["orders"], group="billing", name="eu"), "redis:eu:billing:orders"),
    (RedisStreams(streams=["orders"], group="billing"), "redis:billing:orders"),
    (Nats(stream="ORDERS", durable="billing", name="eu"), "nats:eu:ORDERS:billing"),
    (Nats(stream="ORDERS", durable="billing"), "nats:ORDERS:billing"),
    (RabbitMQ(queue="q" * 127, name="n" * 40), f"rabbitmq:{'n' * 40}:{'q' * 127}"),
]


@pytest.mark.parametrize(("broker", "source"), NAMED)
def test_the_name_is_part_of_the_source_and_without_one_nothing_is(broker: Broker, source: str) -> None:
    assert broker.source == source


@pytest.mark.parametrize("name", ["", "eu:1", "eu/1", "e u", "x" * 41, "ü", 7])
@pytest.mark.parametrize("made", [RabbitMQ, partial(Kafka, "a:1"), RedisStreams, Nats])
def test_a_name_that_would_not_stay_one_part_of_a_source_is_refused(made: Callable[..., Broker], name: object) -> None:
    with pytest.raises(BadOption, match=r"name=.* must be 1 to 40 letters, digits, '\.', '_' and '-', as in name='eu'"):
        made(name=name)


async def test_two_servers_with_equal_names_are_read_by_one_app(tmp_path: Path) -> None:
    server = SERVERS["redis"]
    need(listens(server), server.name, "make services")
    bench = RedisBench()
    other = f"{server.url.rpartition('/')[0]}/1"
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", auto_migrate=True)
    handled: list[str] = []

    @app.consumer("orders.eu", source=RedisStreams(server.url, streams=[bench.stream], group="billing", declare=True))
    async def bill(order: dict[str, int]) -> None:
        handled.append(f"eu {order['n']}")

    us = {"streams": [bench.stream], "group": "billing", "declare": True}
    with pytest.raises(Conflict, match="give one of them a name="):
        app.intake(RedisStreams(other, **us), {bench.stream: "orders.us"})  # type: ignore[arg-type]
    app.intake(RedisStreams(other, name="us", **us), {bench.stream: "orders.us"})  # type: ignore[arg-type]

    @app.consumer("orders.us")
    async def book(order: dict[str, int]) -> None:
        handled.append(f"us {order['n']}")

    try:
        async with app.worker():
            for url in (server.url, other):
                fields = ["id", "m-1", "content_type", "application/json", "body", '{"n": 1}']
                command = ["redis-cli", "-u", url, "XADD", bench.stream, "*", *fields]
                await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
            await until(lambda: len(handled) == 2)
    finally:
        for url in (server.url, other):
            command = ["redis-cli", "-u", url, "DEL", bench.stream]
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        await bench.client.aclose()

    assert sorted(handled) == ["eu 1", "us 1"], "of the same id, and no repeats of each other"
