"""What is wrong with an address, an option or a message is told with what to change, and without a password."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams
from mainspring.brokers.contract import Broker, WireMessage
from mainspring.brokers.link import Link
from mainspring.model.errors import BadOption
from tests.brokers.benches.kafka import KafkaBench
from tests.brokers.benches.nats import URL as NATS
from tests.brokers.benches.rabbitmq import URL as RABBITMQ
from tests.brokers.benches.redis import URL as REDIS
from tests.services.brokers import SERVERS, listens
from tests.services.needs import need

PORT = 1
"""Nothing listens there."""
MESSAGE = WireMessage("1", "orders.placed", b"{}", "application/json", {})


async def sent(broker: Broker, message: WireMessage = MESSAGE) -> tuple[str, str]:
    link = Link(broker)
    try:
        (result,) = await link.send([message])
    finally:
        await link.close()
    return result.status, result.reason


@pytest.mark.parametrize(
    "made",
    [
        partial(RabbitMQ, "rabbit://ann:hunter2@localhost/"),
        partial(RabbitMQ, "amqp:/ann:hunter2@localhost"),
        partial(RabbitMQ, "amqp://ann:hunter2@localhost:port/"),
        partial(RedisStreams, "http://ann:hunter2@localhost/0"),
        partial(RedisStreams, "ann:hunter2@localhost"),
        partial(Nats, "amqp://ann:hunter2@localhost"),
        partial(Nats, "ann:hunter2@localhost:4222"),
        partial(Kafka, "kafka://ann:hunter2@localhost:9092"),
        partial(Kafka, "localhost:port"),
    ],
)
def test_an_address_with_a_typo_is_refused_with_the_form_of_one(made: Callable[[], Broker]) -> None:
    with pytest.raises(BadOption, match=r"amqp://user:password@host:port|redis://user|nats://user|host:port") as raised:
        made()

    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("broker", "advice"),
    [
        (RabbitMQ(f"amqp://ann:hunter2@127.0.0.1:{PORT}/"), f"RabbitMQ at 127.0.0.1:{PORT} cannot be reached"),
        (RedisStreams(f"redis://ann:hunter2@127.0.0.1:{PORT}/0"), "check the host and the port in url"),
        (Nats(f"nats://ann:hunter2@127.0.0.1:{PORT}"), "check the host and the port in url="),
        (Kafka(f"127.0.0.1:{PORT}", config={"sasl.password": "hunter2"}), "check servers, and that Kafka runs there"),
        (Kafka("127.0.0.1:1", config={"no.such": 1, "sasl.password": "hunter2"}), 'property: "no.such"'),
        (RedisStreams("redis://ann:hunter2@127.0.0.1/0?colour=blue"), "there is no parameter 'colour'"),
    ],
)
async def test_an_address_where_nothing_answers_and_an_option_that_is_none_are_for_later(
    broker: Broker, advice: str
) -> None:
    status, reason = await sent(broker)

    assert status == "later"
    assert advice in reason
    assert "hunter2" not in reason


@pytest.mark.parametrize(
    ("server", "broker", "advice"),
    [
        ("rabbitmq", RabbitMQ(RABBITMQ.replace("guest:guest", "guest:hunter2")), "Check the password"),
        ("rabbitmq", RabbitMQ(f"{RABBITMQ.rstrip('/')}/nope"), "there is no such vhost"),
        ("rabbitmq", RabbitMQ(RABBITMQ.replace("amqp:", "amqps:")), "offers no TLS at this port: write amqp://"),
        ("redis", RedisStreams(REDIS.replace("//", "//ann:hunter2@")), "check the user and the password in url"),
        ("redis", RedisStreams(f"{REDIS.rpartition('/')[0]}/999"), "name another database in url"),
        ("redis", RedisStreams(SERVERS["rabbitmq"].url.replace("amqp://guest:guest@", "redis://")), "check the "),
        ("nats", Nats(NATS.replace("nats:", "tls:")), "offers no TLS"),
    ],
)
async def test_what_a_server_refuses_is_for_later_with_what_to_check(server: str, broker: Broker, advice: str) -> None:
    need(listens(SERVERS[server]), SERVERS[server].name, "make services")

    status, reason = await sent(broker)

    assert status == "later"
    assert advice in reason
    assert "hunter2" not in reason


@pytest.mark.parametrize(
    ("server", "broker", "reason"),
    [
        ("rabbitmq", RabbitMQ(RABBITMQ, exchange="no-such"), "declare=True makes it, or change exchange="),
        ("rabbitmq", RabbitMQ(RABBITMQ, routing_key="no-such"), "bind one, or change exchange= or routing_key="),
        ("rabbitmq", RabbitMQ(RABBITMQ, routing_key={"a": "b"}), "has nothing for the topic 'orders.placed': add it"),
        ("rabbitmq", RabbitMQ(RABBITMQ, largest=1), "send a reference, or raise largest="),
        ("redis", RedisStreams(REDIS, stream="no-such"), "there is no stream 'no-such': declare=True makes it"),
        ("redis", RedisStreams(REDIS, stream={"a": "b"}), "stream= has no entry for 'orders.placed': add it"),
        ("redis", RedisStreams(REDIS, largest=1), "send a reference, or raise largest="),
        (
            "nats",
            Nats(NATS, subject="no-such.{topic}"),
            "pass stream=, subjects= and declare=True, or run `nats stream",
        ),
        ("nats", Nats(NATS, subject={"a": "b"}), "Nats(subject=…) has no subject for topic 'orders.placed': add it"),
    ],
)
async def test_what_is_rejected_is_told_with_what_to_change(server: str, broker: Broker, reason: str) -> None:
    need(listens(SERVERS[server]), SERVERS[server].name, "make services")

    found = await sent(broker)

    assert found[0] == "rejected"
    assert reason in found[1]
    assert "Error" not in found[1], "the name of a class says nothing about what to change"


async def test_a_message_over_the_limit_of_nats_names_the_limit() -> None:
    need(listens(SERVERS["nats"]), "NATS", "make services")

    found = await sent(Nats(NATS), MESSAGE._replace(body=b"x" * 20_000_000))

    assert found[0] == "rejected"
    assert "raise max_payload there" in found[1]


async def test_what_kafka_rejects_is_told_with_what_to_change() -> None:
    bench = KafkaBench()
    await bench.open()

    def no_name(_topic: str) -> str:
        return "a b"

    addresses: list[tuple[Any, bytes, str]] = [
        (f"{bench.topic}-nowhere", b"{}", "create it, or grant the right to write"),
        ({"a": "b"}, b"{}", "Kafka(topic=…) has no entry for 'orders.placed': add it"),
        (no_name, b"{}", "'a b' is no name of a topic: change topic="),
        (bench.topic, b"x" * 200_000, "raise message.max.bytes in config= and max.message.bytes of the topic"),
    ]
    try:
        for topic, body, reason in addresses:
            broker = Kafka(bench.servers, topic=topic, config=bench.config)
            found = await sent(broker, MESSAGE._replace(body=body))
            assert found[0] == "rejected"
            assert reason in found[1]
    finally:
        await bench.close()


def test_no_part_of_a_password_of_nats_is_shown() -> None:
    broker = Nats("nats://shop:p@sesame@nats.example:4222")

    assert broker.shown == "nats://nats.example:4222"
    assert "sesame" not in repr(broker)


def test_a_password_of_nats_that_would_end_the_host_is_refused() -> None:
    with pytest.raises(BadOption) as raised:
        Nats("nats://shop:1?p/sesame@nats.example")

    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    "broker",
    [
        RedisStreams("rediss://127.0.0.1:6379/0?ssl_cert_reqs=bogus"),
        RedisStreams("redis://127.0.0.1:6379/0?encoding=bogus"),
        RedisStreams("redis://127.0.0.1:6379/0?retry=1"),
        Kafka("127.0.0.1:1", config={"stats_cb": 7}),
    ],
    ids=["ssl_cert_reqs", "encoding", "retry", "stats_cb"],
)
async def test_an_option_that_the_client_refuses_lets_messages_wait(broker: Any) -> None:
    link = Link(broker)

    results = await link.send([MESSAGE])
    await link.close()

    assert [each.status for each in results] == ["later"]
    assert link.down_for is not None
