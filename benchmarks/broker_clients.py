"""The brokers of the benchmarks, each with the loops that its own client is meant for: confirmed sends, and reads."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import aiormq
import nats
from aiormq import spec
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from nats.js.api import AckPolicy
from redis.asyncio import Redis

from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams
from mainspring.brokers.contract import Broker, WireMessage
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from tests.brokers.benches.kafka import REAL
from tests.services.brokers import SERVERS, listens

IN_FLIGHT = 250
"""Messages that are sent before a confirm is awaited, and received before one is acknowledged."""
TOPIC = "bench.sent"

Publish = Callable[[Sequence[WireMessage]], Awaitable[None]]
"""Sends all, with up to ``IN_FLIGHT`` unconfirmed, and returns when all are confirmed."""


class Taken(NamedTuple):
    """What a client has received, as (id, body), and how it acknowledges that."""

    messages: list[tuple[str, bytes]]
    ack: Callable[[], Awaitable[object]]


Receive = Callable[[int], Awaitable[Taken]]
"""Returns up to so many messages, and waits for the first."""


class Client(ABC):
    """A queue, topic or stream of its own at one broker, and what its client does with it."""

    def __init__(self, url: str) -> None:
        self.url: str = url
        self.name: str = f"bench-{uuid4().hex}"

    @abstractmethod
    async def open(self) -> None:
        """Make it."""

    @abstractmethod
    async def close(self) -> None:
        """Remove it."""

    @abstractmethod
    def sends(self) -> Broker:
        """Return what a route sends to."""

    @abstractmethod
    def reads(self) -> Broker:
        """Return what an intake reads."""

    @abstractmethod
    def publisher(self) -> Any:
        """Return a context with a ``Publish``."""

    @abstractmethod
    def consumer(self) -> Any:
        """Return a context with a ``Receive``."""

    @abstractmethod
    async def waiting(self) -> int:
        """Return how many messages are not acknowledged."""


class RabbitMQClient(Client):
    """aiormq, with which aio-pika is made: without that layer it is faster."""

    async def open(self) -> None:
        async with aiormq.connect(self.url) as connection:
            channel = await connection.channel()
            await channel.queue_declare(self.name, durable=True, arguments={"x-queue-type": "quorum"})

    async def close(self) -> None:
        async with aiormq.connect(self.url) as connection:
            await (await connection.channel()).queue_delete(self.name)

    def sends(self) -> Broker:
        return RabbitMQ(self.url, routing_key=self.name)

    def reads(self) -> Broker:
        return RabbitMQ(self.url, queue=self.name, prefetch=IN_FLIGHT)

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publish]:
        async with aiormq.connect(self.url) as connection:
            channel: Any = await connection.channel(on_return_raises=True)

            async def publish(messages: Sequence[WireMessage]) -> None:
                waiting = iter(messages)

                async def hand() -> None:
                    for each in waiting:
                        properties = spec.Basic.Properties(
                            message_id=each.id,
                            content_type=each.content_type,
                            delivery_mode=2,
                            headers=dict(each.headers),
                        )
                        await channel.basic_publish(
                            each.body, routing_key=self.name, properties=properties, mandatory=True, wait=False
                        )

                await asyncio.gather(*(hand() for _ in range(IN_FLIGHT)))

            yield publish

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Receive]:
        async with aiormq.connect(self.url) as connection:
            channel = await connection.channel(publisher_confirms=False)
            arrived: asyncio.Queue[Any] = asyncio.Queue()
            await channel.basic_qos(prefetch_count=IN_FLIGHT)
            await channel.basic_consume(self.name, arrived.put)

            async def receive(limit: int) -> Taken:
                found = [await arrived.get()]
                while len(found) < limit and not arrived.empty():
                    found.append(arrived.get_nowait())
                tag = found[-1].delivery_tag
                messages = [(each.header.properties.message_id, each.body) for each in found]
                return Taken(messages, lambda: channel.basic_ack(tag, multiple=True))

            yield receive

    async def waiting(self) -> int:
        async with aiormq.connect(self.url) as connection:
            found = await (await connection.channel()).queue_declare(self.name, passive=True)
            return found.message_count or 0


class KafkaClient(Client):
    """confluent-kafka, with a delivery report for each message and commits that are awaited."""

    async def open(self) -> None:
        # The mock makes a topic when it is asked for it; a real cluster does so unless that is switched off.
        await asyncio.to_thread(Producer({"bootstrap.servers": self.url}).list_topics, self.name, timeout=10)

    async def close(self) -> None:
        if REAL:  # the mock removes none, and ends with the run
            admin = AdminClient({"bootstrap.servers": self.url})
            (removed,) = admin.delete_topics([self.name]).values()
            await asyncio.wrap_future(removed)

    def sends(self) -> Broker:
        return Kafka(self.url, topic=self.name)

    def reads(self) -> Broker:
        return Kafka(self.url, topics=[self.name], group_id=self.name)

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publish]:
        producer = Producer(
            {"bootstrap.servers": self.url, "acks": "all", "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        )
        unconfirmed = 0

        def report(error: Any, _: Any) -> None:
            nonlocal unconfirmed
            assert error is None, error
            unconfirmed -= 1

        def send(messages: Sequence[WireMessage]) -> None:
            nonlocal unconfirmed
            for each in messages:
                while unconfirmed >= IN_FLIGHT:
                    producer.poll(1)
                headers: list[Any] = [(name, value.encode()) for name, value in each.headers.items()]
                headers.append(("content-type", each.content_type.encode()))
                unconfirmed += 1
                producer.produce(self.name, each.body, headers=headers, on_delivery=report)
            producer.flush()

        async def publish(messages: Sequence[WireMessage]) -> None:
            await asyncio.to_thread(send, messages)

        yield publish

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Receive]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.url,
                "group.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([self.name])

        def commit(found: Sequence[Any]) -> None:
            ends = {each.partition(): each.offset() + 1 for each in found}
            offsets = [TopicPartition(self.name, partition, end) for partition, end in ends.items()]
            consumer.commit(offsets=offsets, asynchronous=False)

        async def receive(limit: int) -> Taken:
            found: list[Any] = []
            while not found:
                found = await asyncio.to_thread(consumer.consume, limit, 0.1)
            messages = [(dict(each.headers())["ce_id"].decode(), each.value()) for each in found]
            return Taken(messages, lambda: asyncio.to_thread(commit, found))

        yield receive
        await asyncio.to_thread(consumer.close)

    async def waiting(self) -> int:
        admin, group = AdminClient({"bootstrap.servers": self.url}), self.name
        consumer = Consumer({"bootstrap.servers": self.url, "group.id": uuid4().hex, "log_level": 0})
        found = await asyncio.to_thread(admin.list_topics, self.name, timeout=10)
        partitions = [TopicPartition(self.name, each) for each in found.topics[self.name].partitions]
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)]).values()
        committed = {each.partition: each.offset for each in (await asyncio.wrap_future(asked)).topic_partitions}
        left = 0
        for each in partitions:
            _, end = await asyncio.to_thread(consumer.get_watermark_offsets, each, timeout=10)
            left += end - max(0, committed.get(each.partition, 0))
        await asyncio.to_thread(consumer.close)
        return left


class RedisClient(Client):
    """redis-py with hiredis, in pipelines."""

    async def open(self) -> None:
        async with Redis.from_url(self.url) as client:
            await client.xgroup_create(self.name, self.name, "0", mkstream=True)

    async def close(self) -> None:
        async with Redis.from_url(self.url) as client:
            await client.delete(self.name)

    def sends(self) -> Broker:
        return RedisStreams(self.url, stream=self.name)

    def reads(self) -> Broker:
        return RedisStreams(self.url, streams=[self.name], group=self.name)

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publish]:
        async with Redis.from_url(self.url) as client:

            async def publish(messages: Sequence[WireMessage]) -> None:
                for start in range(0, len(messages), IN_FLIGHT):
                    pipeline: Any = client.pipeline(transaction=False)
                    for each in messages[start : start + IN_FLIGHT]:
                        fields: dict[Any, Any] = {f"h:{name}": value for name, value in each.headers.items()}
                        fields |= {"id": each.id, "content_type": each.content_type, "body": each.body}
                        pipeline.xadd(self.name, fields, nomkstream=True)
                    assert all(await pipeline.execute()), "each has a reply"

            yield publish

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Receive]:
        async with Redis.from_url(self.url) as client:

            async def receive(limit: int) -> Taken:
                read: Any = await client.xreadgroup(self.name, "raw", {self.name: ">"}, count=limit, block=5000)
                ((_, found),) = read
                ids = [id for id, _ in found]
                messages = [(fields[b"id"].decode(), fields[b"body"]) for _, fields in found]
                return Taken(messages, lambda: client.xack(self.name, self.name, *ids))

            yield receive

    async def waiting(self) -> int:
        async with Redis.from_url(self.url) as client:
            (group,) = await client.xinfo_groups(self.name)
            return int(group["pending"] + group["lag"])


class NatsClient(Client):
    """nats-py with JetStream: an acknowledgement for each message, and pulls."""

    async def open(self) -> None:
        async with await nats.connect(self.url) as client:
            streams = client.jetstream()
            await streams.add_stream(name=self.name, subjects=[self.name])
            await streams.add_consumer(
                self.name, durable_name=self.name, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=IN_FLIGHT * 4
            )

    async def close(self) -> None:
        async with await nats.connect(self.url) as client:
            await client.jetstream().delete_stream(self.name)

    def sends(self) -> Broker:
        return Nats(self.url, subject=self.name, stream=self.name)

    def reads(self) -> Broker:
        return Nats(self.url, stream=self.name, durable=self.name)

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publish]:
        async with await nats.connect(self.url) as client:
            stream = client.jetstream(publish_async_max_pending=IN_FLIGHT)

            async def publish(messages: Sequence[WireMessage]) -> None:
                acks = []
                for each in messages:
                    headers = {"Nats-Msg-Id": each.id, "content-type": each.content_type, **each.headers}
                    acks.append(await stream.publish_async(self.name, each.body, headers=headers))
                await asyncio.gather(*acks)

            yield publish

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Receive]:
        async with await nats.connect(self.url) as client:
            pull = await client.jetstream().pull_subscribe_bind(durable=self.name, stream=self.name)

            async def receive(limit: int) -> Taken:
                found = await pull.fetch(limit, timeout=5)

                async def ack() -> None:
                    for each in found[:-1]:
                        await each.ack()
                    await found[-1].ack_sync()

                return Taken([((each.headers or {})["Nats-Msg-Id"], each.data) for each in found], ack)

            yield receive

    async def waiting(self) -> int:
        async with await nats.connect(self.url) as client:
            found = await client.jetstream().consumer_info(self.name, self.name)
            return int((found.num_pending or 0) + (found.num_ack_pending or 0))


class InProcessClient(Client):
    """No broker at all: what Mainspring and the tables by hand do without one."""

    async def open(self) -> None:
        self._queues = MemoryQueues({self.name: [TOPIC]})

    async def close(self) -> None:
        self._queues.fail()

    def sends(self) -> Broker:
        return MemoryBroker(self._queues)

    def reads(self) -> Broker:
        return MemoryBroker(self._queues, read=self.name)

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publish]:
        connection = await self.sends().connect()

        async def publish(messages: Sequence[WireMessage]) -> None:
            for start in range(0, len(messages), IN_FLIGHT):
                await connection.send(messages[start : start + IN_FLIGHT], 5)

        yield publish

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[Receive]:
        connection = await self.reads().connect()

        async def receive(limit: int) -> Taken:
            found = await connection.receive(limit, 5)
            return Taken([(each.message_id or "", each.body) for each in found], lambda: connection.ack(found))

        yield receive

    async def waiting(self) -> int:
        return len(self._queues.waiting[self.name])


IN_PROCESS = "none"
"""The name of no broker."""


def clients(kafka: str) -> dict[str, Callable[[], Client]]:
    """Return how to make one at each broker that listens, by its name; ``kafka`` is the address of that."""
    kinds = {"rabbitmq": RabbitMQClient, "redis": RedisClient, "nats": NatsClient}
    found: dict[str, Callable[[], Client]] = {
        IN_PROCESS: lambda: InProcessClient("memory://"),
        "Kafka": lambda: KafkaClient(kafka),
    }
    for name, kind in kinds.items():
        server = SERVERS[name]
        if listens(server):
            found[server.name] = lambda kind=kind, url=server.url: kind(url)  # type: ignore[misc]
    return found
