"""Two services with a broker between them, both killed −9 over and over: every message has its effect, once."""

import asyncio
import json
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import pytest

from mainspring import Mainspring
from tests.faults.nursery import Born, nursery
from tests.faults.relaying import IN_HAND, TOPIC, broker, shop
from tests.faults.report import Report
from tests.faults.waiting import TooLateError, until
from tests.services.brokers import SERVERS, listens
from tests.services.needs import need

Spec = tuple[str, str, list[Any], dict[str, Any]]
PROCESSES = 2
MESSAGES = 300


@dataclass
class Place:
    """Somewhere on a broker: who sends there, who reads there, and a third that reads all of it for itself."""

    kind: str
    to: Spec
    source: Spec
    witness: Spec


@asynccontextmanager
async def rabbitmq() -> AsyncIterator[Place]:
    url, name = SERVERS["rabbitmq"].url, f"mainspring-{uuid4().hex}"
    home = "mainspring.brokers.rabbitmq", "RabbitMQ"
    readers = [
        (*home, [url], {"exchange": name, "queue": f"{name}-{who}", "bindings": ["#"], "queue_type": "classic"})
        for who in ("billing", "witness")
    ]
    try:
        yield Place("RabbitMQ", (*home, [url], {"exchange": name}), *readers)
    finally:
        import aiormq

        async with aiormq.connect(url) as connection:
            channel = await connection.channel()
            for who in ("billing", "witness"):
                await channel.queue_delete(f"{name}-{who}")
            await channel.exchange_delete(name)


@asynccontextmanager
async def redis() -> AsyncIterator[Place]:
    from redis.asyncio import Redis

    url, name = SERVERS["redis"].url, f"mainspring-{uuid4().hex}"
    home = "mainspring.brokers.redis", "RedisStreams"
    readers = [(*home, [url], {"streams": [name], "group": who, "claim_after": "1s"}) for who in ("billing", "witness")]
    try:
        yield Place("Redis", (*home, [url], {"stream": name}), *readers)
    finally:
        async with Redis.from_url(url) as client:
            await client.delete(name)


@asynccontextmanager
async def nats() -> AsyncIterator[Place]:
    import nats as client

    url, name = SERVERS["nats"].url, f"mainspring-{uuid4().hex}"
    home = "mainspring.brokers.nats", "Nats"
    readers = [
        (*home, [url], {"stream": name, "subjects": [f"{name}.>"], "durable": who, "ack_wait": "1s"})
        for who in ("billing", "witness")
    ]
    try:
        yield Place("NATS", (*home, [url], {"subject": f"{name}.{{topic}}"}), *readers)
    finally:
        connection = await client.connect(url)
        await connection.jetstream().delete_stream(name)
        await connection.close()


@asynccontextmanager
async def kafka() -> AsyncIterator[Place]:
    from tests.brokers.benches.kafka import KafkaBench

    bench = KafkaBench()
    await bench.open()
    home = "mainspring.brokers.kafka", "Kafka"
    readers = [
        (*home, [bench.servers], {"topics": [bench.topic], "group_id": who, "config": bench.config})
        for who in ("billing", "witness")
    ]
    try:
        yield Place(
            "Kafka", (*home, [bench.servers], {"topic": {TOPIC: bench.topic}, "config": bench.config}), *readers
        )
    finally:
        await bench.close()


class Service:
    """So many processes of one service; one that was killed is replaced."""

    def __init__(self, log: IO[bytes], *argument: object) -> None:
        self._log = log
        self._argument = json.dumps(argument)
        self._processes: list[Born] = [self._start() for _ in range(PROCESSES)]

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait(30)
        self._processes[number] = self._start()

    def end(self) -> None:
        for each in self._processes:
            each.kill()
            each.wait(30)

    def _start(self) -> Born:
        return nursery().start("tests.faults.relaying", self._argument, self._log)


def effects(path: Path) -> Counter[int]:
    with closing(sqlite3.connect(path)) as connection:
        return Counter(number for (number,) in connection.execute("SELECT number FROM effect"))


async def seen(spec: Spec, least: int) -> Counter[str]:
    """What is on the wire, by message id."""
    connection = await broker(spec).connect()
    found: Counter[str] = Counter()
    try:
        while batch := await connection.receive(1000, 0.5 if found.total() >= least else 10.0):
            found.update(json.dumps(json.loads(each.body)) for each in batch)
            await connection.ack(batch)
    finally:
        await connection.close()
    return found


