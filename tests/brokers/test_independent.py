"""What the relay wrote is read, and what an intake reads is written, by clients that share no code with the adapters.

RabbitMQ by pika, Kafka by kafka-python, Redis by redis-cli, NATS by its text protocol over a socket: see
``tests/brokers/clients.py``, also for how kafka-python talks to the mock cluster. Events are read by the SDK of
CloudEvents too.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.partitioner.default import murmur2

from mainspring import Context, Mainspring
from mainspring.brokers.kafka import Kafka
from tests.brokers.bench import TOPIC, Bench, until
from tests.brokers.benches.kafka import KafkaBench
from tests.brokers.clients import CLIENTS, IndependentClient, KafkaPythonClient, NatsSocket, PikaClient, RedisCli

NAME = "Zoë Müller — 東京 🚀"
COUNT = 50
_KINDS = ["kafka", "nats", "rabbitmq", "redis"]


@pytest.fixture
def app(tmp_path: Path) -> Mainspring:
    return Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", auto_migrate=True)


@pytest.fixture
def client(bench: Bench) -> IndependentClient:
    made: IndependentClient = CLIENTS[type(bench)](bench)
    return made


@pytest.mark.parametrize("bench", _KINDS, indirect=True)
async def test_another_client_reads_all_that_was_published(
    app: Mainspring, bench: Bench, client: IndependentClient
) -> None:
    app.route(TOPIC, to=bench.sends())

    async with app.worker():
        receipts = {
            number: await app.publish(
                TOPIC,
                {"n": number, "name": NAME},
                key=f"order:{number % 7}",
                headers={"tenant": "Größe", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                correlation_id=f"cart-{number}",
            )
            for number in range(COUNT)
        }
        await until(lambda: app_has_sent(app))
        seen = await client.read(COUNT)

    by_number = {json.loads(each.body)["n"]: each for each in seen}
    assert set(by_number) == set(range(COUNT))
    for number, each in by_number.items():
        id, key = str(receipts[number].id), f"order:{number % 7}"
        assert json.loads(each.body) == {"n": number, "name": NAME}
        assert each.content_type == "application/json"
        event = client.event(each)
        assert datetime.now(UTC) - event.get_time() < timedelta(minutes=5)
        assert (event.get_specversion(), event.get_id(), event.get_source()) == ("1.0", id, "shop")
        assert (event.get_type(), event.get_subject()) == (TOPIC, key)
        assert event.get_extension("correlationid") == f"cart-{number}"
        assert event.get_data() == {"n": number, "name": NAME}
        assert _text(each.headers["tenant"]) == ("Gr%C3%B6%C3%9Fe" if isinstance(client, NatsSocket) else "Größe")
        assert _text(each.headers["traceparent"]).startswith("00-0af7651916cd43dd8448eb211c80319c-")
        if isinstance(client, NatsSocket):
            assert each.id == f"{id}@{bench.name}.{TOPIC}"  # type: ignore[attr-defined]
        if isinstance(client, PikaClient):
            assert (each.id, each.correlation_id) == (id, f"cart-{number}")
        if isinstance(client, RedisCli):
            assert (each.id, each.correlation_id) == (id, f"cart-{number}")
        if isinstance(client, RedisCli | KafkaPythonClient):
            assert each.key == key


async def app_has_sent(app: Mainspring) -> bool:
    counts = (await app.stats.tally()).groups
    assert sum(each.dead for each in counts) == 0
    return sum(each.ready + each.running + each.scheduled for each in counts) == 0


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("bench", ["kafka"], indirect=True)
async def test_a_key_leads_to_the_partition_that_another_client_would_choose(
    app: Mainspring, bench: KafkaBench
) -> None:
    bench.topic += "-wide"
    await bench.create(bench.topic, 5)
    app.route(TOPIC, to=Kafka(bench.servers, topic=bench.topic, config=bench.config))

    async with app.worker():
        for number in range(30):
            await app.publish(TOPIC, number, key=f"Kunde:{number}-ä")
        await until(lambda: app_has_sent(app))
        seen = await CLIENTS[KafkaBench](bench).read(30)

    expected = {f"Kunde:{number}-ä": _partition(f"Kunde:{number}-ä", 5) for number in range(30)}
    assert {each.key: each.partition for each in seen} == expected
    assert len(set(expected.values())) > 1


def _partition(key: str, partitions: int) -> int:
    hashed: int = murmur2(key.encode())
    return (hashed & 0x7FFFFFFF) % partitions


def _written(prefix: str) -> Iterator[tuple[dict[str, str], tuple[str, str | None, str | None]]]:
    """Return headers as other programs write them, and the topic, key and correlation id that they mean."""
    yield (
        {
            f"{prefix}specversion": "1.0",
            f"{prefix}id": "evt-1",
            f"{prefix}source": "web",
            f"{prefix}type": TOPIC,
            f"{prefix}subject": "order:1",
            f"{prefix}correlationid": "cart-1",
        },
        (TOPIC, "order:1", "cart-1"),
    )
    yield (
        {
            "MessageId": "8a6f0000-2d2b-0015-4bb1-08db8a0f1c2e",
            "CorrelationId": "cart-2",
            "MT-MessageType": "urn:message:orders:placed",
        },
        (TOPIC, None, "cart-2"),
    )
    yield {"cap-msg-id": "7", "cap-msg-name": TOPIC, "cap-corr-id": "cart-3"}, (TOPIC, None, "cart-3")
    yield (
        {"NServiceBus.MessageId": "nsb-4", "NServiceBus.EnclosedMessageTypes": "Shop.OrderPlaced"},
        (TOPIC, None, None),
    )


@pytest.mark.parametrize("bench", _KINDS, indirect=True)
async def test_what_another_client_wrote_is_handled_once(
    app: Mainspring, bench: Bench, client: IndependentClient
) -> None:
    handled: list[tuple[int, str, tuple[str, str | None, str | None]]] = []

    @app.consumer(TOPIC, source=bench.reads())
    async def bill(order: dict[str, Any], ctx: Context) -> None:
        handled.append((order["n"], order["name"], (ctx.topic, ctx.key, ctx.correlation_id)))

    written = list(_written(bench.sends().prefix))
    for _ in range(2):
        for number, (headers, _) in enumerate(written):
            await client.write(json.dumps({"n": number, "name": NAME}).encode(), headers)
    for number in (4, 5):  # without an id: where they are stored tells them apart
        await client.write(json.dumps({"n": number, "name": NAME}).encode(), {})
    async with app.worker() as worker:
        ((_, link),) = worker.links()
        await until(lambda: link.counts["received"] == 10 and len(handled) >= 6)
        await client.write(b'{"n": 6, "name": "the last"}', {})
        await until(lambda: any(number == 6 for number, *_ in handled))

    # A consumer sets no correlation id that it was not given; a message is its own.
    means = [meant for _, meant in written] + [(TOPIC, None, None)] * 2
    assert [(number, name) for number, name, _ in sorted(handled)] == [(each, NAME) for each in range(6)] + [
        (6, "the last")
    ]
    for (number, _, found), expected in zip(sorted(handled), means, strict=False):
        assert found[:2] == expected[:2], number
        assert expected[2] is None or found[2] == expected[2], number
    assert link.counts["repeat"] == 4


@pytest.mark.parametrize("bench", _KINDS, indirect=True)
async def test_an_intake_publishes_what_names_its_topic(
    app: Mainspring, bench: Bench, client: IndependentClient
) -> None:
    handled: list[tuple[int, str]] = []
    app.intake(bench.reads())

    @app.consumer("orders.*")
    async def bill(order: dict[str, int], ctx: Context) -> None:
        handled.append((order["n"], ctx.topic))

    for number, (headers, _) in enumerate(_written(bench.sends().prefix)):
        await client.write(json.dumps({"n": number}).encode(), headers)
    async with app.worker():
        await until(lambda: len(handled) >= 3)
        await until(lambda: dead(app, 1))
        (cause,) = (await app.dead.causes()).rows

    assert sorted(handled) == [(0, TOPIC), (1, TOPIC), (2, TOPIC)]
    assert cause.error.startswith("it names no topic"), "the types of NServiceBus are no topics"


async def dead(app: Mainspring, count: int) -> bool:
    return sum(each.dead for each in (await app.stats.tally()).groups) == count


@pytest.mark.parametrize("bench", ["redis", "kafka"], indirect=True)
async def test_the_key_of_the_protocol_is_the_key(app: Mainspring, bench: Bench, client: IndependentClient) -> None:
    handled: list[str | None] = []

    @app.consumer(TOPIC, source=bench.reads())
    async def bill(order: dict[str, int], ctx: Context) -> None:
        handled.append(ctx.key)

    await client.write(b"{}", {}, key="Kunde:ä")
    async with app.worker():
        await until(lambda: len(handled) == 1)

    assert handled == ["Kunde:ä"]


@pytest.mark.parametrize("bench", ["rabbitmq", "redis", "nats"], indirect=True)
async def test_a_repeat_is_known_by_the_id_of_the_protocol(
    app: Mainspring, bench: Bench, client: IndependentClient
) -> None:
    handled: list[int] = []

    @app.consumer(TOPIC, source=bench.reads())
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    for number, id in ((1, "m-1"), (2, "m-1"), (3, "m-3")):
        await client.write(json.dumps({"n": number}).encode(), {}, id=id)
    async with app.worker():
        await until(lambda: len(handled) == 2)

    assert sorted(handled) == [1, 3]


@pytest.mark.parametrize("bench", _KINDS, indirect=True)
async def test_two_that_are_alike_and_have_no_id_are_two_messages(
    app: Mainspring, bench: Bench, client: IndependentClient
) -> None:
    handled: list[int] = []

    @app.consumer(TOPIC, source=bench.reads())
    async def rebuild(order: dict[str, int]) -> None:
        handled.append(order["n"])

    for number in (1, 1, 2):
        await client.write(b'{"n": %d}' % number, {})
    async with app.worker():
        await until(lambda: 2 in handled)

    assert sorted(handled) == [1, 1, 2]


@pytest.mark.parametrize("bench", _KINDS, indirect=True)
async def test_one_that_the_client_library_cannot_read_is_a_dead_letter_and_blocks_nothing(
    app: Mainspring, bench: Bench, client: IndependentClient
) -> None:
    handled: list[int] = []

    @app.consumer(TOPIC, source=bench.reads())
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    await client.write(b'{"n": 1}', {})
    count = await client.write_poison()
    await client.write(b'{"n": 2}', {})
    async with app.worker():
        await until(lambda: len(handled) == 2)
        await until(lambda: dead(app, count))
        causes = (await app.dead.causes()).rows
        letters = await app.dead.list()
        await app.dead.revive(everything=True)
        await until(lambda: dead(app, count))

    assert sorted(handled) == [1, 2]
    assert {each.group for each in causes} == {f"intake:{bench.reads().source}"}
    assert len(letters) == count


@pytest.mark.parametrize("bench", ["rabbitmq", "nats"], indirect=True)
async def test_one_at_an_address_that_is_no_text_is_handled(app: Mainspring, bench: Bench) -> None:
    handled: list[int] = []
    client: PikaClient | NatsSocket = CLIENTS[type(bench)](bench)

    @app.consumer(TOPIC, source=bench.reads())
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    await client.write_to_no_text(b'{"n": 1}')
    await client.write(b'{"n": 2}', {})
    async with app.worker():
        await until(lambda: len(handled) == 2)

    assert sorted(handled) == [1, 2]
