"""Redis Streams, on the server that MAINSPRING_TEST_REDIS names, or on this host."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from mainspring.brokers.contract import Broker, BrokerConnection
from mainspring.brokers.redis import RedisStreams
from tests.services.brokers import SERVERS

URL = SERVERS["redis"].url


class RedisBench:
    largest = 100_000
    keeps_undelivered = True
    parks = False

    def __init__(self) -> None:
        self.stream = f"test-{uuid4().hex}"
        self.missing = f"{self.stream}-missing"
        self.client: Any = Redis.from_url(URL)

    async def open(self) -> None:
        await self.client.xgroup_create(self.stream, "billing", "0", mkstream=True)

    async def close(self) -> None:
        await self.client.delete(self.stream, self.missing)
        await self.client.aclose()

    def sends(self) -> Broker:
        return RedisStreams(URL, stream=self.stream, largest=self.largest)

    def reads(self) -> Broker:
        return RedisStreams(URL, streams=[self.stream], group="billing")

    def sends_nowhere(self) -> Broker:
        return RedisStreams(URL, stream=self.missing)

    def reads_nothing(self) -> Broker:
        return RedisStreams(URL, streams=[self.missing], group="billing")

    def at(self, url_port: int) -> Broker:
        return RedisStreams(f"redis://127.0.0.1:{url_port}/0")


@contextlib.asynccontextmanager
async def connected(broker: RedisStreams) -> AsyncIterator[BrokerConnection]:
    connection = await broker.connect()
    try:
        yield connection
    finally:
        await connection.close()
