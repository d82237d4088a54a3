"""The brokers that the contract runs on."""

from collections.abc import AsyncIterator
from uuid import uuid4

import aiormq
import pytest
from aiormq.abc import AbstractChannel

from mainspring.brokers.contract import BrokerConnection
from mainspring.brokers.memory import MemoryQueues
from tests.brokers.bench import TOPIC, Bench
from tests.brokers.benches.kafka import KafkaBench
from tests.brokers.benches.memory import MemoryBench
from tests.brokers.benches.nats import NatsBench
from tests.brokers.benches.rabbitmq import RabbitMQBench
from tests.brokers.benches.redis import RedisBench
from tests.brokers.benches.remote import RemoteBench
from tests.services.brokers import SERVERS, listens
from tests.services.needs import need

BENCHES: dict[str, type[Bench]] = {
    "kafka": KafkaBench,
    "memory": MemoryBench,
    "nats": NatsBench,
    "rabbitmq": RabbitMQBench,
    "redis": RedisBench,
    "remote": RemoteBench,
}


@pytest.fixture(autouse=True)
def present(request: pytest.FixtureRequest) -> None:
    """Skip, or fail in CI, the tests of a broker that is not there: of the contract, and of files named after it."""
    kind = getattr(request.node, "callspec", None) and request.node.callspec.params.get("bench")
    server = SERVERS.get(kind or request.node.path.stem.split("_")[1])
    if server is not None:
        need(listens(server), server.name, "make services")


@pytest.fixture
def queues() -> MemoryQueues:
    """The in-process broker, with one queue."""
    return MemoryQueues({"orders": [TOPIC]})


@pytest.fixture(params=list(BENCHES))
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    made = BENCHES[request.param]()
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def sender(bench: Bench) -> AsyncIterator[BrokerConnection]:
    connection = await bench.sends().connect()
    yield connection
    await connection.close()


@pytest.fixture
async def reader(bench: Bench) -> AsyncIterator[BrokerConnection]:
    connection = await bench.reads().connect()
    yield connection
    await connection.close()


@pytest.fixture
async def raw() -> AsyncIterator[AbstractChannel]:
    """A channel to RabbitMQ that is not the adapter's."""
    async with aiormq.connect(SERVERS["rabbitmq"].url) as connection:
        yield await connection.channel()


@pytest.fixture
async def name(raw: AbstractChannel) -> AsyncIterator[str]:
    """The name of a queue and an exchange in RabbitMQ that may be made, and are removed."""
    name = f"mainspring-{uuid4().hex}"
    yield name
    channel = await raw.connection.channel()
    await channel.queue_delete(name)
    await channel.exchange_delete(name)
