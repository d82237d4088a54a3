"""Doctor on routes and intakes: what is missing, away or wrong, what no worker has, and what would send nothing."""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.app.observe.doctor import of_app
from mainspring.brokers import RabbitMQ
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.symptom import Symptom
from tests.brokers.bench import until


async def told(app: Mainspring) -> list[Symptom]:
    return [each for each in await of_app(app, "shop:app", "") if each.about == "brokers"]


def shop(path: Path) -> Mainspring:
    return Mainspring(f"sqlite:///{path}/shop.db", name="shop", auto_migrate=True)


async def test_an_app_without_brokers_hears_nothing_of_them(tmp_path: Path) -> None:
    app = shop(tmp_path)

    assert await told(app) == []


async def test_a_broker_that_is_away_and_a_queue_that_is_missing_are_errors_with_what_to_type(tmp_path: Path) -> None:
    away = MemoryQueues({})
    away.fail("amqp://ann:s3cr3t@host/ refused the connection")
    app = shop(tmp_path)
    app.route("parcels.*", to=MemoryBroker(away), group="away")
    app.consumer("parcels.packed")(repr)
    app.intake(MemoryBroker(MemoryQueues({}), read="missing"), {"missing": "invoices.paid"})

    lost, missing = await told(app)

    assert (lost.grade, lost.summary) == ("error", "away: amqp://…@host/ refused the connection")
    assert lost.advice == "mainspring brokers check shop:app"
    assert (missing.grade, missing.advice) == ("error", "mainspring brokers declare shop:app")
    assert missing.summary == "memory:missing: there is no queue 'missing': declare=True makes it"


async def test_a_missing_extra_is_named_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop(tmp_path)
    app.route("orders.*", to=RabbitMQ("amqp://localhost/", exchange="shop"), group="rabbit")
    app.route("parcels.*", to=MemoryBroker(MemoryQueues({})), group="memory")
    app.consumer("orders.placed", "parcels.packed")(repr)
    plain = builtins.__import__

    def without(name: str, globals: Mapping[str, object] | None = None, *rest: object, **more: object) -> object:
        if name in ("aiormq", "mainspring.brokers.rabbitmq_connection"):
            raise ModuleNotFoundError("No module named 'aiormq'", name="aiormq")
        return plain(name, globals, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    rabbit, memory = await told(app)

    assert (rabbit.grade, rabbit.advice) == ("error", "pip install 'mainspring[rabbitmq]'")
    assert (memory.grade, memory.summary.partition(" answered")[0]) == ("ok", "memory: memory://broker")


async def test_what_workers_are_connected_to_is_only_a_warning(tmp_path: Path) -> None:
    queues = MemoryQueues({"billing": ["orders.placed"]})
    app = shop(tmp_path)
    app.route("orders.placed", to=MemoryBroker(queues), group="broker")

    async with app.worker():
        await app.publish("orders.placed", 1)

        async def connected() -> bool:
            return any(each.condition == "connected" for each in await app.brokers.states())

        await until(connected)
        (fine,) = await told(app)
        queues.away = "no route to host"  # from here, whereas the worker's connection stands
        (found,) = await told(app)

    assert fine.grade == "ok"
    assert (found.grade, found.summary) == ("warning", "broker: no route to host")


async def test_one_that_no_worker_has_is_told_and_that_messages_wait(tmp_path: Path) -> None:
    queues = MemoryQueues({"billing": ["orders.placed"]})
    app = shop(tmp_path)
    app.route("orders.placed", to=MemoryBroker(queues), group="broker")
    app.intake(MemoryBroker(queues, read="billing"))
    async with app:
        await app.declare()
        await app.publish("orders.placed", 1)

    found = [each for each in await told(app) if each.grade != "ok"]

    assert [(each.grade, each.summary, each.advice) for each in found] == [
        ("warning", "broker: messages wait, since no live worker has it", "mainspring worker shop:app"),
        ("warning", "memory:billing: nothing is read, since no live worker has it", "mainspring worker shop:app"),
    ]


async def test_a_route_of_topics_that_nothing_names_and_nothing_was_sent_by_is_a_note(tmp_path: Path) -> None:
    app = shop(tmp_path)
    for topic in ("ordres.*", "orders.*", "parcels.*", "reports.#"):
        app.route(topic, to=MemoryBroker(MemoryQueues({})), group=topic.partition(".")[0])

    app.message("orders.placed")(Order)
    app.consumer("parcels.packed")(repr)
    app.recurring("0 9 * * *", topic="reports.daily.made")(report)

    (found,) = [each for each in await told(app) if each.grade == "note"]

    assert (
        found.summary == "ordres: it has sent nothing, and no message type, consumer or schedule has a topic ordres.*"
    )


@dataclass
class Order:
    """What is published on orders.placed."""

    number: int


async def report() -> None: ...
