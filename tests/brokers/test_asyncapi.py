"""``app.brokers.asyncapi()`` and ``mainspring asyncapi``: the document is valid, and says what is sent and read."""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict
from uuid import UUID

import jsonschema_rs
import msgspec
import pytest
from pydantic import BaseModel

from mainspring import Mainspring, MsgpackCodec
from mainspring.brokers import Kafka, Nats, RabbitMQ, RedisStreams, Remote
from mainspring.brokers.contract import Broker
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.brokers.wire import FORMATS, Outbound, WireFormat, write
from mainspring.cli.commands import run
from tests.services import asyncapi
from tests.services.needs import need

SECRET = "s3cr3t"
RABBITMQ = f"amqp://shop:{SECRET}@rabbit.example:5673/prod"


class Placed(msgspec.Struct):
    """An order was placed.

    It is not paid yet.
    """

    order_id: int
    size: tuple[int, str] = (1, "L")


@dataclass
class Paid:
    order_id: int
    lines: list[Placed]


class Shipped(TypedDict):
    parcel: str


class Weighed(BaseModel):
    """A parcel was weighed."""

    grams: int


class Opaque:
    """Only its codec knows what is in it."""


class OpaqueCodec:
    content_type = "application/x-opaque"

    def encode(self, value: object) -> bytes:
        return repr(value).encode()

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        return lambda payload: (annotation, payload)


def shop() -> Mainspring:
    """An app without brokers, with a message type of each kind."""
    app = Mainspring("memory://", name="shop", version=7, codecs=[MsgpackCodec(), OpaqueCodec()])
    app.message("orders.placed", version=2)(Placed)
    app.message("orders.paid")(Paid)
    app.message("parcels.shipped")(Shipped)
    app.message("parcels.weighed", codec="application/msgpack")(Weighed)
    app.message("parcels.lost", codec="application/x-opaque")(Opaque)
    app.message("stock.level")(int)
    return app


def everything() -> Mainspring:
    """An app with all brokers, formats, ways to name an address, and what stays inside."""
    app = shop()
    queues = MemoryQueues({"billing": []})
    app.route("orders.*", to=RabbitMQ(RABBITMQ, exchange="shop", routing_key="shop.{topic}", declare=True))
    app.route("orders.placed", "refunds.*.*", to=RabbitMQ(f"amqps://x:{SECRET}@rabbit.example"), format="masstransit")
    app.route("parcels.#", to=Kafka("a.example:9092,b.example:9092", topic="parcels", partitions=3), format="cap")
    app.route("orders.*", "parcels.*", to=RedisStreams(f"redis://:{SECRET}@redis.example/3", stream={
        "orders.placed": "orders", "orders.paid": "orders", "parcels.shipped": "parcels",
    }), format="structured")  # fmt: skip
    app.route(
        "parcels.*", "odd.{topic}", to=Nats(f"nats://{SECRET}@nats.example:4222", subject=lambda topic: f"x.{topic}")
    )
    app.route("stock.level", to=Remote(f"postgresql://me:{SECRET}@db.example/billing?password={SECRET}"))
    app.route("stock.level", to=MemoryBroker(queues))
    app.intake(RabbitMQ(RABBITMQ, queue="incoming"))
    config = {"security.protocol": "SASL_SSL", "sasl.username": "shop", "sasl.password": SECRET}
    kafka = Kafka("a.example:9092", topics=["payments", "returns"], group_id="shop", config=config)
    app.intake(kafka, {"payments": "payments.received", "com.example.Returned": "parcels.shipped"})
    app.intake(
        Nats("tls://nats.example", stream="S", subjects=["a.*.b", "c.>", "d"], durable="shop"), {"d": "stock.level"}
    )
    app.intake(Nats("nats://nats.example:4222", stream="ALL", durable="shop"), {"d": "stock.level"})
    redis = RedisStreams(f"unix:///run/redis.sock?db=2&password={SECRET}", streams=["carts"], group="shop")

    @app.consumer("carts.left", source=redis)
    async def remind(cart: dict[str, Any]) -> None:
        """Remind a customer."""

    @app.consumer("orders.#", "stock.level")
    async def audit(event: dict[str, Any]) -> None: ...

    @app.consumer("weird-~name{x}.ü")
    def plain(data: bytes) -> None: ...

    app.queue("packing", "orders.paid")
    return app


def only_inside() -> Mainspring:
    app = shop()

    @app.consumer("orders.*")
    async def count(event: Any) -> None: ...

    return app


