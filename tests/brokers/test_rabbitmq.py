"""What RabbitMQ alone does: channels that one message closes, returned messages, redelivery limits, header types."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aiormq
import pytest
from aiormq.abc import AbstractChannel

from mainspring.brokers.contract import SENT, BrokerConnection
from mainspring.brokers.rabbitmq import RabbitMQ
from mainspring.model.errors import BrokerUnavailable
from tests.brokers.bench import TOPIC, identity, message, until
from tests.brokers.benches.rabbitmq import URL, connected

WAIT = 10.0


async def test_a_missing_exchange_rejects_in_the_brokers_words_and_the_connection_stays(
    raw: AbstractChannel, name: str
) -> None:
    async with connected(RabbitMQ(URL, exchange=name)) as connection:
        missing = await connection.send([message(0), message(1)], WAIT)
        closed = connection.closed
        await raw.exchange_declare(name, exchange_type="topic", durable=True)
        await raw.queue_declare(name, durable=True)
        await raw.queue_bind(name, name, routing_key="#")
        found = await connection.send([message(2)], WAIT)

    assert [each.status for each in missing] == ["rejected"] * 2
    how = "declare=True makes it, or change exchange="
    assert {each.reason for each in missing} == {f"NOT_FOUND - no exchange '{name}' in vhost '/': {how}"}
    assert (closed, found) == (False, [SENT])


async def test_one_that_closes_the_channel_is_rejected_and_its_neighbours_are_sent(
    raw: AbstractChannel, name: str
) -> None:
    await raw.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    batch = [message(number, headers={"CC": "text"} if number in {3, 7} else {"n": "1"}) for number in range(10)]

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        results = await connection.send(batch, WAIT)
        again = await connection.send(batch[:2], WAIT)
    arrived = await raw.queue_declare(name, passive=True)

    assert [number for number, each in enumerate(results) if each.status == "rejected"] == [3, 7]
    assert "unacceptable_type_in_header" in results[3].reason
    assert [each for number, each in enumerate(results) if number not in {3, 7}] == [SENT] * 8
    assert again == [SENT] * 2
    assert (arrived.message_count or 0) >= 10


async def test_of_two_batches_at_once_one_does_not_decide_about_the_other(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    bad = [message(number, headers={"CC": "text"}) for number in range(20)]
    good = [message(100 + number) for number in range(20)]

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        first, second = await asyncio.gather(connection.send(bad, WAIT), connection.send(good, WAIT))

    assert {each.status for each in first} == {"rejected"}
    assert second == [SENT] * 20


async def test_a_queue_that_is_full_is_no_reason_to_give_up(raw: AbstractChannel, name: str) -> None:
    full: dict[str, Any] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await raw.queue_declare(name, durable=True, arguments=full)

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        results = [(await connection.send([message(number)], WAIT))[0] for number in range(3)]
        closed = connection.closed

    assert [each.status for each in results] == ["sent", "later", "later"]
    assert "basic.nack" in results[1].reason
    assert not closed


async def test_what_leads_nowhere_is_rejected_each_although_two_have_one_id(name: str) -> None:
    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        results = await connection.send([message(1), message(1), message(1)], WAIT)

    assert [each.status for each in results] == ["rejected"] * 3
    how = "bind one, or change exchange= or routing_key="
    assert {each.reason for each in results} == {f"no queue is bound for routing key '{name}' (NO_ROUTE): {how}"}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"n" * 129: "1"}, "more than 128 bytes"),
        ({"n": "x" * 140_000}, "its headers have 140,007 bytes"),
        ({"n": "\ud800"}, "surrogates not allowed"),
    ],
)
async def test_what_amqp_cannot_carry_is_rejected_alone(
    raw: AbstractChannel, name: str, headers: dict[str, str], reason: str
) -> None:
    await raw.queue_declare(name, durable=True)

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        first, second, third = await connection.send([message(0), message(1, headers=headers), message(2)], WAIT)
        closed = connection.closed

    assert (first, third) == (SENT, SENT)
    assert second.status == "rejected"
    assert reason in second.reason
    assert not closed


async def test_headers_that_fill_a_frame_and_long_correlations_are_carried(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    batch = [message(0, headers={"n": "x" * 130_000}), message(1, correlation_id="ž" * 200)]

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        results = await connection.send(batch, WAIT)

    assert results == [SENT] * 2


async def test_topics_without_a_routing_key_are_rejected_alone(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    broker = RabbitMQ(URL, routing_key={TOPIC: name, "long": "ž" * 200})
    batch = [message(0), message(1)._replace(topic="unknown"), message(2)._replace(topic="long"), message(3)]

    async with connected(broker) as connection:
        results = await connection.send(batch, WAIT)

    assert [each.status for each in results] == ["sent", "rejected", "rejected", "sent"]
    assert "routing_key= has nothing for the topic 'unknown'" in results[1].reason
    assert "255 bytes" in results[2].reason


async def test_a_message_is_persistent_and_has_its_properties(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        await connection.send([message(7, correlation_id="cart-7")], WAIT)
    properties = (await raw.basic_get(name)).header.properties

    assert (properties.message_id, properties.correlation_id) == (identity(7), "cart-7")
    assert (properties.content_type, properties.delivery_mode) == ("application/json", 2)


async def test_a_header_of_any_type_is_read(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    headers: dict[str, Any] = {
        "text": "Łódź",
        "bytes": bytearray(b"\xff\x00"),
        "utf8": bytearray(b"plain"),
        "number": 7,
        "yes": True,
        "nothing": None,
        "price": Decimal("1.5"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "list": ["a", 1],
        "table": {"a": 1},
    }
    properties = aiormq.spec.Basic.Properties(headers=headers, message_type="kind")
    await raw.basic_publish(b"{}", routing_key=name, properties=properties)

    async with connected(RabbitMQ(URL, queue=name)) as connection:
        (found,) = await connection.receive(1, WAIT)

    assert found.headers == {
        "text": "Łódź",
        "bytes": b"\xff\x00",
        "utf8": "plain",
        "number": "7",
        "yes": "true",
        "nothing": "null",
        "price": "1.5",
        "at": "2026-01-02T03:04:05+00:00",
        "list": '["a",1]',
        "table": '{"a":1}',
    }
    assert (found.address, found.content_type, len(found.coordinates) <= 200) == (name, None, True)


async def test_two_calls_with_one_id_are_rejected_both_where_no_queue_is_bound(name: str) -> None:
    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        found = await asyncio.gather(*(connection.send([message(1)], WAIT) for _ in range(3)))
        after = await connection.send([message(1)], WAIT)

    assert [each.status for results in (*found, after) for each in results] == ["rejected"] * 4


async def test_the_name_of_a_header_is_counted_in_bytes(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    cut = message(1, headers={"ž" * 64 + "a": "1", "ž" * 64 + "b": "2"})  # 129 bytes each, alike in the first 128
    whole = message(2, headers={"ž" * 64: "1"})

    async with connected(RabbitMQ(URL, routing_key=name, queue=name)) as connection:
        first, second = await connection.send([cut, whole], WAIT)
        found = await connection.receive(1, WAIT)

    assert first.status == "rejected"
    assert second == SENT
    assert found[0].headers == whole.headers


async def test_many_names_that_are_no_ascii_decide_about_no_other(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    large = message(1, headers={f"{number:04}" + "語" * 41: "1" for number in range(2000)})

    async with connected(RabbitMQ(URL, routing_key=name)) as connection:
        results = await connection.send([message(0), large, message(2)], WAIT)
        closed = connection.closed

    assert [each.status for each in results] == ["sent", "rejected", "sent"]
    assert not closed


async def test_what_is_acknowledged_out_of_order_leaves_the_others(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    broker = RabbitMQ(URL, routing_key=name, queue=name)
    async with connected(broker) as connection:
        await connection.send([message(number) for number in range(6)], WAIT)
        found: list[Any] = []
        while len(found) < 6:
            found += await connection.receive(6, WAIT)
        await connection.ack([found[4], found[0], found[2]])
        await connection.ack([found[0]])
        await connection.nack([found[5]])
        (returned,) = await connection.receive(6, WAIT)
        await connection.ack([found[3]])

    async with connected(broker) as connection:
        left: list[Any] = []
        while len(left) < 2:
            left += await connection.receive(6, WAIT)
        lag = await connection.lag()

    assert (returned.body, returned.redelivered) == (message(5).body, True)
    assert sorted(each.body for each in left) == [message(1).body, message(5).body]
    assert lag == 0


async def test_a_wait_that_is_cancelled_at_its_start_does_not_end_the_next(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    async with connected(RabbitMQ(URL, routing_key=name, queue=name)) as connection:
        for _ in range(3):
            waiting = asyncio.create_task(connection.receive(1, WAIT))
            await asyncio.sleep(0)
            waiting.cancel()
        await connection.send([message(1)], WAIT)
        (found,) = await connection.receive(1, WAIT)

    assert found.body == message(1).body


async def test_no_more_is_delivered_than_prefetch_allows(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    async with connected(RabbitMQ(URL, routing_key=name, queue=name, prefetch=2)) as connection:
        await connection.send([message(number) for number in range(5)], WAIT)
        found: list[Any] = []
        while len(found) < 2:
            found += await connection.receive(5, WAIT)
        lag = await connection.lag()
        await connection.ack(found)
        more = await connection.receive(5, WAIT)

    assert (len(found), lag, more[0].body) == (2, 3, message(2).body)


async def test_many_large_ones_are_sent_in_order(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    async with connected(RabbitMQ(URL, routing_key=name, queue=name)) as connection:
        results = await connection.send([message(number, body=b"x" * 3_000_000) for number in range(7)], WAIT)
        found: list[Any] = []
        while len(found) < 7:
            found += await connection.receive(7, WAIT)

    assert results == [SENT] * 7
    assert [each.message_id for each in found] == [identity(number) for number in range(7)]


async def test_a_queue_that_is_deleted_ends_the_wait_for_it(raw: AbstractChannel, name: str) -> None:
    await raw.queue_declare(name, durable=True)
    async with connected(RabbitMQ(URL, queue=name)) as connection:
        receiving = asyncio.create_task(connection.receive(1, 60))

        async def is_read() -> bool:
            return bool((await raw.queue_declare(name, passive=True)).consumer_count)

        await until(is_read)
        await raw.queue_delete(name)
        async with asyncio.timeout(5):
            with pytest.raises(BrokerUnavailable, match="deleted"):
                await receiving
        assert connection.closed


async def test_a_queue_that_is_missing_is_named(name: str) -> None:
    async with connected(RabbitMQ(URL, queue=name)) as connection:
        assert await connection.lag() is None
        with pytest.raises(BrokerUnavailable, match=f"no queue '{name}'"):
            await connection.receive(1, WAIT)
        assert connection.closed


async def test_what_is_declared_is_bound(name: str) -> None:
    broker = RabbitMQ(URL, exchange=name, queue=name, bindings=["orders.#"], queue_type="classic")
    async with connected(broker) as connection:
        made = await connection.declare()
        sent = await connection.send([message(1)], WAIT)
        (found,) = await connection.receive(1, WAIT)

    assert made == [f"exchange {name}", f"queue {name}", f"binding of queue {name} to orders.#"]
    assert sent == [SENT]
    assert found.body == message(1).body


async def test_a_quorum_queue_that_was_declared_redelivers_without_limit(name: str) -> None:
    broker = RabbitMQ(URL, routing_key=name, queue=name)
    async with connected(broker) as connection:
        await connection.declare()
        await connection.send([message(1)], WAIT)
        for _ in range(25):
            found = await connection.receive(1, WAIT)
            await connection.nack(found)
        (found,) = [await connection.receive(1, WAIT)]

    assert [each.body for each in found] == [message(1).body]


LIMITED = [
    ({"x-queue-type": "quorum"}, 20),
    ({"x-queue-type": "quorum", "x-max-length": 1000, "x-overflow": "reject-publish", "x-expires": 600_000}, 20),
    ({"x-queue-type": "quorum", "x-single-active-consumer": True, "x-delivery-limit": 3}, 3),
    ({"x-queue-type": "quorum", "x-single-active-consumer": True, "x-delivery-limit": -1}, None),
    ({"x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout", "x-max-length": 5}, None),
    ({"x-queue-type": "classic", "x-max-length": 5}, None),
    ({}, None),
]


@pytest.mark.parametrize(("arguments", "limit"), LIMITED)
async def test_a_queue_of_version_4_that_drops_messages_is_named(
    raw: AbstractChannel, name: str, arguments: Mapping[str, Any], limit: int | None
) -> None:
    await raw.queue_declare(name, durable=True, arguments=dict(arguments))
    async with connected(RabbitMQ(URL, queue=name)) as connection:
        before = await connection.check() if connection.server < (4,) else []
        connection.server = (4, 0, 5)
        found = await connection.check()

    assert before == []
    if limit is None:
        assert found == []
    else:
        (sentence,) = found
        assert f"RabbitMQ 4.0.5 drops a message of queue '{name}' after {limit} redeliveries" in sentence
        assert "x-delivery-limit=-1" in sentence


async def test_asking_for_the_limit_of_a_queue_that_has_just_gone_makes_none(
    raw: AbstractChannel, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await raw.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    async with connected(RabbitMQ(URL, queue=name)) as connection:
        plain, answers = connection._ask, list[Any]()

        async def then_deleted(*names: Any, **how: Any) -> Any:
            answers.append(await plain(*names, **how))
            if len(answers) == 1:
                await raw.queue_delete(name)
            return answers[-1]

        monkeypatch.setattr(connection, "_ask", then_deleted)
        await connection._limit(name)
        monkeypatch.undo()
        lag = await connection.lag()

    assert len(answers) == 2
    assert lag is None


async def test_one_that_is_only_sent_to_is_not_read(name: str) -> None:
    sender: BrokerConnection
    async with connected(RabbitMQ(URL, routing_key=name)) as sender:
        assert await sender.lag() is None
        with pytest.raises(BrokerUnavailable, match="pass queue="):
            await sender.receive(1, WAIT)
