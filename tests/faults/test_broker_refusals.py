"""A broker that takes nothing for a while, or will never take a message: neither is ever counted as sent."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiormq
import nats
import pytest
from redis.asyncio import Redis

from mainspring import Mainspring
from mainspring.brokers.rabbitmq_properties import written_message
from tests.brokers.benches.kafka import PrivateKafka
from tests.faults.places import KINDS, Place, place, private_place, shared_place
from tests.faults.relaying import TOPIC, Spec, broker
from tests.faults.report import Report
from tests.faults.services import declare, seen, services
from tests.services.brokers import SERVERS

Heal = Callable[[], Awaitable[object]]
LIMIT, MESSAGES = 50, 200
LOST = "orders.lost"
_PRODUCE, _UNKNOWN_SERVER_ERROR = 0, -1


@asynccontextmanager
async def refusing(kind: str) -> AsyncIterator[tuple[Place, Heal]]:
    """A place that takes some messages or none, until it is healed."""
    async with AsyncExitStack() as stack:
        if kind in ("rabbitmq", "nats"):
            at = await stack.enter_async_context(shared_place(kind))
            await declare(at.source, at.witness)
            heal = await (_full_queue(at, stack) if kind == "rabbitmq" else _full_stream(at, stack))
        else:
            server, at = await stack.enter_async_context(private_place(kind))
            await server.start()
            await declare(at.source, at.witness)
            if isinstance(server, PrivateKafka):
                mock = server.mock
                mock.fail(_PRODUCE, *[_UNKNOWN_SERVER_ERROR] * 10_000)
                heal = lambda: asyncio.to_thread(mock.call, "clear_request_errors", _PRODUCE)  # noqa: E731
            else:
                client: Any = await stack.enter_async_context(Redis.from_url(server.url))
                at = place(kind, server.url, at.name)
                await client.config_set("maxmemory", 1)
                heal = lambda: client.config_set("maxmemory", 0)  # noqa: E731
        yield at, heal


async def _full_queue(at: Place, stack: AsyncExitStack) -> Heal:
    """A queue that rejects what is over its limit: it is healed by those that read it."""
    connection = await stack.enter_async_context(aiormq.connect(SERVERS["rabbitmq"].url))
    channel = await connection.channel()
    limits: Any = {"x-max-length": LIMIT, "x-overflow": "reject-publish", "x-queue-type": "classic"}
    queue = f"{at.name}-full"
    await channel.queue_declare(queue, durable=True, arguments=limits)
    stack.push_async_callback(channel.queue_delete, queue)
    await channel.queue_bind(queue, at.name, routing_key="#")
    return lambda: channel.queue_unbind(queue, at.name, routing_key="#")


async def _full_stream(at: Place, stack: AsyncExitStack) -> Heal:
    client = await stack.enter_async_context(await nats.connect(SERVERS["nats"].url))
    streams = client.jetstream()
    found = (await streams.stream_info(at.name)).config
    await streams.update_stream(found.evolve(max_msgs=LIMIT))
    return lambda: streams.update_stream(found)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_broker_that_is_full_gets_the_rest_when_it_has_room(
    kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str, report: Report, large: bool
) -> None:
    count = 10 * MESSAGES if large else MESSAGES
    async with refusing(kind) as (at, heal), services(tmp_path, postgres_url, postgres_schema, at) as running:
        await running.publish(range(count), together=count)
        while not (await running.route())["put off"]:
            await asyncio.sleep(0.02)
        attempts, refused = running.attempts(), (await running.route())["waiting"]

        await heal()
        since = time.monotonic()
        dead = await running.drained()
        await running.effective(range(count))
        found = await running.found(dead, since=since)

    report(f"brokers, refusing, {at.kind}", f"put-off={refused} attempts={attempts} buried={dead}", found.line())
    assert (attempts, dead, found.flaws) == (0, 0, [])
    assert refused > 0


@asynccontextmanager
async def unroutable(kind: str, stack: AsyncExitStack) -> AsyncIterator[tuple[Place, Heal]]:
    """A place where orders that are lost lead nowhere, until that is mended."""
    at = await stack.enter_async_context(shared_place(kind))
    module, name, args, options = at.to
    nowhere = f"{at.name}-nowhere"
    match kind:
        case "rabbitmq":
            witness = replace(at, witness=(*at.witness[:3], {**at.witness[3], "bindings": [TOPIC]}))
            connection = await stack.enter_async_context(aiormq.connect(args[0]))
            channel = await connection.channel()
            yield witness, lambda: channel.queue_bind(f"{at.name}-witness", at.name, routing_key=LOST)
        case "redis":
            to: Any = (module, name, args, {"stream": {TOPIC: at.name, LOST: nowhere}})
            client: Any = await stack.enter_async_context(Redis.from_url(args[0]))
            stack.push_async_callback(client.delete, nowhere)
            reads = (*at.witness[:3], {**at.witness[3], "streams": [at.name, nowhere]})
            yield replace(at, to=to, witness=reads), lambda: declare(reads)
        case "nats":
            streams = (await stack.enter_async_context(await nats.connect(args[0]))).jetstream()
            witness = replace(at, witness=(*at.witness[:3], {**at.witness[3], "subjects": [f"{at.name}.{TOPIC}"]}))

            async def widen() -> None:
                found = (await streams.stream_info(at.name)).config
                await streams.update_stream(found.evolve(subjects=[f"{at.name}.>"]))

            yield witness, widen
        case _:
            to = (module, name, args, {**options, "topic": {TOPIC: at.name, LOST: nowhere}})
            reads = (*at.witness[:3], {**at.witness[3], "topics": [at.name, nowhere]})
            yield replace(at, to=to, witness=reads), lambda: declare(reads)


async def relayed(
    app: Mainspring, at: Place, mend: Heal, count: int, patience: float = 10.0
) -> tuple[dict[str, int], set[str], set[int], set[int]]:
    """Send orders of which each third leads nowhere, then mend that and revive them; return what was found."""
    lost = set(range(0, count, 3))
    app.route("orders.*", to=broker(at.to), group="broker", batch=20)
    readable = _readable(at)
    await declare(readable)
    async with app.worker():
        receipts = {order: await app.publish(LOST if order in lost else TOPIC, order) for order in range(count)}
        async with asyncio.timeout(60):
            while True:
                (group,) = [each for each in (await app.stats.tally()).groups if each.group == "broker"]
                if group.ready + group.running + group.scheduled == 0:
                    break
                await asyncio.sleep(0.02)
        dead = {each.message_id: each.error or "" for each in await app.dead.list(group="broker", limit=1000)}
        sent = {order for order, receipt in receipts.items() if receipt.id not in dead}
        there = await seen(broker(readable), len(sent), patience)
        await mend()
        for each in dead:
            await app.dead.revive(each)
        after = await seen(broker(at.witness), len(dead))
    counts = {"published": count, "sent": len(sent), "buried": len(dead), "received": there.total()}
    return counts, set(dead.values()), sent - set(there), set(range(count)) - set(there) - set(after)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_leads_nowhere_is_a_dead_letter_beside_those_that_are_sent_and_is_sent_once_that_is_mended(
    kind: str, postgres_url: str, postgres_schema: str, report: Report, large: bool
) -> None:
    count = 600 if large else 60
    app = Mainspring(postgres_url, name="shop", schema=postgres_schema)

    async with AsyncExitStack() as stack:
        at, mend = await stack.enter_async_context(unroutable(kind, stack))
        counts, reasons, not_there, lost = await relayed(app, at, mend, count)

    counts |= {"sent-but-not-there": len(not_there), "lost-after-mending": len(lost)}
    report(f"brokers, unroutable, {at.kind}", *(f"{name}={value}" for name, value in counts.items()))
    assert (not_there, lost) == (set(), set())
    assert (counts["sent"], counts["buried"]) == (count - count // 3, count // 3)
    assert reasons
    assert all("rejected it: " in each for each in reasons)


def _readable(at: Place) -> Spec:
    """What the witness can read before the other place is made."""
    module, name, args, options = at.witness
    return (module, name, args, {**options, **{each: [at.name] for each in ("streams", "topics") if each in options}})


async def test_an_adapter_that_asks_for_no_returns_counts_as_sent_what_is_nowhere(
    postgres_url: str, postgres_schema: str, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.brokers.rabbitmq_connection.written_message", _not_mandatory)
    app = Mainspring(postgres_url, name="shop", schema=postgres_schema)

    async with AsyncExitStack() as stack:
        at, mend = await stack.enter_async_context(unroutable("rabbitmq", stack))
        counts, _, not_there, _ = await relayed(app, at, mend, 30, patience=1.0)

    report("teeth: not mandatory", f"sent={counts['sent']} sent-but-not-there={len(not_there)} (must be >0)")
    assert not_there == set(range(0, 30, 3))


def _not_mandatory(*args: Any) -> dict[str, Any]:
    return {**written_message(*args), "mandatory": False}
