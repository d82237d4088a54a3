"""A real RabbitMQ: on this host, or where ``MAINSPRING_TEST_RABBITMQ`` says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiormq

from mainspring.brokers.contract import Broker
from mainspring.brokers.rabbitmq import RabbitMQ
from mainspring.brokers.rabbitmq_connection import RabbitMQConnection
from tests.brokers.bench import TOPIC
from tests.services.brokers import SERVERS

URL = SERVERS["rabbitmq"].url
FIRST_WITH_LIMIT = 4
"""The version from which a quorum queue drops what is redelivered too often, unless it has -1 for a limit."""


class RabbitMQBench:
    largest = 100_000
    keeps_undelivered = True
    parks = False

    def __init__(self) -> None:
        self.name = f"mainspring-{uuid4().hex}"

    async def open(self) -> None:
        async with aiormq.connect(URL) as connection:
            channel = await connection.channel()
            await channel.exchange_declare(self.name, exchange_type="topic", durable=True)
            arguments: dict[str, Any] = {"x-queue-type": "quorum"}
            if int(str(connection.server_properties["version"]).partition(".")[0]) >= FIRST_WITH_LIMIT:
                arguments["x-delivery-limit"] = -1
            await channel.queue_declare(self.name, durable=True, arguments=arguments)
            await channel.queue_bind(self.name, self.name, routing_key=TOPIC)

    async def close(self) -> None:
        async with aiormq.connect(URL) as connection:
            channel = await connection.channel()
            for name in (self.name, f"{self.name}-missing"):
                await channel.queue_delete(name)
                await channel.exchange_delete(name)

    def sends(self) -> Broker:
        return RabbitMQ(URL, exchange=self.name, largest=self.largest)

    def reads(self) -> Broker:
        return RabbitMQ(URL, queue=self.name, prefetch=1000)  # the contract acknowledges so many at once

    def sends_nowhere(self) -> Broker:
        return RabbitMQ(URL, exchange=self.name, routing_key="nowhere")

    def reads_nothing(self) -> Broker:
        missing = f"{self.name}-missing"
        return RabbitMQ(URL, exchange=missing, queue=missing, bindings=[TOPIC])

    def at(self, url_port: int) -> Broker:
        return RabbitMQ(f"amqp://guest:guest@127.0.0.1:{url_port}/")


@asynccontextmanager
async def connected(broker: RabbitMQ) -> AsyncIterator[RabbitMQConnection]:
    connection = await broker.connect()
    assert isinstance(connection, RabbitMQConnection)
    try:
        yield connection
    finally:
        await connection.close()