def nothing() -> Mainspring:
    return Mainspring("memory://", name="nothing")


async def described(app: Mainspring) -> dict[str, Any]:
    return await app.brokers.asyncapi()


def small() -> Mainspring:
    app = Mainspring("memory://", name="small")
    app.route("orders.*", to=Kafka("a.example:9092", partitions=3))
    return app


async def test_every_document_is_valid_and_a_broken_one_is_not() -> None:
    need(asyncapi.is_there(), "the validator of AsyncAPI", "make services")
    apps = {"everything": everything, "inside": only_inside, "types": shop, "small": small, "nothing": nothing}
    documents = {name: await described(make()) for name, make in apps.items()}
    stray, unnamed, unbound = (copy.deepcopy(documents["small"]) for _ in range(3))
    stray["operations"]["send.kafka.orders.word"]["channel"] = {"$ref": "#/channels/kafka.elsewhere"}
    unnamed["channels"]["kafka.orders.word"]["parameters"] = {}
    unbound["channels"]["kafka.orders.word"]["bindings"]["kafka"]["partitions"] = "three"

    found = asyncapi.faults({**documents, "stray": stray, "unnamed": unnamed, "unbound": unbound})

    assert {name: found[name] for name in documents} == {name: [] for name in documents}
    assert [name for name, faults in found.items() if faults] == ["stray", "unnamed", "unbound"]


def test_the_documents_of_the_example_are_valid() -> None:
    need(asyncapi.is_there(), "the validator of AsyncAPI", "make services")
    folder = Path(__file__).parents[2] / "examples" / "two_services"
    command = (sys.executable, "-m", "mainspring", "asyncapi")
    documents = {
        name: json.loads(subprocess.check_output([*command, f"services.{name}:app"], cwd=folder, timeout=60))
        for name in ("orders", "billing")
    }

    found = asyncapi.faults(documents)

    assert found == {"orders": [], "billing": []}
    assert list(documents["orders"]["operations"]) == ["send.rabbitmq.shop.events.orders.word"]
    assert list(documents["billing"]["channels"]) == ["rabbitmq.billing.orders"]


async def test_servers_are_named_by_host_and_path_and_no_password_is_in_the_document() -> None:
    document = await described(everything())

    servers = document["servers"].items()
    assert SECRET not in json.dumps(document)
    assert {name: (each["host"], each["protocol"], each.get("pathname")) for name, each in servers} == {
        "database": ("shop", "mainspring", None),
        "kafka": ("a.example:9092,b.example:9092", "kafka", None),
        "kafka-2": ("a.example:9092", "kafka-secure", None),
        "mainspring": ("db.example", "mainspring", "/billing"),
        "memory": ("broker", "memory", None),
        "nats": ("nats.example:4222", "nats", None),
        "nats-2": ("nats.example:4222", "nats", None),
        "rabbitmq": ("rabbit.example:5673", "amqp", "/prod"),
        "rabbitmq-2": ("rabbit.example:5671", "amqps", "/"),
        "redis-2": ("localhost", "redis", "/run/redis.sock?db=2"),
        "redis": ("redis.example:6379", "redis", "/3"),
    }  # fmt: skip


async def test_each_channel_has_the_address_and_the_messages_of_its_broker() -> None:
    document = await described(everything())

    channels = document["channels"].items()
    assert {name: (each["address"], sorted(each["messages"])) for name, each in channels} == {
        "rabbitmq.shop.shop.orders.word": ("shop.orders.{word}", ["orders.paid", "orders.placed"]),
        "rabbitmq.incoming": ("incoming", ["orders.paid", "orders.placed", "stock.level", "weird--name-x-."]),
        "rabbitmq-2.orders.placed": ("orders.placed", ["orders.placed"]),
        "rabbitmq-2.refunds.word.word": ("refunds.{word1}.{word2}", ["refunds.word.word"]),
        "kafka.parcels": ("parcels", ["parcels.lost", "parcels.shipped", "parcels.weighed"]),
        "kafka-2.payments": ("payments", ["payments.received"]),
        "kafka-2.returns": ("returns", ["parcels.shipped", "payments.received"]),
        "redis.orders": ("orders", ["orders.paid", "orders.placed"]),
        "redis.parcels": ("parcels", ["parcels.shipped"]),
        "redis-2.carts": ("carts", ["carts.left"]),
        "nats.x.parcels.lost": ("x.parcels.lost", ["parcels.lost"]),
        "nats.x.parcels.shipped": ("x.parcels.shipped", ["parcels.shipped"]),
        "nats.x.parcels.weighed": ("x.parcels.weighed", ["parcels.weighed"]),
        "nats.x.odd.-topic": (None, ["odd.-topic"]),
        "nats-2.a.word.b": ("a.{word}.b", ["stock.level"]),
        "nats-2.c.rest": ("c.{rest}", ["stock.level"]),
        "nats-2.d": ("d", ["stock.level"]),
        "nats.ALL.shop": (None, ["stock.level"]),
        "mainspring.stock.level": ("stock.level", ["stock.level"]),
        "memory.stock.level": ("stock.level", ["stock.level"]),
        "database.orders.paid": ("orders.paid", ["orders.paid"]),
        "database.orders.rest": ("orders.{rest}", ["orders.paid", "orders.placed"]),
        "database.stock.level": ("stock.level", ["stock.level"]),
        "database.weird--name-x-.": (None, ["weird--name-x-."]),
    }
    for each in document["channels"].values():
        assert set(re.findall(r"{(\w+)}", each["address"] or "")) == set(each.get("parameters", {}))


