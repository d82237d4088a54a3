"""Routes and intakes beside the loops of the brokers' own clients: the same messages, brokers and database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg
import msgspec

from benchmarks.broker_clients import IN_FLIGHT, TOPIC, Client, Publish
from benchmarks.drain import PAYLOAD, tidy, verify
from mainspring import Mainspring
from mainspring.brokers.contract import Broker, BrokerConnection, Received, WireMessage
from mainspring.brokers.wire import Outbound, write

WANTED = {"relay": 0.6, "intake": 0.5}
"""The share of the client's own rate that each must reach."""
_ROUTE, _CONSUMER = "bench.route", "bench.received"
_PATIENCE = 30.0
_TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.received (id text PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE {schema}.outbox (id uuid PRIMARY KEY, due_at timestamptz NOT NULL, body bytea NOT NULL);
CREATE INDEX ON {schema}.outbox (due_at);
CREATE TABLE {schema}.seen (id text PRIMARY KEY, seen_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE {schema}.job (LIKE {schema}.outbox INCLUDING ALL);
"""
_CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id FROM {schema}.outbox WHERE due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.outbox SET due_at = now() + interval '30 seconds' FROM due WHERE outbox.id = due.id
RETURNING outbox.id, body
"""
_DELETE = "DELETE FROM {schema}.outbox WHERE id = ANY ($1::uuid[])"
_INSERT = "INSERT INTO {schema}.received SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT DO NOTHING"
_INSERT_ONCE = """
WITH given AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::bytea[]) AS given (id, body)),
fresh AS (INSERT INTO {schema}.seen (id) SELECT id FROM given ON CONFLICT DO NOTHING RETURNING id)
INSERT INTO {schema}.job SELECT gen_random_uuid(), now(), body FROM given WHERE id IN (SELECT id FROM fresh)
"""


class Cost(NamedTuple):
    """What one loop took for all messages."""

    rate: float
    """Messages per second."""
    cpu: float
    """CPU time of this process, in microseconds per message."""


class Watch:
    """Measures from one moment to another: the time, and the CPU time of all threads of this process."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Measure from now on."""
        self._began = time.perf_counter(), time.process_time()

    def cost(self, count: int) -> Cost:
        """Return what so many messages took until now."""
        took, used = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        return Cost(count / took, used / count * 1e6)


class Costs(NamedTuple):
    """What one direction costs at one broker."""

    ours: Cost
    client: Cost
    """Of the broker's own client alone: it reads no outbox, and stores no more than a row for each message."""
    by_hand: Cost
    """Of the client with a minimal outbox, or with an inbox and a queue, in tables of its own."""


class Round(NamedTuple):
    """One broker, once in each direction."""

    relay: Costs
    intake: Costs


async def measure(url: str, schema: str, make: Callable[[], Client], count: int, turn: int) -> Round:
    """Send as many messages in three ways, and receive each of them in the same way; ``turn`` says which is first."""
    async with _place(make) as ours, _place(make) as client, _place(make) as by_hand, _tables(url, schema) as session:
        relays = await _in_turn(
            turn,
            lambda: _relay(url, f"{schema}_relay", ours, count),
            lambda: _raw_relay(client, count),
            lambda: _relay_by_hand(url, schema, by_hand, count),
        )
        intakes = await _in_turn(
            turn,
            lambda: _intake(url, f"{schema}_intake", ours, count),
            lambda: _raw_intake(session, _INSERT.format(schema=schema), f"{schema}.received", client, count),
            lambda: _raw_intake(session, _INSERT_ONCE.format(schema=schema), f"{schema}.job", by_hand, count + 1),
        )
    return Round(relays, intakes)


async def _fill(session: asyncpg.Connection, schema: str, count: int) -> None:
    rows = [(uuid4(), msgspec.json.encode(PAYLOAD)) for _ in range(count)]
    await session.executemany(f"INSERT INTO {schema}.outbox VALUES ($1, now(), $2)", rows)
    await session.execute(f"VACUUM ANALYZE {schema}.outbox")


async def _in_turn(turn: int, *loops: Callable[[], Awaitable[Cost]]) -> Costs:
    """Run all, each time another one first: what one leaves behind, such as a vacuum, falls to the next."""
    found = {place % len(loops): await loops[place % len(loops)]() for place in range(turn, turn + len(loops))}
    return Costs(*(found[place] for place in range(len(loops))))


@asynccontextmanager
async def _place(make: Callable[[], Client]) -> AsyncIterator[Client]:
    client = make()
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def _relay(url: str, schema: str, client: Client, count: int) -> Cost:
    """Measure from the moment a worker with an open connection may claim until the database has all settled."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    app.route(TOPIC, to=client.sends(), group=_ROUTE)
    async with app:
        await app.migrate()
        await app.declare()
        await app.publish(TOPIC, PAYLOAD)
        async with app.worker(), _session(url) as session:
            await _until_none(session, schema)
            await app.groups.pause(_ROUTE)
            await app.publish_many((TOPIC, PAYLOAD) for _ in range(count))
            await tidy(url, schema)
            watch = Watch()
            await app.groups.resume(_ROUTE)
            await _until_none(session, schema)
            cost = watch.cost(count)
    await verify(url, schema, count + 1)
    await _check(client, count + 1)
    return cost


async def _until_none(session: asyncpg.Connection, schema: str) -> None:
    while await session.fetchval(f"SELECT EXISTS (SELECT FROM {schema}.delivery)"):
        await asyncio.sleep(0.01)


async def _raw_relay(client: Client, count: int) -> Cost:
    """Measure from an open connection until all are confirmed."""
    body = msgspec.json.encode(PAYLOAD)
    prefix = client.sends().prefix
    messages = [_written(uuid4(), body, prefix) for _ in range(count + 1)]
    async with client.publisher() as publish:
        await publish(messages[:1])
        watch = Watch()
        await publish(messages[1:])
        cost = watch.cost(count)
    await _check(client, count + 1)
    return cost


def _written(id: UUID, body: bytes, prefix: str) -> WireMessage:
    message = Outbound(id, TOPIC, body, "application/json", None, None, None, None, datetime.now(UTC))
    return write(message, "bench", "cloudevents", prefix)


async def _relay_by_hand(url: str, schema: str, client: Client, count: int) -> Cost:
    """Measure two loops at once: each claims a batch, sends it, and deletes it when all of it is confirmed."""
    claim, delete = _CLAIM.format(schema=schema), _DELETE.format(schema=schema)
    prefix = client.sends().prefix

    async def relay(session: asyncpg.Connection, publish: Publish) -> None:
        while claimed := await session.fetch(claim, IN_FLIGHT):
            await publish([_written(id, body, prefix) for id, body in claimed])
            await session.execute(delete, [id for id, _ in claimed])

    async with (
        _session(url) as first,
        _session(url) as second,
        client.publisher() as one,
        client.publisher() as other,
    ):
        await _fill(first, schema, count)
        for publish in (one, other):
            await publish([_written(uuid4(), b"{}", prefix)])
        watch = Watch()
        await asyncio.gather(relay(first, one), relay(second, other))
        cost = watch.cost(count)
    await _check(client, count + 2)
    return cost


class _Watched(Broker):
    """A broker that notes when the first message is received, and when the last is acknowledged."""

    declare = False

    def __init__(self, broker: Broker, count: int) -> None:
        self.broker = broker
        self.kind = broker.kind  # type: ignore[misc]
        self.left = count
        self.watch: Watch | None = None
        self.cost: asyncio.Future[Cost] = asyncio.get_running_loop().create_future()
        self._count = count

    @property
    def url(self) -> str:
        return self.broker.url

    @property
    def source(self) -> str:
        return self.broker.source

    def address(self, topic: str) -> str:
        return self.broker.address(topic)

    async def connect(self) -> BrokerConnection:
        """Connect."""
        connection: Any = await self.broker.connect()
        receive, ack = connection.receive, connection.ack

        async def received(limit: int, wait: float) -> list[Received]:
            found: list[Received] = await receive(limit, wait)
            if found and self.watch is None:
                self.watch = Watch()
            return found

        async def acknowledged(batch: Sequence[Received]) -> None:
            await ack(batch)
            self.left -= len(batch)
            if self.left <= 0 and self.watch is not None and not self.cost.done():
                self.cost.set_result(self.watch.cost(self._count))

        connection.receive, connection.ack = received, acknowledged
        opened: BrokerConnection = connection
        return opened


async def _intake(url: str, schema: str, client: Client, count: int) -> Cost:
    """Measure from the first batch received until the last is acknowledged. The consumer is paused: it handles none."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    source = _Watched(client.reads(), count + 1)

    @app.consumer(TOPIC, source=source, group=_CONSUMER)
    async def received(_: dict[str, str]) -> None: ...

    async with app, _session(url) as session:
        await app.migrate()
        await app.declare()
        await app.groups.pause(_CONSUMER)
        async with app.worker():
            cost = await source.cost
        stored = [
            await session.fetchval(f"SELECT count(*) FROM {schema}.{table}")
            for table in ("inbox", "message", "delivery")
        ]
        if stored != [count + 1] * 3:
            raise RuntimeError(f"not everything was stored: {stored} of {count + 1}")
        await session.execute(f"DROP SCHEMA {schema} CASCADE")
    await _check(client, 0)
    return cost


async def _raw_intake(session: asyncpg.Connection, insert: str, table: str, client: Client, count: int) -> Cost:
    """Measure the same of a loop that receives, inserts a batch and commits, and acknowledges."""
    left, watch = count + 1, None
    async with client.consumer() as receive:
        while left:
            taken = await receive(min(IN_FLIGHT, left))
            watch = watch or Watch()
            await session.execute(insert, *(list(column) for column in zip(*taken.messages, strict=True)))
            await taken.ack()
            left -= len(taken.messages)
        assert watch is not None, "something was received"
        cost = watch.cost(count)
    if (stored := await session.fetchval(f"SELECT count(*) FROM {table}")) != count + 1:
        raise RuntimeError(f"not everything was stored: {stored} of {count + 1}")
    await _check(client, 0)
    return cost


async def _check(client: Client, count: int) -> None:
    """Check that the broker has so many messages that are not acknowledged."""
    until = time.monotonic() + _PATIENCE
    while (found := await client.waiting()) != count:
        if time.monotonic() > until:
            raise RuntimeError(f"{client.name} has {found} messages that are not acknowledged, and not {count}")
        await asyncio.sleep(0.05)


@asynccontextmanager
async def _tables(url: str, schema: str) -> AsyncIterator[asyncpg.Connection]:
    async with _session(url) as session:
        await session.execute(_TABLES.format(schema=schema))
        yield session
        await session.execute(f"DROP SCHEMA {schema} CASCADE")


@asynccontextmanager
async def _session(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()
