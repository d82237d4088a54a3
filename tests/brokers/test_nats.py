"""What NATS JetStream does in its own way: headers, sending, receiving and checks."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, StreamConfig

from mainspring.brokers.contract import SENT, Addressing, BrokerConnection
from mainspring.brokers.nats import Nats
from mainspring.model.errors import BrokerUnavailable
from tests.brokers.bench import TOPIC, identity, message, until
from tests.brokers.benches.nats import URL, NatsBench, opened

WAIT = 10.0


@pytest.fixture
async def bench() -> AsyncIterator[NatsBench]:
    made = NatsBench()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def sender(bench: NatsBench) -> AsyncIterator[BrokerConnection]:
    async with opened(bench.sends()) as connection:
        yield connection


@pytest.fixture
async def reader(bench: NatsBench) -> AsyncIterator[BrokerConnection]:
    async with opened(bench.reads()) as connection:
        yield connection


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    connected = await nats.connect(URL)
    yield connected
    await connected.close()


# ---- headers


async def test_any_header_is_carried(sender: BrokerConnection, reader: BrokerConnection) -> None:
    headers = {
        "lines": "one\r\ntwo\nthree\x00\x1f",
        "blanks": "  inner blanks stay,  outer too ",
        "only-blanks": "   ",
        "empty": "",
        "percent": "100% of %41 and %zz",
        "letters": "žluťoučký 🐎",
        "no-break": "\u00a0x\u2028",
        "Mixed-Case": "Kept",
        "cloudEvents:id": "a name with a colon",
        "a name (with) blanks/slashes": "1",
        "100%": "2",
        "Status": "503",
    }

    assert await sender.send([message(headers=headers)], WAIT) == [SENT]
    (found,) = await reader.receive(1, WAIT)

    assert found.headers == headers


async def test_headers_are_plain_where_they_can_be(bench: NatsBench, sender: BrokerConnection, client: Client) -> None:
    await sender.send([message(7, headers={"ce-id": "7", "name": "a b", "city": "Łódź"})], WAIT)
    stored = await client.jetstream().get_msg(bench.name, seq=1)

    assert stored.headers == {
        "Nats-Msg-Id": f"{identity(7)}@{bench.name}.{TOPIC}",
        "content-type": "application/json",
        "ce-id": "7",
        "name": "a b",
        "city": "%C5%81%C3%B3d%C5%BA",
    }


async def test_what_others_send_is_read_as_it_is(bench: NatsBench, reader: BrokerConnection, client: Client) -> None:
    given = {"Content-Type": "text/plain", "sure": "100% %zz %FF %C5%81", "Nats-Expected-Stream": bench.name}
    await client.jetstream().publish(f"{bench.name}.a", b"bare")
    await client.jetstream().publish(f"{bench.name}.b", b"", headers=given)

    bare, full = await reader.receive(10, WAIT)

    assert (bare.body, bare.headers, bare.content_type, bare.message_id) == (b"bare", {}, None, None)
    assert bare.address == f"{bench.name}.a"
    assert (full.headers, full.content_type) == ({"sure": "100% %zz %FF Ł"}, "text/plain")


# ---- sending


async def test_the_id_is_that_of_the_message_and_a_repeat_is_stored_once(
    bench: NatsBench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    first = await sender.send([message(1), message(2)], WAIT)
    again = await sender.send([message(2), message(3)], WAIT)

    found = await reader.receive(10, WAIT)

    assert first == again == [SENT, SENT]
    assert [each.message_id for each in found] == [identity(1), identity(2), identity(3)]


async def test_a_message_is_stored_at_each_subject_of_a_stream_with_its_own_id(
    bench: NatsBench, reader: BrokerConnection
) -> None:
    subjects = [f"{bench.name}.billing", f"{bench.name}.100%41@žluťoučký"]
    for each in (*subjects, *subjects):
        async with opened(Nats(URL, subject=each)) as connection:
            assert await connection.send([message(7)], WAIT) == [SENT]

    found = [*await reader.receive(10, WAIT), *await reader.receive(10, 0.2)]

    assert [(each.address, each.message_id) for each in found] == [(each, identity(7)) for each in subjects]


async def test_an_id_that_others_gave_is_kept(bench: NatsBench, reader: BrokerConnection, client: Client) -> None:
    for given in ("7", "7@elsewhere", f"7@{bench.name}.a.b", f"7@{bench.name}.a"):
        await client.jetstream().publish(f"{bench.name}.a", b"", headers={"Nats-Msg-Id": given})

    found = await reader.receive(10, WAIT)

    assert [each.message_id for each in found] == ["7", "7@elsewhere", f"7@{bench.name}.a.b", "7"]


async def test_two_batches_at_once_are_each_confirmed(sender: BrokerConnection, reader: BrokerConnection) -> None:
    large = message(30, body=b"x" * 2_000_000)
    batches = [message(number) for number in range(10)], [*(message(number) for number in range(10, 20)), large]

    first, second = await asyncio.gather(*(sender.send(each, WAIT) for each in batches))

    assert first == [SENT] * 10
    assert [each.status for each in second] == ["sent"] * 10 + ["rejected"]
    assert len(await reader.receive(50, WAIT)) == 20


async def test_headers_count_for_the_largest_payload(bench: NatsBench, sender: BrokerConnection) -> None:
    large = message(1, body=b"x" * (bench.largest - 50))

    first, second, third = await sender.send([message(0), large, message(2)], WAIT)

    assert (first, third) == (SENT, SENT)
    assert second.status == "rejected"
    assert "exceed 1,048,576: raise max_payload there" in second.reason
    assert not sender.closed


async def test_the_largest_that_fits_is_sent(bench: NatsBench, sender: BrokerConnection) -> None:
    id = f"{identity(0)}@{bench.name}.{TOPIC}"
    headers = f"NATS/1.0\r\nNats-Msg-Id: {id}\r\ncontent-type: application/json\r\nce-id: {identity(0)}\r\n\r\n"
    fits = bench.largest - len(headers)

    results = await sender.send([message(body=b"x" * fits), message(body=b"x" * (fits + 1))], WAIT)

    assert [each.status for each in results] == ["sent", "rejected"]


@pytest.mark.parametrize(
    ("limits", "status", "words"),
    [
        (StreamConfig(max_msg_size=200), "rejected", "message size exceeds maximum allowed"),
        (StreamConfig(max_msgs=1, discard=DiscardPolicy.NEW), "later", "maximum messages exceeded"),
        (StreamConfig(max_bytes=400, discard=DiscardPolicy.NEW), "later", "maximum bytes exceeded"),
    ],
)
async def test_what_a_stream_refuses_says_why(
    bench: NatsBench, sender: BrokerConnection, client: Client, limits: StreamConfig, status: str, words: str
) -> None:
    await client.jetstream().update_stream(limits, name=bench.name, subjects=[f"{bench.name}.>"])

    first, second = await sender.send([message(0), message(1, body=b"x" * 300)], WAIT)

    assert first == SENT
    assert (second.status, second.reason) == (status, words)
    assert not sender.closed


async def test_a_stream_that_is_not_there_is_named_with_how_to_make_it() -> None:
    async with opened(Nats(URL, subject="nowhere.{topic}")) as connection:
        (result,) = await connection.send([message()], WAIT)

    assert result.status == "rejected"
    assert f"no stream at {URL.rpartition('/')[2]} takes subject 'nowhere.orders.placed'" in result.reason
    assert "declare=True" in result.reason
    assert "nats stream add NAME --subjects 'nowhere.orders.placed'" in result.reason


def _raises(topic: str) -> str:
    raise RuntimeError(f"no idea where {topic} goes")


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ({"other": "other"}, "has no subject for topic 'orders.placed'"),
        (_raises, "RuntimeError: no idea where orders.placed goes"),
        (lambda topic: "$JS.API.STREAM.PURGE." + topic, "no message can be sent to subject '$JS.API.STREAM.PURGE"),
        (lambda topic: None, "must be text, and is None"),
        (lambda topic: topic + ".*", "no message can be sent"),
        (lambda topic: topic + " x", "no message can be sent"),
        (lambda topic: topic + "." + "x" * 5_000, "no message can be sent"),
    ],
)
async def test_a_subject_that_cannot_be_is_rejected(subject: Addressing, reason: str) -> None:
    async with opened(Nats(URL, subject=subject)) as connection:
        (result,) = await connection.send([message()], WAIT)
        assert not connection.closed

    assert result.status == "rejected"
    assert reason in result.reason


async def test_an_answer_that_is_no_confirm_is_not_taken_for_one(client: Client, bench: NatsBench) -> None:
    async def answer(asked: Any) -> None:
        await asked.respond(b"{}")

    subscription = await client.subscribe(f"core-{bench.name}.*.*", cb=answer)
    await client.flush()

    async with opened(Nats(URL, subject=f"core-{bench.name}.{{topic}}")) as connection:
        (result,) = await connection.send([message()], WAIT)
    await subscription.unsubscribe()

    assert result.status == "later"


# ---- receiving


async def _patient(bench: NatsBench, client: Client) -> None:
    """Let the durable wait for a minute before it delivers again."""
    streams = client.jetstream()
    await streams.delete_consumer(bench.name, "billing")
    await streams.add_consumer(bench.name, durable_name="billing", ack_policy=AckPolicy.EXPLICIT, ack_wait=60)


async def test_what_a_closed_connection_held_is_delivered_at_once(
    bench: NatsBench, sender: BrokerConnection, reader: BrokerConnection, client: Client
) -> None:
    await _patient(bench, client)
    await sender.send([message(number) for number in range(6)], WAIT)
    found = await reader.receive(4, WAIT)
    await reader.ack(found[:1])
    await reader.close()

    async with opened(bench.reads()) as again:
        rest = [*await again.receive(10, WAIT), *await again.receive(10, 0.2)]

    assert sorted(each.body for each in rest) == sorted(message(number).body for number in range(1, 6))
    assert {each.message_id for each in rest if each.redelivered} == {identity(1), identity(2), identity(3)}


async def test_what_arrives_after_a_cancelled_wait_is_received_next(
    bench: NatsBench, sender: BrokerConnection, reader: BrokerConnection, client: Client
) -> None:
    await _patient(bench, client)
    waiting = asyncio.create_task(reader.receive(10, WAIT))
    await until(lambda: _pulls(client, bench))
    waiting.cancel()
    await asyncio.wait([waiting])
    await sender.send([message(1), message(2)], WAIT)

    found = await reader.receive(10, WAIT)
    found += await reader.receive(10, 0.2) if len(found) == 1 else []

    assert [each.body for each in found] == [message(1).body, message(2).body]


async def test_what_arrived_in_between_is_no_more_than_asked(
    bench: NatsBench, sender: BrokerConnection, reader: BrokerConnection, client: Client
) -> None:
    waiting = asyncio.create_task(reader.receive(10, WAIT))
    await until(lambda: _pulls(client, bench))
    waiting.cancel()
    await asyncio.wait([waiting])
    await sender.send([message(number) for number in range(5)], WAIT)

    sizes = [len(await reader.receive(2, WAIT)) for _ in range(2)]

    assert max(sizes) <= 2


async def test_what_arrived_is_not_received_from_a_closed_connection(
    bench: NatsBench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(number) for number in range(3)], WAIT)
    reading = asyncio.create_task(reader.receive(3, WAIT))
    while not reader._arrived and not reading.done():  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await reader.close()

    with pytest.raises(BrokerUnavailable):
        await reader.receive(1, WAIT)


async def test_every_acknowledged_message_is_forgotten(
    bench: NatsBench, sender: BrokerConnection, reader: BrokerConnection, client: Client
) -> None:
    await sender.send([message(number) for number in range(20)], WAIT)
    found = await reader.receive(20, WAIT)
    await reader.ack(found[:15])
    info = await client.jetstream().consumer_info(bench.name, "billing")

    assert len(found) == 20
    assert info.num_ack_pending == 5


async def test_coordinates_stay_over_redelivery_and_are_others_in_a_stream_made_again(
    bench: NatsBench, sender: BrokerConnection, client: Client
) -> None:
    async def coordinates() -> str:
        async with opened(bench.reads()) as reader:
            (found,) = await reader.receive(1, WAIT)
        return found.coordinates

    await sender.send([message()], WAIT)
    first, again = await coordinates(), await coordinates()
    stored = await client.jetstream().get_msg(bench.name, seq=1)
    await client.jetstream().delete_stream(bench.name)
    await bench.open()
    await sender.send([message()], WAIT)
    other = await coordinates()

    assert stored.time is not None
    name, sequence, nanoseconds = first.split("/")
    assert (name, sequence) == (bench.name, "1")
    assert abs(int(nanoseconds) / 1e9 - stored.time.timestamp()) < 0.001
    assert again == first
    assert other.startswith(f"{bench.name}/1/")
    assert other != first


async def _pulls(client: Client, bench: NatsBench) -> bool:
    return bool((await client.jetstream().consumer_info(bench.name, "billing")).num_waiting)


async def test_two_readers_share_a_durable(bench: NatsBench, sender: BrokerConnection) -> None:
    found: list[bytes] = []

    async def read() -> None:
        async with opened(bench.reads()) as reader:
            while len(found) < 400:
                batch = await reader.receive(10, 0.3)
                await reader.ack(batch)
                found.extend(each.body for each in batch)

    readers = [asyncio.create_task(read()) for _ in range(2)]
    for start in range(0, 400, 50):
        await sender.send([message(start + number) for number in range(50)], WAIT)
    await asyncio.gather(*readers)

    assert sorted(found) == sorted(message(number).body for number in range(400))


async def test_a_durable_that_is_gone_is_named(bench: NatsBench, reader: BrokerConnection, client: Client) -> None:
    assert await reader.receive(1, 0.1) == []
    await client.jetstream().delete_consumer(bench.name, "billing")

    with pytest.raises(BrokerUnavailable, match=r"durable .*/billing cannot be read at 127.*declare=True"):
        await reader.receive(1, 0.2)


# ---- checks


@pytest.mark.parametrize(
    ("stream", "consumer", "words"),
    [
        ({"max_msgs": 5}, {}, "drops its oldest messages, read or not, beyond max_msgs"),
        ({"no_ack": True}, {}, "confirms nothing"),
        ({}, {"max_deliver": 3}, "drops a message silently after 3 deliveries: set max_deliver to -1"),
        ({}, {"ack_policy": AckPolicy.ALL}, "has ack policy 'all'"),
        ({}, {"deliver_subject": "pushed"}, "pushes to 'pushed'"),
    ],
)
async def test_what_would_lose_messages_is_named(
    bench: NatsBench, client: Client, stream: dict[str, Any], consumer: dict[str, Any], words: str
) -> None:
    streams = client.jetstream()
    await streams.delete_consumer(bench.name, "billing")
    await streams.update_stream(StreamConfig(name=bench.name, subjects=[f"{bench.name}.>"]).evolve(**stream))
    await streams.add_consumer(bench.name, ConsumerConfig(durable_name="billing").evolve(**consumer))

    async with opened(bench.reads()) as reader:
        (wrong,) = await reader.check()

    assert bench.name in wrong
    assert words in wrong


async def test_a_subject_that_no_stream_takes_is_named_before_anything_is_sent(bench: NatsBench) -> None:
    taken, not_taken = f"{bench.name}.a", f"other-{bench.name}.a"
    async with opened(Nats(URL, subject={"a": taken, "b": not_taken})) as connection:
        (mapped,) = await connection.check()
    async with opened(Nats(URL, stream=bench.name, subjects=[not_taken])) as connection:
        (declared,) = await connection.check()

    assert f"takes subject '{not_taken}'" in mapped
    assert f"does not take {not_taken}" in declared


async def test_a_declared_durable_never_gives_up(bench: NatsBench, client: Client) -> None:
    broker = Nats(URL, stream=bench.missing, subjects=[f"{bench.missing}.>"], durable="d", ack_wait="7s", declare=True)
    async with opened(broker) as connection:
        made = await connection.declare()
        wrong = await connection.check()
    info = await client.jetstream().consumer_info(bench.missing, "d")

    assert made == [f"stream {bench.missing}", f"durable {bench.missing}/d"]
    assert wrong == []
    assert (info.config.max_deliver, info.config.ack_wait, info.config.ack_policy) == (-1, 7, "explicit")