async def test_what_a_function_decides_has_a_channel_without_an_address() -> None:
    app = Mainspring("memory://", name="{odd} name")
    app.route("orders.*", to=Kafka("b.example:9092", topic=lambda topic: {"orders.lost": "lost"}[topic]))
    app.consumer("parcels.*.#", group="parcels")(lambda parcel: None)

    document = await described(app)

    assert {name: each["address"] for name, each in document["channels"].items()} == {
        "kafka.orders.word": None,
        "database.parcels.word.rest": "parcels.{word}.{rest}",
    }
    assert document["servers"]["database"]["host"] == "odd-name"
    assert "bindings" not in document["channels"]["kafka.orders.word"]


async def test_another_database_is_read_by_the_topics_of_its_group() -> None:
    app = Mainspring("memory://", name="shop")
    app.intake(Remote("sqlite:///billing.db", group="shop", topics=["bills.*", "refunds.made"]))
    app.intake(Remote("sqlite:///stock.db", group="shop-stock"))

    channels = (await app.brokers.asyncapi())["channels"]

    read = {name: each["address"] for name, each in channels.items() if name.startswith("mainspring")}
    assert read == {
        "mainspring.bills.word": "bills.{word}",
        "mainspring.refunds.made": "refunds.made",
        "mainspring-2.shop-stock": None,
    }


async def test_operations_name_who_sends_and_who_receives() -> None:
    document = await described(everything())

    operations = document["operations"]
    assert {(each["action"], each["tags"][0]["name"], each["title"]) for each in operations.values()} == {
        ("send", "route", "rabbitmq:orders.*"),
        ("send", "route", "rabbitmq:orders.placed+refunds.*.*"),
        ("send", "route", "kafka:parcels.#"),
        ("send", "route", "redis:orders.*+parcels.*"),
        ("send", "route", "nats:parcels.*+odd.-topic-"),
        ("send", "route", "mainspring:stock.level"),
        ("send", "route", "memory:stock.level"),
        ("receive", "intake", "rabbitmq:incoming"),
        ("receive", "intake", "kafka:shop:payments,returns"),
        ("receive", "intake", "nats:S:shop"),
        ("receive", "intake", "nats:ALL:shop"),
        ("receive", "intake", "redis:shop:carts"),
        ("receive", "consumer", "audit"),
        ("receive", "consumer", "plain"),
        ("receive", "queue", "packing"),
    }
    assert operations["receive.redis-2.carts"]["summary"] == "Remind a customer."
    assert operations["receive.kafka-2.payments"]["bindings"]["kafka"]["groupId"]["enum"] == ["shop"]
    assert operations["send.rabbitmq-2.orders.placed"]["bindings"]["amqp"]["deliveryMode"] == 2


