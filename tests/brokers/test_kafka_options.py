"""What a user may write for Kafka, and what is shown of it."""

import sys
from typing import Any

import pytest

from mainspring.brokers.kafka import Kafka
from mainspring.model.errors import BadOption, MissingExtra
from tests.brokers.bench import TOPIC


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"servers": ""}, "host:port"),
        ({"servers": []}, "host:port"),
        ({"servers": "kafka://user:hunter2@host:9092"}, "sasl.username"),
        ({"servers": "user:hunter2@host:9092"}, "sasl.username"),
        ({"topics": "orders"}, r"topics=\['orders'\]"),
        ({"topics": ["orders"]}, "group_id"),
        ({"topics": ["^orders.*"], "group_id": "billing"}, "letters"),
        ({"topic": ".."}, "letters"),
        ({"topic": {TOPIC: "orders/placed"}}, "letters"),
        ({"config": {"group.id": "billing"}}, "group_id"),
        ({"config": {"acks": 1}}, "replicas"),
        ({"config": {"enable.auto.commit": True}}, "acknowledged"),
        ({"config": {"allow.auto.create.topics": True}}, "declare=True"),
        ({"partitions": 0}, "partitions"),
        ({"replicas": -1}, "replicas"),
    ],
)
def test_options_that_cannot_work_are_refused_with_what_to_change(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(BadOption, match=advice) as caught:
        Kafka(**{"servers": "localhost:9092", **options})

    assert "hunter2" not in str(caught.value)


async def test_an_option_that_the_client_refuses_is_no_reason_to_try_again() -> None:
    with pytest.raises(BadOption, match=r"no\.such\.option"):
        await Kafka("localhost:9092", config={"no.such.option": 1}).connect()


async def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in ("kafka_client", "kafka_connection", "kafka_topics"):
        monkeypatch.delitem(sys.modules, f"mainspring.brokers.{name}", raising=False)

    with pytest.raises(MissingExtra, match=r"pip install 'mainspring\[kafka\]'"):
        await Kafka("localhost:9092").connect()


def test_it_says_what_it_reads_in_a_bounded_length() -> None:
    long = Kafka("a:1", topics=[f"orders-{number}" for number in range(100)], group_id="billing")
    other = Kafka("a:1", topics=[f"orders-{number}" for number in range(101)], group_id="billing")

    assert Kafka("a:1", topics=["b", "a"], group_id="billing").source == "kafka:billing:a,b"
    assert Kafka("a:1").source == ""
    assert len(long.source) == 190
    assert long.source != other.source


def test_it_shows_its_servers_and_no_password() -> None:
    broker = Kafka(["a:9092", "[::1]:9093"], config={"sasl.username": "shop", "sasl.password": "hunter2"})

    assert broker.shown == "kafka://a:9092,[::1]:9093"
    assert "hunter2" not in repr(broker)
