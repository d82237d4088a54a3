"""Places on the four brokers: who sends there, who reads there, and a witness that reads all of it for itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.brokers.benches.kafka import KafkaBench, PrivateKafka
from tests.faults.relaying import TOPIC, Spec
from tests.services.brokers import SERVERS, listens
from tests.services.needs import need
from tests.services.private_brokers import (
    PrivateBroker,
    PrivateNats,
    PrivateRabbitMQ,
    PrivateRedis,
    private_broker,
)

KINDS = ["rabbitmq", "redis", "nats", "kafka"]
_READERS = ("billing", "witness")


@dataclass(frozen=True)
class Place:
    """A place of its own on one broker."""

    kind: str
    name: str
    to: Spec
    source: Spec
    witness: Spec


def place(kind: str, url: str, name: str, *, declare: bool = False, config: dict[str, Any] | None = None) -> Place:
    """Describe a place. With ``declare``, the shop makes all that billing reads, and billing makes it too."""
    to: dict[str, Any]
    match kind:
        case "rabbitmq":
            home, shown = ("mainspring.brokers.rabbitmq", "RabbitMQ"), "RabbitMQ"
            to = {"exchange": name}
            # A quorum queue of one node that was killed −9 may come back without a leader, and then confirms nothing.
            both = {**to, "bindings": ["#"], "queue_type": "classic"}
            readers: list[dict[str, Any]] = [{"queue": f"{name}-{who}", **both} for who in _READERS]
            all_of_it = readers[0]
        case "redis":
            home, shown = ("mainspring.brokers.redis", "RedisStreams"), "Redis"
            to = all_of_it = {"stream": name}
            readers = [{"streams": [name], "group": who, "claim_after": "1s"} for who in _READERS]
        case "nats":
            home, shown = ("mainspring.brokers.nats", "Nats"), "NATS"
            to, stream = {"subject": f"{name}.{{topic}}"}, {"stream": name, "subjects": [f"{name}.>"]}
            readers = [{**stream, "durable": who, "ack_wait": "1s"} for who in _READERS]
            all_of_it = {**to, **stream}
        case _:
            home, shown = ("mainspring.brokers.kafka", "Kafka"), "Kafka"
            to = all_of_it = {"topic": {TOPIC: name}, "config": config}
            readers = [{"topics": [name], "group_id": who, "config": config} for who in _READERS]
    source, witness = ((*home, [url], {**each, "declare": declare}) for each in readers)
    return Place(shown, name, (*home, [url], {**all_of_it, "declare": True} if declare else to), source, witness)


def need_server(kind: str) -> None:
    """Skip, or fail in CI, a test of a broker that is not there."""
    if (server := SERVERS.get(kind)) is not None:
        need(listens(server), server.name, "make services")


@asynccontextmanager
async def shared_place(kind: str) -> AsyncIterator[Place]:
    """A place on the server that all tests share; what is made there goes with the block."""
    need_server(kind)
    name = f"mainspring-{uuid4().hex}"
    if kind == "kafka":
        bench = KafkaBench()
        await bench.open()
        try:
            yield place(kind, bench.servers, bench.topic, config=bench.config)
        finally:
            await bench.close()
        return
    url = SERVERS[kind].url
    try:
        yield place(kind, url, name)
    finally:
        await _REMOVALS[kind](url, name)


@asynccontextmanager
async def private_place(kind: str) -> AsyncIterator[tuple[PrivateBroker | PrivateKafka, Place]]:
    """A broker that is not started, and a place that is made there by those that use it."""
    name = f"mainspring-{uuid4().hex}"
    if kind == "kafka":
        kafka = PrivateKafka()
        try:
            yield kafka, place(kind, kafka.url, name, declare=True, config=KafkaBench().config)
        finally:
            await kafka.close()
        return
    options = ("-js",) if kind == "nats" else ()
    with private_broker(_PRIVATE[kind], *options) as server:
        yield server, place(kind, server.url, name, declare=True)


async def _remove_from_rabbitmq(url: str, name: str) -> None:
    import aiormq

    async with aiormq.connect(url) as connection:
        channel = await connection.channel()
        for who in _READERS:
            await channel.queue_delete(f"{name}-{who}")
        await channel.exchange_delete(name)


async def _remove_from_redis(url: str, name: str) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(url) as client:
        await client.delete(name)


async def _remove_from_nats(url: str, name: str) -> None:
    import nats

    async with await nats.connect(url) as client:
        await client.jetstream().delete_stream(name)


_REMOVALS = {"rabbitmq": _remove_from_rabbitmq, "redis": _remove_from_redis, "nats": _remove_from_nats}
_PRIVATE: dict[str, type[PrivateBroker]] = {"rabbitmq": PrivateRabbitMQ, "redis": PrivateRedis, "nats": PrivateNats}
