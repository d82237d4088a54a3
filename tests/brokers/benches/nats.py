"""NATS with JetStream, at MAINSPRING_TEST_NATS or on this host."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import nats
from nats.js import JetStreamContext
from nats.js.api import AckPolicy

from mainspring.brokers.contract import Broker, BrokerConnection
from mainspring.brokers.nats import Nats
from tests.services.brokers import SERVERS

URL = SERVERS["nats"].url
NO_STORE = 10049


class NatsBench:
    largest = 1_048_576
    keeps_undelivered = True
    parks = False

    def __init__(self) -> None:
        self.name = f"test-{uuid4().hex}"
        self.missing = f"{self.name}-missing"

    async def open(self) -> None:
        async with await nats.connect(URL) as client:
            streams = client.jetstream()
            await self._add_stream(streams)
            await streams.add_consumer(self.name, durable_name="billing", ack_policy=AckPolicy.EXPLICIT, ack_wait=1)

    async def _add_stream(self, streams: JetStreamContext) -> None:
        # A server removes its directory of streams with the last of them, as another process may just let it do.
        for attempts_left in reversed(range(20)):
            try:
                await streams.add_stream(name=self.name, subjects=[f"{self.name}.>"])
            except nats.js.errors.ServerError as error:
                if error.err_code != NO_STORE or not attempts_left:
                    raise
            else:
                return

    async def close(self) -> None:
        async with await nats.connect(URL) as client:
            streams = client.jetstream()
            for name in (self.name, self.missing):
                try:
                    await streams.delete_stream(name)
                except nats.js.errors.NotFoundError:  # only some tests declare the second
                    continue

    def sends(self) -> Broker:
        return Nats(URL, subject=f"{self.name}.{{topic}}", stream=self.name)

    def reads(self) -> Broker:
        return Nats(URL, stream=self.name, durable="billing")

    def sends_nowhere(self) -> Broker:
        return Nats(URL, subject=f"nowhere-{self.name}.{{topic}}")

    def reads_nothing(self) -> Broker:
        return Nats(URL, stream=self.missing, subjects=[f"{self.missing}.>"], durable="billing")

    def at(self, url_port: int) -> Broker:
        return Nats(f"nats://127.0.0.1:{url_port}", stream=self.name, durable="billing")


@asynccontextmanager
async def opened(broker: Any) -> AsyncIterator[BrokerConnection]:
    connection = await broker.connect()
    try:
        yield connection
    finally:
        await connection.close()
