"""What is read for what: sources that conflict, and mistakes in their declaration."""

import pytest

from mainspring import Mainspring
from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams, Remote
from mainspring.brokers.contract import Broker
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import BadOption, Conflict
from tests.brokers.bench import TOPIC


@pytest.fixture
def quiet() -> Mainspring:
    return Mainspring("memory://", name="billing")


def test_a_source_is_read_for_one_consumer(quiet: Mainspring, queues: MemoryQueues) -> None:
    @quiet.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int]) -> None: ...

    with pytest.raises(Conflict, match=r"memory:orders is read by source= of bill already, so source= of audit"):

        @quiet.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
        async def audit(order: dict[str, int]) -> None: ...


def test_a_source_is_read_by_an_intake_or_for_a_consumer(quiet: Mainspring, queues: MemoryQueues) -> None:
    quiet.intake(MemoryBroker(queues, read="orders"))

    with pytest.raises(Conflict, match=r"memory:orders is read by app\.intake\(…\) already, so source= of bill would"):

        @quiet.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
        async def bill(order: dict[str, int]) -> None: ...


def test_two_intakes_of_one_source_conflict_and_the_way_to_tell_two_servers_apart_is_named(
    quiet: Mainspring, queues: MemoryQueues
) -> None:
    quiet.intake(MemoryBroker(queues, read="orders"))

    with pytest.raises(Conflict, match=r"if these are two servers, give one of them a name=, as in name='eu'"):
        quiet.intake(MemoryBroker(queues, read="orders"), {"orders": TOPIC})


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (
            Kafka("a:1", topics=["orders", "carts"], group_id="billing"),
            Kafka("a:1", topics=["orders"], group_id="billing"),
            "kafka:billing:orders",
        ),
        (
            RedisStreams(streams=["orders", "carts"], group="billing"),
            RedisStreams(streams=["carts", "parcels"], group="billing"),
            "redis:billing:carts",
        ),
    ],
)
def test_two_sources_that_share_a_topic_or_stream_conflict(
    quiet: Mainspring, one: Broker, other: Broker, shared: str
) -> None:
    quiet.intake(one)

    with pytest.raises(Conflict, match=f"{shared} is read by"):
        quiet.intake(other)


@pytest.mark.parametrize(
    ("broker", "advice"),
    [
        (
            RabbitMQ("amqp://localhost/", exchange="shop"),
            "RabbitMQ(…) names nothing to read: pass queue='billing'",
        ),
        (Kafka("localhost:9092", topic="orders"), "pass topics=['orders'] and group_id='billing'"),
        (RedisStreams("redis://localhost/0", stream="orders"), "pass streams=['orders'] and group='billing'"),
        (Nats("nats://localhost:4222", stream="orders"), "pass stream='orders' and durable='billing'"),
        (Remote("sqlite:///shop.db"), "pass group='billing' and topics=['orders.*']"),
    ],
)
def test_a_source_that_names_nothing_to_read_is_told_what_its_kind_needs(
    quiet: Mainspring, broker: Broker, advice: str
) -> None:
    with pytest.raises(BadOption) as raised:
        quiet.intake(broker)

    assert str(raised.value).endswith(advice)


def test_mistakes_are_named_where_they_are_made(quiet: Mainspring, queues: MemoryQueues) -> None:
    with pytest.raises(BadOption, match="names nothing to read"):
        quiet.intake(MemoryBroker(queues))
    with pytest.raises(BadOption, match=r"app\.intake\(…\) takes a broker"):
        quiet.intake("amqp://localhost")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="pass topics by address"):
        quiet.intake(MemoryBroker(queues, read="orders"), {})
