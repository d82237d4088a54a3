"""What Kafka does in its own way."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import confluent_kafka
import pytest

from mainspring.brokers.contract import SENT, BrokerConnection, Received
from mainspring.brokers.kafka import Kafka
from mainspring.brokers.link import Link
from mainspring.model.errors import BrokerUnavailable
from tests.brokers.bench import message, until
from tests.brokers.benches.kafka import REAL, KafkaBench, MockCluster

WAIT = 10.0
PRODUCE, OFFSET_COMMIT = 0, 8
MSG_SIZE_TOO_LARGE, REBALANCE_IN_PROGRESS, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED = 10, 27, 29, 30
UNKNOWN_SERVER_ERROR = -1
needs_mock = pytest.mark.skipif(REAL is not None, reason="a real Kafka fails when it likes")


@pytest.fixture
async def kafka() -> AsyncIterator[KafkaBench]:
    made = KafkaBench()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def mock(kafka: KafkaBench) -> MockCluster:
    assert kafka.mock is not None
    return kafka.mock


@pytest.fixture
async def sender(kafka: KafkaBench) -> AsyncIterator[BrokerConnection]:
    connection = await kafka.sends().connect()
    yield connection
    await connection.close()


@pytest.fixture
async def reader(kafka: KafkaBench) -> AsyncIterator[BrokerConnection]:
    connection = await kafka.reads().connect()
    yield connection
    await connection.close()


async def drained(reader: BrokerConnection, count: int) -> list[Received]:
    found: list[Received] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await reader.receive(count - len(found), WAIT)
    return found


async def receives_nothing(reader: BrokerConnection) -> bool:
    return await reader.receive(1, WAIT) != []


def bodies(found: list[Received]) -> list[bytes]:
    return [each.body for each in found]


async def test_the_wire_is_the_kafka_binding_of_cloudevents(kafka: KafkaBench, sender: BrokerConnection) -> None:
    await sender.send([message(headers={"ce_id": "7", "name": "Łódź"}, key="order:7")], WAIT)

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.servers, "group.id": f"{kafka.topic}-other", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([kafka.topic])
    found = await asyncio.to_thread(consumer.poll, WAIT)
    await asyncio.to_thread(consumer.close)

    assert found is not None
    assert found.key() == b"order:7"
    assert dict(found.headers() or ()) == {
        "ce_id": b"7",
        "name": "Łódź".encode(),
        "content-type": b"application/json",
    }


async def test_what_other_programs_write_is_read(kafka: KafkaBench, reader: BrokerConnection) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.servers})
    headers: list[tuple[str, str | bytes | None]] = [
        ("Content-Type", b"text/plain"),
        ("raw", b"\xff"),
        ("none", None),
        ("text", "é"),
    ]
    producer.produce(kafka.topic, None, b"\xff\x01", headers=headers)
    producer.produce(kafka.topic, b"bare")
    await asyncio.to_thread(producer.flush, WAIT)

    first, second = await drained(reader, 2)

    assert (first.body, first.content_type, first.key) == (b"", "text/plain", "\\xff\x01")
    assert first.headers == {"raw": b"\xff", "none": "", "text": "é"}
    assert (second.body, second.content_type, second.key, second.headers) == (b"bare", None, None, {})
    assert second.address == kafka.topic


async def test_coordinates_stay_over_redelivery_and_are_others_in_a_topic_made_again(kafka: KafkaBench) -> None:
    async def written(timestamp: int) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.servers})
        producer.produce(kafka.topic, b"bare", timestamp=timestamp)
        await asyncio.to_thread(producer.flush, WAIT)

    async def coordinates() -> str:
        reader = await kafka.reads().connect()
        (found,) = await drained(reader, 1)
        await reader.close()
        return found.coordinates

    await written(1_700_000_000_000)
    first, again = await coordinates(), await coordinates()
    await kafka.remove(kafka.topic)
    await kafka.create(kafka.topic)
    await written(1_700_000_000_001)
    other = await coordinates()

    assert first == again == f"{kafka.topic}/0/0/1700000000000"
    assert other == f"{kafka.topic}/0/0/1700000000001"


async def test_coordinates_in_a_topic_with_a_long_name_are_bounded(kafka: KafkaBench) -> None:
    long = f"{kafka.topic}-{'x' * 200}"
    await kafka.create(long)
    sender, reader = await kafka.to(long).connect(), await kafka.of(long).connect()

    await sender.send([message(0), message(1)], WAIT)
    found = await drained(reader, 2)
    for each in (sender, reader):
        await each.close()

    assert len({each.coordinates for each in found}) == 2
    assert max(len(each.coordinates) for each in found) <= 200


@needs_mock
async def test_a_batch_without_reports_is_later_at_its_deadline_and_the_connection_is_lost(
    mock: MockCluster, sender: BrokerConnection
) -> None:
    await sender.send([message(0)], WAIT)
    mock.is_silent = True

    async with asyncio.timeout(5):
        results = await sender.send([message(1), message(2)], 0.3)

    assert [each.status for each in results] == ["later"] * 2
    assert sender.closed


@needs_mock
async def test_messages_that_are_too_large_together_are_sent_alone(
    mock: MockCluster, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    mock.fail(PRODUCE, MSG_SIZE_TOO_LARGE, 0, MSG_SIZE_TOO_LARGE)

    first, second, third = await sender.send([message(number) for number in range(3)], WAIT)

    assert (first, third) == (SENT, SENT)
    assert second.status == "rejected"
    assert "too large" in second.reason
    assert bodies(await drained(reader, 2)) == [message(0).body, message(2).body]


@needs_mock
@pytest.mark.parametrize(
    ("error", "status"), [(TOPIC_AUTHORIZATION_FAILED, "rejected"), (UNKNOWN_SERVER_ERROR, "later")]
)
async def test_what_the_broker_says_decides_whether_a_message_is_sent_again(
    mock: MockCluster, sender: BrokerConnection, error: int, status: str
) -> None:
    mock.fail(PRODUCE, error)

    (result,) = await sender.send([message()], WAIT)

    assert result.status == status
    assert "roker" in result.reason
    assert await sender.send([message()], WAIT) == [SENT]


async def test_a_message_without_a_topic_of_kafka_is_rejected_alone(kafka: KafkaBench) -> None:
    connection = await kafka.sends().connect()

    sent, unmapped = await connection.send([message(), message()._replace(topic="orders.paid")], WAIT)
    await connection.close()

    assert sent == SENT
    assert (unmapped.status, "orders.paid" in unmapped.reason) == ("rejected", True)


async def test_a_topic_that_no_broker_can_have_is_rejected(kafka: KafkaBench) -> None:
    connection = await Kafka(kafka.servers, topic=lambda topic: f"{topic}/all").connect()

    (result,) = await connection.send([message()], WAIT)
    await connection.close()

    assert (result.status, "no name" in result.reason) == ("rejected", True)


async def test_batches_are_sent_at_the_same_time(sender: BrokerConnection, reader: BrokerConnection) -> None:
    batches = [[message(start + number) for number in range(50)] for start in (0, 50, 100)]

    results = await asyncio.gather(*(sender.send(batch, WAIT) for batch in batches))

    assert results == [[SENT] * 50] * 3
    assert len({*bodies(await drained(reader, 150))}) == 150


async def test_nothing_is_made_by_connecting_sending_or_receiving(kafka: KafkaBench) -> None:
    missing = f"{kafka.topic}-missing"
    sender, reader = await kafka.to(missing).connect(), await kafka.of(missing).connect()

    await sender.send([message()], WAIT)
    with pytest.raises(BrokerUnavailable, match=missing):
        await reader.receive(1, WAIT)
    wrong = await sender.check()
    for each in (sender, reader):
        await each.close()

    assert len(wrong) == 1
    assert missing in wrong[0]


async def test_a_topic_that_was_missing_is_sent_to_as_soon_as_it_is_there(kafka: KafkaBench) -> None:
    connection = await kafka.sends_nowhere().connect()
    before = await connection.send([message()], WAIT)
    await kafka.create(f"{kafka.topic}-nowhere")

    after = await connection.send([message()], WAIT)
    await connection.close()

    assert before[0].status == "rejected"
    assert after == [SENT]


async def test_a_missing_topic_that_is_declared_is_sent_to_later_by_the_next_connection(kafka: KafkaBench) -> None:
    broker = Kafka(kafka.servers, topic=f"{kafka.topic}-nowhere", config=kafka.config, declare=True)
    connection = await broker.connect()
    before = await connection.send([message()], WAIT)
    lost = connection.closed
    await connection.close()
    link = Link(broker)
    after = await link.send([message()])
    await link.close()

    assert (before[0].status, lost) == ("later", True)
    assert after == [SENT]


async def test_declared_topics_have_the_partitions_that_were_asked_for(kafka: KafkaBench) -> None:
    names = [f"{kafka.topic}-in", f"{kafka.topic}-out"]
    broker = Kafka(kafka.servers, topic=names[1], topics=names[:1], group_id=kafka.topic, partitions=3)
    connection = await broker.connect()

    made = await connection.declare()
    found = await kafka.partitions(*names)
    await connection.close()

    assert made == [f"topic {name}" for name in names]
    assert found == [3, 3]


async def test_an_acknowledgement_does_not_pass_what_was_received_before_it(
    kafka: KafkaBench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(number) for number in range(6)], WAIT)
    found = await drained(reader, 6)
    await reader.ack(found[2:4])
    lag_before = await reader.lag()
    await reader.ack([found[0]])
    lag_after = await reader.lag()
    await reader.close()

    again = await kafka.reads().connect()
    returned = await drained(again, 5)
    await again.close()

    assert (lag_before, lag_after) == (6, 5)
    assert bodies(returned) == bodies(found)[1:]


async def test_what_is_given_back_comes_again_with_all_that_followed_it(
    sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(number) for number in range(4)], WAIT)
    found = await drained(reader, 4)
    await reader.ack([found[0], found[3]])
    await reader.nack([found[1]])

    again = await drained(reader, 3)
    await reader.ack(again)

    assert bodies(again) == bodies(found)[1:]
    assert all(each.redelivered for each in again)
    assert await reader.lag() == 0


async def test_what_arrives_after_a_wait_was_cancelled_is_returned_by_the_next(
    sender: BrokerConnection, reader: BrokerConnection
) -> None:
    found = await reader.receive(1, 0.0)
    for number in range(10):
        waiting = asyncio.create_task(reader.receive(10, WAIT))
        sending = asyncio.create_task(sender.send([message(number)], WAIT))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting, sending])
        found += [] if waiting.cancelled() else waiting.result()

    found += await drained(reader, 10 - len(found))

    assert bodies(found) == [message(number).body for number in range(10)]


async def test_what_was_not_returned_yet_is_returned_once_after_what_is_given_back(
    sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(0)], WAIT)
    (first,) = await drained(reader, 1)
    sent = [message(0).body]
    while not reader._ready:  # type: ignore[attr-defined]
        waiting = asyncio.create_task(reader.receive(10, WAIT))
        await asyncio.sleep(0)
        waiting.cancel()  # it does not return, since nothing is ready
        await sender.send([message(len(sent))], WAIT)
        sent.append(message(len(sent)).body)
        await reader.ack([])

    await reader.nack([first])

    assert bodies(await drained(reader, len(sent))) == sent


async def test_members_of_a_group_share_partitions_and_a_late_acknowledgement_does_no_harm(
    kafka: KafkaBench,
) -> None:
    topic = f"{kafka.topic}-shared"
    await kafka.create(topic, 2)
    sender = await kafka.to(topic).connect()
    one, other = await kafka.of(topic).connect(), await kafka.of(topic).connect()
    await sender.send([message(number, key=str(number)) for number in range(40)], WAIT)
    held = await drained(one, 40)

    found: list[Received] = []

    async def both_read() -> bool:
        found.extend(await other.receive(40, 0.1))
        await one.receive(40, 0.1)
        return len(found) > 0

    await until(both_read)
    await one.ack(held)
    (moved,) = {each.coordinates.split("/")[1] for each in found}
    lag = await other.lag()
    await other.ack(found)
    for each in (sender, one, other):
        await each.close()

    assert {each.coordinates.split("/")[1] for each in held} == {"0", "1"}
    assert bodies(found) == [each.body for each in held if each.coordinates.split("/")[1] == moved]
    assert lag is not None
    assert lag >= len(found)


@needs_mock
async def test_a_commit_during_a_rebalance_is_made_up_for(
    mock: MockCluster, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(0)], WAIT)
    found = await drained(reader, 1)
    mock.fail(OFFSET_COMMIT, REBALANCE_IN_PROGRESS)
    await reader.ack(found)
    before = await reader.lag()

    await reader.receive(1, 0.0)

    assert (before, await reader.lag()) == (1, 0)


@needs_mock
async def test_a_commit_that_is_refused_raises_and_ends_the_connection(
    mock: MockCluster, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(0)], WAIT)
    found = await drained(reader, 1)
    mock.fail(OFFSET_COMMIT, GROUP_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerUnavailable, match="rights"):
        await reader.ack(found)

    assert reader.closed


@needs_mock
async def test_a_cluster_that_goes_away_ends_the_connection(mock: MockCluster, reader: BrokerConnection) -> None:
    await reader.receive(1, 0.1)
    await mock.shut()

    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1"):
        await until(partial(receives_nothing, reader))

    assert reader.closed
    assert await reader.lag() is None


@needs_mock
async def test_closing_ends_in_time_although_no_broker_responds(
    mock: MockCluster, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(0)], WAIT)
    await drained(reader, 1)
    mock.is_silent = True
    sending = asyncio.create_task(sender.send([message(1)], WAIT))
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await asyncio.gather(sender.close(), reader.close())

    assert [each.status for each in await sending] == ["later"]