async def test_a_message_has_the_type_of_its_topic_with_its_content_type_and_words() -> None:
    document = await described(shop())

    found = {name: each["messages"][name.removeprefix("database.")] for name, each in document["channels"].items()}
    assert document["info"] == {"title": "shop", "version": "7"}
    assert found["database.orders.placed"] == {
        "name": "orders.placed",
        "title": "Placed",
        "contentType": "application/json; version=2",
        "summary": "An order was placed.",
        "description": "An order was placed.\n\nIt is not paid yet.",
        "payload": {"$ref": "#/components/schemas/Placed"},
    }
    assert found["database.orders.paid"].keys() == {"name", "title", "contentType", "payload"}
    assert found["database.parcels.weighed"]["contentType"] == "application/msgpack"
    assert found["database.parcels.weighed"]["summary"] == "A parcel was weighed."
    assert found["database.parcels.lost"]["payload"] == {"title": "Opaque"}
    assert found["database.stock.level"]["payload"] == {"type": "integer"}
    assert "operations" not in document


@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("broker", [RabbitMQ("amqp://localhost", exchange="shop"), Kafka("localhost:9092")])
async def test_what_is_sent_is_what_the_document_says(how: WireFormat, broker: Broker) -> None:
    app = shop()
    app.route("orders.placed", to=broker, format=how)
    document = await described(app)
    (channel,) = (each for name, each in document["channels"].items() if not name.startswith("database"))
    message = channel["messages"]["orders.placed"]
    id, at = UUID(int=7), datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
    headers = {"traceparent": "00-1-2-01", "tenant": "acme"}
    body = msgspec.json.encode(Placed(7))

    sent = write(
        Outbound(id, "orders.placed", body, message["contentType"], headers, "order:7", "cart", id, at), "shop", how,
        broker.prefix,
    )  # fmt: skip

    values = {"header": dict(sent.headers), "payload": msgspec.json.decode(sent.body)}
    where, _, pointer = message["correlationId"]["location"].removeprefix("$message.").partition("#/")
    own = set(sent.headers) - {"tenant"}
    assert fits(document, message["headers"], values["header"])
    assert fits(document, message["payload"], values["payload"])
    assert values[where][pointer] == "cart"
    assert own <= set(properties(document, message["headers"]))
    if how == "structured":
        assert not fits(document, message["payload"], values["payload"] | {"data": {"order_id": "7"}})
    else:
        assert not fits(document, message["payload"], {"order_id": "7"})
        assert not fits(document, message["headers"], values["header"] | other_topic(how, broker))


def fits(document: dict[str, Any], schema: dict[str, Any], value: object) -> bool:
    return jsonschema_rs.Draft7Validator({**document, "allOf": [schema]}).is_valid(value)


def properties(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The properties of a schema that is a reference, or has one in an ``allOf``."""
    schema = schema.get("allOf", [schema])[0]
    found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
    return found


def other_topic(how: WireFormat, broker: Broker) -> dict[str, str]:
    name = {"cloudevents": f"{broker.prefix}type", "masstransit": "MT-MessageType", "cap": "cap-msg-name"}[how]
    return {name: "orders.lost"}


async def test_the_order_of_registration_changes_nothing() -> None:
    def made(*, backwards: bool) -> Mainspring:
        app = Mainspring("memory://", name="shop")
        steps: list[Callable[[], object]] = [
            lambda: app.message("orders.placed")(Placed),
            lambda: app.message("orders.paid")(Paid),
            lambda: app.route("orders.*", to=Kafka("a.example:9092")),
            lambda: app.route("orders.paid", to=Kafka("b.example:9092")),
            lambda: app.intake(Kafka("c.example:9092", topics=["x", "y"], group_id="shop")),
            lambda: app.consumer("orders.#", group="first")(lambda order: None),
            lambda: app.consumer("orders.placed", group="second")(lambda order: None),
        ]
        for step in reversed(steps) if backwards else steps:
            step()
        return app

    documents = [await described(made(backwards=each)) for each in (False, True)]

    assert json.dumps(documents[0]) == json.dumps(documents[1])


def test_the_command_prints_the_document_and_says_when_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "from tests.brokers.test_asyncapi import everything, nothing\napp = everything()\nempty = nothing()\n"
    (tmp_path / "described_shop.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    assert run(["asyncapi", "described_shop:app"]) == 0
    printed = capsys.readouterr()
    assert run(["asyncapi", "described_shop:empty"]) == 0
    empty = capsys.readouterr()
    assert run(["asyncapi", "sqlite:///shop.db"]) == 2

    assert json.loads(printed.out) == everything().sync.brokers.asyncapi()
    assert printed.err == ""
    assert json.loads(empty.out) == {"asyncapi": "3.0.0", "info": {"title": "nothing", "version": "0"}}
    assert empty.err.startswith("The document is empty: the app has no consumers")
    assert "a URL names a database, not an app" in capsys.readouterr().err
