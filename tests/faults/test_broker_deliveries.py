"""What comes in from other programs: repeats, poison, what is too large, and while the database of billing is away."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from mainspring import Mainspring
from mainspring.app.broker.intake import REFUSED_LIMIT
from mainspring.brokers.contract import SENT, WireMessage
from tests.faults.places import KINDS, Place, shared_place
from tests.faults.relaying import COUNTS, DEADLY, TOPIC, broker
from tests.faults.report import Report
from tests.faults.services import declare, services
from tests.faults.waiting import until
from tests.services.brokers import SERVERS
from tests.services.postgres import private_server

OTHERS, REPEATS = 100, 100
LARGE = 10_000_000


def outside(order: int, prefix: str = "ce-") -> WireMessage:
    """An order as another program sends it: each time it is another message of the broker's, with the sender's id."""
    headers = {f"{prefix}id": f"evt-{order}", f"{prefix}type": TOPIC, f"{prefix}source": "another"}
    return WireMessage(uuid4().hex, TOPIC, json.dumps(order).encode(), "application/json", headers)


async def deliver(at: Place, messages: list[WireMessage]) -> None:
    module, name, args, options = at.to
    sends = broker((module, name, args, {**options, **({} if at.kind in ("Kafka", "NATS") else {"largest": 2**24})}))
    connection = await sends.connect()
    try:
        for first in range(0, len(messages), 10):  # so that two processes have a part each
            batch = messages[first : first + 10]
            assert await connection.send(batch, 30) == [SENT] * len(batch)
    finally:
        await connection.close()


@pytest.mark.parametrize("kind", [*KINDS[:2], *(pytest.param(each, marks=pytest.mark.large) for each in KINDS[2:])])
async def test_one_message_sent_a_hundred_times_has_one_effect(
    kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report, seed: int
) -> None:
    orders = [*range(1, OTHERS), *[0] * REPEATS]
    random.Random(seed).shuffle(orders)

    async with shared_place(kind) as at:
        await declare(at.source, at.witness)
        async with services(tmp_path, postgres_url, postgres_schema, at, processes=2) as running:
            prefix = broker(at.to).prefix
            await deliver(at, [outside(order, prefix) for order in orders])
            since = time.monotonic()
            await running.effective(range(OTHERS))
            await asyncio.to_thread(running.intakes.stop)
            running.published.update(range(OTHERS))
            found = await running.found(since=since)
            lines = [each for each in running.log.read_text().splitlines() if each.startswith(COUNTS)]

    counts = [json.loads(each.removeprefix(COUNTS)) for each in lines]
    received, stored, repeats = (sum(each[name] for each in counts) for name in ("received", "stored", "repeat"))
    report(
        f"brokers, the same message {REPEATS} times, {at.kind}",
        f"seed={seed} intakes={len(counts)} counted: received={received} stored={stored} repeats={repeats}",
        found.line(),
    )
    assert found.flaws == []
    assert (stored, repeats) == (OTHERS, received - OTHERS)
    assert repeats >= REPEATS - 1


@pytest.mark.parametrize("kind", ["redis", pytest.param("rabbitmq", marks=pytest.mark.large)])
async def test_what_cannot_be_handled_is_buried_and_its_neighbours_have_their_effect(
    kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report
) -> None:
    malformed = [
        WireMessage("bad-1", TOPIC, b"{", "application/cloudevents+json", {}),
        WireMessage("bad-2", TOPIC, b"[1]", "application/cloudevents+json", {}),
        WireMessage("bad-3", TOPIC, b"1", "application/json", {}, correlation_id="two\nlines"),
        WireMessage("bad-4", TOPIC, b"x" * LARGE, "application/octet-stream", {}),
    ]
    messages = [outside(order) for order in range(OTHERS)]
    messages[OTHERS // 2 : OTHERS // 2] = [outside(DEADLY), *malformed]

    async with shared_place(kind) as at:
        await declare(at.source)
        async with (
            services(tmp_path, postgres_url, postgres_schema, at, processes=2) as running,
            Mainspring(running.billing_url, name="billing") as app,
        ):
            await deliver(at, messages)
            since, died = time.monotonic(), 0
            async with asyncio.timeout(90):
                while len(dead := await app.dead.list(limit=100)) < len(malformed) + 1:
                    died += running.intakes.replace_dead()
                    await asyncio.sleep(0.05)
            await running.effective(range(OTHERS))
            running.published.update(range(OTHERS))
            found = await running.found(since=since, witness=False)
            views = [await app.messages.get(each.message_id) for each in dead]

    kept = {len(each.payload) for each in views if each is not None}
    refused = [each for each in dead if each.group.startswith("intake:")]
    report(
        f"brokers, poison and 10 MB, {at.kind}",
        f"malformed={len(malformed)} buried={len(refused)} most-bytes-kept={max(kept):,}",
        f"deadly=1 buried={len(dead) - len(refused)} processes-died={died}",
        found.line(),
    )
    assert found.flaws == []
    assert (len(refused), len(dead) - len(refused)) == (len(malformed), 1)
    assert died >= 3, "one that holds several accuses none of them"
    assert max(kept) == REFUSED_LIMIT
    assert any(f"its {LARGE:,} bytes are too many to be stored" in (each.error or "") for each in refused)


async def test_while_the_database_is_away_nothing_is_acknowledged(
    tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report, large: bool
) -> None:
    kills = 10 if large else 2
    orders = iter(range(10**6))
    acknowledged_away = 0

    def some(count: int) -> list[int]:
        return [next(orders) for _ in range(count)]

    async with shared_place("redis") as at, Redis.from_url(SERVERS["redis"].url) as client:
        await declare(at.source, at.witness)
        with private_server(tmp_path) as server:
            async with services(tmp_path, postgres_url, postgres_schema, at, billing_url=server.url) as running:
                for _ in range(kills):
                    published = some(50)
                    await running.publish(published, together=10)
                    await until("some effects", lambda: running.effects().keys() & set(published))  # noqa: B023
                    await asyncio.to_thread(server.kill)
                    await running.publish(some(20), together=10)
                    while not await _pending(client, at.name):
                        await asyncio.sleep(0.02)
                    before = await _acknowledged(client, at.name)
                    await running.publish(some(20), together=10)
                    await running.drained()
                    acknowledged_away += await _acknowledged(client, at.name) - before
                    await asyncio.to_thread(server.start)
                since = time.monotonic()
                await running.effective(running.published)
                found = await running.found(since=since)

    report(
        "brokers, database of billing killed −9, Redis",
        f"kills={kills} acknowledged-while-away={acknowledged_away}",
        found.line(),
    )
    assert (acknowledged_away, found.flaws) == (0, [])


async def _group(client: Any, stream: str) -> dict[str, int]:
    (group,) = [each for each in await client.xinfo_groups(stream) if each["name"] == b"billing"]
    return {name: int(group[name]) for name in ("pending", "entries-read")}


async def _pending(client: Any, stream: str) -> int:
    return (await _group(client, stream))["pending"]


async def _acknowledged(client: Any, stream: str) -> int:
    group = await _group(client, stream)
    return group["entries-read"] - group["pending"]