@dataclass
class Found:
    """What came of a run."""

    kind: str
    kills: int
    published: int
    settled: int
    effects: Counter[int]
    wire: Counter[str]
    took: float

    @property
    def missing(self) -> set[int]:
        return set(range(self.published)) - set(self.effects)

    @property
    def not_there(self) -> set[str]:
        return {str(order) for order in range(self.published)} - set(self.wire)

    @property
    def doubled(self) -> list[int]:
        return [order for order, times in self.effects.items() if times > 1]

    @property
    def duplicates(self) -> int:
        return self.wire.total() - len(self.wire)

    @property
    def bound(self) -> int:
        return self.kills // 2 * IN_HAND

    def line(self) -> str:
        return (
            f"kills={self.kills} published={self.published} sent={self.settled} received={self.wire.total()} "
            f"effects={self.effects.total()} lost={len(self.missing)} sent-but-not-there={len(self.not_there)} "
            f"doubled={len(self.doubled)} duplicates={self.duplicates}≤{self.bound} drained={self.took:.1f}s"
        )


class Services:
    """The shop on PostgreSQL and billing on SQLite."""

    def __init__(self, folder: Path, url: str, schema: str, seed: int) -> None:
        self._folder = folder
        self._url = url
        self._schema = schema
        self._chance = random.Random(seed)
        self._path = folder / "billing.db"

    async def run(self, at: Place, kills: int, count: int, *, bug: bool = False) -> Found:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("CREATE TABLE effect (number integer NOT NULL)")
        await Mainspring(f"sqlite:///{self._path}", name="billing").migrate()
        for each in (at.source, at.witness):
            made = await broker(each).connect()
            await made.declare()
            await made.close()
        app = shop(self._url, self._schema, broker(at.to))
        await app.declare()
        with (self._folder / "log").open("wb") as log:
            relays = Service(log, "shop", self._url, self._schema, at.to, bug)
            intakes = Service(log, "billing", f"sqlite:///{self._path}", "mainspring", at.source, bug)
            try:
                async with app:
                    await self._trouble(app, (relays, intakes), kills, count)
                    settled = count - await drained(app)
                    took = await self._effects(count, patience=10 if bug else 120)
            finally:
                relays.end()
                intakes.end()
        return Found(at.kind, kills, count, settled, effects(self._path), await seen(at.witness, count), took)

    async def _trouble(self, app: Mainspring, services: Sequence[Service], kills: int, count: int) -> None:
        for number in range(kills):
            for order in range(number * count // kills, (number + 1) * count // kills):
                await app.publish(TOPIC, order)
            await asyncio.sleep(self._chance.uniform(0, 0.3))
            await asyncio.to_thread(services[number % 2].kill, self._chance.randrange(PROCESSES))

    async def _effects(self, count: int, patience: float) -> float:
        try:
            return await until("every effect", lambda: len(effects(self._path)) == count, patience)
        except TooLateError:
            return patience


@pytest.fixture
def services(tmp_path: Path, postgres_url: str, postgres_schema: str) -> Services:
    return Services(tmp_path, postgres_url, postgres_schema, random.randrange(10**6))


def need_server(kind: str) -> None:
    if (server := SERVERS.get(kind)) is not None:
        need(listens(server), server.name, "make services")


@pytest.mark.parametrize("place", [rabbitmq, redis, nats, kafka])
async def test_relay_and_intake_are_killed_and_every_message_has_one_effect(
    place: Callable[[], AbstractAsyncContextManager[Place]], services: Services, report: Report, large: bool
) -> None:
    need_server(place.__name__)
    kills, count = (200, 10 * MESSAGES) if large else (20, MESSAGES)

    async with place() as at:
        found = await services.run(at, kills, count)

    report(f"brokers, kill −9, {found.kind}", found.line())
    assert (found.missing, found.not_there, found.doubled) == (set(), set(), [])
    assert found.settled == count
    assert found.duplicates <= found.bound


async def test_what_counts_as_sent_before_its_confirm_or_is_acknowledged_before_it_is_stored_is_lost(
    services: Services, report: Report
) -> None:
    need_server("redis")

    async with redis() as at:
        found = await services.run(at, 20, 200, bug=True)

    report("teeth: sent before the confirm, acknowledged before the commit", found.line(), "(must be lost>0)")
    # Which of the two has lost it is luck: a kill may find the relays with nothing on its way.
    assert found.missing


async def drained(app: Mainspring) -> int:
    """Wait until the route has nothing left; return how many of its messages are dead letters."""
    async with asyncio.timeout(60):
        while True:
            (group,) = [each for each in (await app.stats.tally()).groups if each.group == "broker"]
            if group.ready + group.running + group.scheduled + group.lapsed == 0:
                return group.dead
            await asyncio.sleep(0.05)
