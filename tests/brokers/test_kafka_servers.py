"""What becomes of what is read while a Kafka goes and comes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mainspring.brokers.contract import SENT, Received
from mainspring.brokers.kafka import Kafka
from mainspring.brokers.link import Link
from mainspring.model.errors import BrokerUnavailable
from tests.brokers.bench import TOPIC, message
from tests.brokers.benches.kafka import REAL, KafkaBench, PrivateKafka

WAIT = 10.0
CONFIG = KafkaBench().config


@pytest.fixture
async def server() -> AsyncIterator[PrivateKafka]:
    made = PrivateKafka()
    await made.start()
    made.mock.create("orders")
    yield made
    await made.close()


async def send(server: PrivateKafka, count: int) -> None:
    connection = await Kafka(server.url, topic={TOPIC: "orders"}, config=CONFIG).connect()
    assert await connection.send([message(number) for number in range(count)], WAIT) == [SENT] * count
    await connection.close()


async def read(source: Link, count: int) -> list[Received]:
    """Read and acknowledge so many, by as many connections as that takes."""
    found: list[Received] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            try:
                connection = await source.connection(patience=WAIT)
                batch = await connection.receive(count, 1.0)
                await connection.ack(batch)
            except BrokerUnavailable:
                assert connection.closed
            else:
                found += batch
    return found


@pytest.mark.parametrize("is_wiped", [False, True])
async def test_a_cluster_that_was_away_is_read_from_where_it_stands(server: PrivateKafka, is_wiped: bool) -> None:
    source = Link(Kafka(server.url, topics=["orders"], group_id="billing", config=CONFIG))
    await send(server, 3)
    await read(source, 3)

    await server.kill()
    if is_wiped:  # the client's position is in the middle of what is there now
        await server.wipe()
        server.mock.create("orders")
    await server.start()
    await send(server, 5)
    found = await read(source, 5)

    await source.close()
    assert [each.body for each in found] == [message(number).body for number in range(5)]


@pytest.mark.skipif(REAL is not None, reason="the mock cluster can be slow")
async def test_many_missing_topics_do_not_stop_the_sending_to_others() -> None:
    bench = KafkaBench()
    await bench.open()
    try:
        assert bench.mock is not None
        broker = Kafka(bench.servers, topic=lambda topic: bench.topic if topic == TOPIC else topic, config=bench.config)
        connection = await broker.connect()
        missing = [message(number)._replace(topic=f"missing-{number}") for number in range(100)]
        first = await connection.send(missing, WAIT)
        bench.mock.call("broker_set_rtt", 1, 30)
        second = await connection.send([message(500)], 4.0)
        await connection.close()
    finally:
        await bench.close()

    assert {each.status for each in first} == {"rejected"}
    assert second == [SENT]
