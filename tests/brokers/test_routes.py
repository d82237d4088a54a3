"""Routes: what is published goes to the broker, and is done when the broker has confirmed it."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.app.broker.route import AWAY
from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams, wire
from mainspring.brokers.contract import Broker, WireMessage
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import BadOption, Conflict
from mainspring.timing.breaker import Circuit
from tests.brokers.bench import until

TOPIC = "orders.placed"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    return Mainspring(urls[request.param], name="shop", schema=postgres_schema, auto_migrate=True)


@pytest.fixture
def queues() -> MemoryQueues:
    return MemoryQueues({"billing": [TOPIC]})


@pytest.fixture
def quiet() -> Mainspring:
    return Mainspring("memory://", name="shop")


async def ended(app: Mainspring, group: str) -> bool:
    counts = (await app.stats.tally()).groups
    return all(each.ready + each.running + each.scheduled == 0 for each in counts if each.group == group)


async def test_each_message_is_sent_once_with_what_identifies_it(app: Mainspring, queues: MemoryQueues) -> None:
    app.route("orders.*", to=MemoryBroker(queues), group="broker")

    async with app.worker():
        receipts = [
            await app.publish(TOPIC, {"n": number}, key=f"order:{number}", headers={"tenant": "acme"})
            for number in range(20)
        ]
        await until(lambda: len(queues.waiting["billing"]) == 20)
        await until(lambda: ended(app, "broker"))

    found = {each.message_id: each for each in queues.waiting["billing"]}
    assert set(found) == {str(each.id) for each in receipts}
    first = found[str(receipts[0].id)]
    assert json.loads(first.body) == {"n": 0}
    assert (first.content_type, first.key) == ("application/json", "order:0")
    assert first.headers["tenant"] == "acme"
    assert {name: first.headers[f"ce-{name}"] for name in ("id", "source", "type", "subject", "specversion")} == {
        "id": str(receipts[0].id),
        "source": "shop",
        "type": TOPIC,
        "subject": "order:0",
        "specversion": "1.0",
    }


async def test_publishing_does_not_wait_for_a_broker_that_is_away_and_the_backlog_drains_after(
    app: Mainspring, queues: MemoryQueues
) -> None:
    queues.fail()
    app.route(TOPIC, to=MemoryBroker(queues), group="broker")

    async with app.worker():
        for number in range(10):
            await app.publish(TOPIC, number)
        (group,) = [each for each in (await app.stats.tally()).groups if each.group == "broker"]
        queues.heal()
        await until(lambda: len(queues.waiting["billing"]) == 10)
        await until(lambda: ended(app, "broker"))

    assert group.dead == 0
    assert group.ready + group.running + group.scheduled == 10


async def test_while_the_broker_is_away_the_backlog_is_left_alone(app: Mainspring, queues: MemoryQueues) -> None:
    queues.fail()
    app.route(TOPIC, to=MemoryBroker(queues), group="broker", batch=5, concurrency=1)
    async with app:
        await app.declare()
        await app.publish_many([(TOPIC, number) for number in range(200)])

    async with app.worker() as worker:
        await until(lambda: "broker" in worker.pauses())
        (group,) = [each for each in (await app.stats.tally()).groups if each.group == "broker"]
        queues.heal()
        await until(lambda: len(queues.waiting["billing"]) == 200)

    assert (group.dead, group.ready >= 180) == (0, True)


def test_an_outage_after_much_was_sent_is_noticed_within_seconds() -> None:
    circuit = Circuit(AWAY)
    for number in range(10_000):
        circuit.record(number / 1000, failed=False)

    ends = [10 + batch for batch in range(60) for _ in range(250)]
    opened = next(now for now in ends if circuit.record(now, failed=True) == "open")

    assert opened <= 10 + 5


async def test_what_the_broker_rejects_is_a_dead_letter_with_its_reason_and_can_be_revived(
    app: Mainspring, queues: MemoryQueues
) -> None:
    app.route("orders.*", to=MemoryBroker(queues), group="broker")

    async with app.worker():
        sent = await app.publish(TOPIC, 1)
        lost = await app.publish("orders.cancelled", 2)
        await until(lambda: ended(app, "broker"))
        view = await app.messages.get(lost.id)
        assert view is not None
        (delivery,) = view.deliveries
        queues.bindings["billing"] = ()
        await app.dead.revive(lost.id)
        await until(lambda: len(queues.waiting["billing"]) == 2)

    assert delivery.state == "dead"
    assert delivery.error == "memory://broker rejected it: no queue is bound to 'orders.cancelled'"
    assert [each.message_id for each in queues.waiting["billing"]] == [str(sent.id), str(lost.id)]


async def test_a_broker_that_takes_nothing_buries_nothing(app: Mainspring, queues: MemoryQueues) -> None:
    queues.refuses = "the queue is full"
    app.route(TOPIC, to=MemoryBroker(queues), group="broker")

    async with app.worker():
        receipt = await app.publish(TOPIC, 1)

        async def is_put_off() -> bool:
            view = await app.messages.get(receipt.id)
            return view is not None and view.deliveries[0].state == "scheduled"

        await until(is_put_off)
        view = await app.messages.get(receipt.id)
        queues.refuses = None
        await until(lambda: len(queues.waiting["billing"]) == 1)

    assert view is not None
    assert view.deliveries[0].attempt == 0


async def test_a_consumer_of_the_same_topic_is_served_beside_it(quiet: Mainspring, queues: MemoryQueues) -> None:
    handled: list[int] = []
    quiet.route(TOPIC, to=MemoryBroker(queues))

    @quiet.consumer(TOPIC)
    async def book(number: int) -> None:
        handled.append(number)

    async with quiet.worker():
        await quiet.publish(TOPIC, 7)
        await until(lambda: handled == [7] and len(queues.waiting["billing"]) == 1)


@pytest.mark.parametrize(
    ("format", "content_type"),
    [
        ("cloudevents", "application/json"),
        ("structured", "application/cloudevents+json"),
        ("masstransit", "application/json"),
        ("cap", "application/json"),
    ],
)
async def test_the_format_is_that_of_the_route(
    quiet: Mainspring, queues: MemoryQueues, format: str, content_type: str
) -> None:
    quiet.route(TOPIC, to=MemoryBroker(queues), format=format)  # type: ignore[arg-type]  # one of the four

    async with quiet.worker():
        await quiet.publish(TOPIC, {"n": 1})
        await until(lambda: len(queues.waiting["billing"]) == 1)

    assert queues.waiting["billing"][0].content_type == content_type


@pytest.mark.parametrize("topics", [(TOPIC,), ("orders.*",), ("orders.#", "parcels.packed"), ("*.placed",)])
def test_two_routes_that_would_send_the_same_conflict(
    quiet: Mainspring, queues: MemoryQueues, topics: tuple[str, ...]
) -> None:
    quiet.route(TOPIC, to=MemoryBroker(queues))

    with pytest.raises(Conflict, match=r"both send 'orders\.placed' to memory://broker, so that it would arrive twice"):
        quiet.route(*topics, to=MemoryBroker(queues), group="another")


def test_two_routes_to_different_addresses_of_one_broker_are_no_conflict(quiet: Mainspring) -> None:
    first = RabbitMQ("amqp://localhost/", exchange="shop")
    quiet.route("orders.*", to=first)
    quiet.route("orders.*", to=RabbitMQ("amqp://localhost/", exchange="audit"), group="audit")
    quiet.route("orders.paid", to=Kafka("localhost:9092", topic={"orders.paid": "orders"}), group="kafka")

    with pytest.raises(Conflict, match=r"both send 'orders\.\*'"):
        quiet.route("orders.*", to=RabbitMQ("amqp://localhost/", exchange="shop"), group="again")


def test_two_patterns_that_share_a_topic_conflict_and_the_topic_and_both_routes_are_named(
    quiet: Mainspring, queues: MemoryQueues
) -> None:
    quiet.route("orders.*", to=MemoryBroker(queues), group="by order")
    quiet.route("parcels.*", to=MemoryBroker(queues), group="by parcel")

    with pytest.raises(
        Conflict, match=r"the route by order and the route by event both send 'orders\.placed' to memory"
    ):
        quiet.route("*.placed", to=MemoryBroker(queues), group="by event")


def test_two_patterns_with_mappings_conflict_at_a_topic_that_both_send_to_one_address(quiet: Mainspring) -> None:
    quiet.route("orders.*", to=Kafka("localhost:9092", topic={"orders.placed": "placed", "orders.paid": "paid"}))
    quiet.route("*.paid", to=Kafka("localhost:9092", topic={"orders.paid": "paid-again"}), group="elsewhere")

    with pytest.raises(Conflict, match=r"both send 'orders\.paid' to kafka://localhost:9092"):
        quiet.route("orders.#", to=Kafka("localhost:9092", topic={"orders.paid": "paid"}), group="again")


def test_mistakes_are_told_with_what_to_write(quiet: Mainspring) -> None:
    broker = RabbitMQ("amqp://localhost/", exchange="shop")
    with pytest.raises(BadOption, match=r"^app\.route\(…\) has no to=: write app\.route\('orders\.\*', to=RabbitMQ"):
        quiet.route("orders.*", broker)  # type: ignore[call-arg]
    with pytest.raises(BadOption, match=r"^app\.route\(\['orders\.\*'\], …\) takes topics one by one"):
        quiet.route(["orders.*"], to=broker)
    with pytest.raises(BadOption, match=r"the mapping of Kafka\(…\) has no such topic"):
        quiet.route("parcels.*", to=Kafka("localhost:9092", topic={"orders.paid": "paid"}))
    quiet.route("orders.*", to=broker)
    with pytest.raises(Conflict, match=r"belongs to the route rabbitmq:orders\.\*: give this one another group="):
        quiet.route("orders.*", to=RabbitMQ("amqp://localhost/", exchange="audit"))


@pytest.mark.parametrize(
    ("option", "made"),
    [
        ("routing_key", lambda text: RabbitMQ("amqp://localhost/", exchange="shop", routing_key=text)),
        ("topic", lambda text: Kafka("localhost:9092", topic=text)),
        ("stream", lambda text: RedisStreams("redis://localhost/0", stream=text)),
        ("subject", lambda text: Nats("nats://localhost:4222", subject=text)),
    ],
)
def test_an_unknown_name_in_braces_is_refused_and_not_sent_to(option: str, made: Callable[[str], Broker]) -> None:
    with pytest.raises(BadOption, match=rf"^{option}='shop\.{{tpic}}' has {{tpic}}, and only {{topic}} stands for"):
        made("shop.{tpic}")

    assert "shop.orders" in made("shop.{topic}").address("orders")


def test_a_function_that_returns_no_text_is_named_by_its_topic() -> None:
    broker = RabbitMQ("amqp://localhost/", exchange="shop", routing_key=lambda _: None)  # type: ignore[arg-type, return-value]

    with pytest.raises(BadOption, match=r"the address of topic 'orders\.placed' must be text, and is None"):
        broker.address("orders.placed")


def test_a_route_that_is_given_twice_conflicts(quiet: Mainspring, queues: MemoryQueues) -> None:
    quiet.route(TOPIC, to=MemoryBroker(queues))

    with pytest.raises(Conflict, match=r"both send 'orders\.placed' .* leave it to one of them"):
        quiet.route(TOPIC, to=MemoryBroker(queues))


async def test_one_that_cannot_be_written_is_rejected_alone(
    quiet: Mainspring, queues: MemoryQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet.route(TOPIC, to=MemoryBroker(queues), group="broker")
    plain = wire.write

    def unwilling(message: wire.Outbound, *rest: Any) -> WireMessage:
        if message.payload == b"2":
            raise ValueError("no")
        return plain(message, *rest)

    monkeypatch.setattr("mainspring.app.broker.route.write", unwilling)
    async with quiet.worker():
        await quiet.publish_many([(TOPIC, number) for number in range(5)])
        await until(lambda: len(queues.waiting["billing"]) == 4)
        await until(lambda: ended(quiet, "broker"))
        causes = (await quiet.dead.causes()).rows

    assert [each.error for each in causes] == ["memory://broker rejected it: it cannot be written: ValueError: no"]


async def test_an_option_that_the_client_refuses_buries_nothing_and_is_told(app: Mainspring) -> None:
    app.route(TOPIC, to=Kafka("127.0.0.1:1", config={"no.such.option": 1}), group="broker")

    async with app.worker() as worker:
        receipt = await app.publish(TOPIC, 1)

        async def is_put_off() -> bool:
            view = await app.messages.get(receipt.id)
            return view is not None and view.deliveries[0].state == "scheduled"

        await until(is_put_off)
        view = await app.messages.get(receipt.id)
        told = dict(worker.links())["broker"].error

    assert view is not None
    assert view.deliveries[0].attempt == 0
    assert told == 'Kafka(config=…): No such configuration property: "no.such.option"'


def test_two_routes_of_one_group_conflict(quiet: Mainspring, queues: MemoryQueues) -> None:
    quiet.route(TOPIC, to=MemoryBroker(queues), group="broker")

    with pytest.raises(Conflict, match=r"group 'broker' already belongs to the route broker"):
        quiet.route("parcels.packed", to=MemoryBroker(queues), group="broker")


def test_mistakes_are_named_where_they_are_made(quiet: Mainspring, queues: MemoryQueues) -> None:
    with pytest.raises(BadOption, match=r"app\.route\(…, to='amqp://localhost'\): pass a broker"):
        quiet.route(TOPIC, to="amqp://localhost")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="has no topic"):
        quiet.route(to=MemoryBroker(queues))
    with pytest.raises(BadOption, match="format='xml'"):
        quiet.route(TOPIC, to=MemoryBroker(queues), format="xml")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=r"app\.route\(…\) has no option 'timeout'"):
        quiet.route(TOPIC, to=MemoryBroker(queues), timeout=3)  # type: ignore[call-arg]


async def test_what_is_rejected_does_not_hold_up_what_is_sent(quiet: Mainspring, queues: MemoryQueues) -> None:
    quiet.route("orders.*", to=MemoryBroker(queues), group="out")

    async with quiet:
        await quiet.publish_many(("orders.unknown", {"n": number}) for number in range(600))
        await quiet.publish(TOPIC, {"n": 1})
        async with quiet.worker() as worker:
            await until(lambda: bool(queues.waiting["billing"]))
            assert not worker.pauses()


async def test_a_broker_that_is_away_is_logged_once_and_so_is_its_return(
    quiet: Mainspring, queues: MemoryQueues, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainspring")
    quiet.route("orders.*", to=MemoryBroker(queues), group="broker")
    queues.fail("it was stopped")

    async with quiet.worker() as worker:
        for number in range(10):
            await quiet.publish(TOPIC, {"n": number})
        await until(lambda: any("waits, and is probed" in each for each in caplog.messages))
        counts = worker.links()[0][1].counts
        more = counts["later"] + 2
        await until(lambda: counts["later"] >= more)  # probes
        queues.heal()
        await until(lambda: len(queues.waiting["billing"]) == 10)

    said = [each.getMessage() for each in caplog.records if each.name in {"mainspring.handlers", "mainspring.brokers"}]
    assert [each for each in said if "too many failures" in each] == []
    assert sum("waits, and is probed" in each for each in said) == 1
    assert sum("cannot be reached" in each for each in said) == 1
