"""``app.brokers`` and ``mainspring brokers``: what there is, whether it responds, and what is missing."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import HealthLimits, Mainspring
from mainspring.brokers import Kafka
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.cli.commands import run
from tests.brokers.bench import until

SHOP = """
from mainspring import Mainspring
from mainspring.brokers.memory import MemoryBroker, MemoryQueues

queues = MemoryQueues({"billing": ["orders.placed"]})
away = MemoryQueues({})
away.fail("it was stopped")
app = Mainspring("memory://", name="shop")
app.route("orders.*", to=MemoryBroker(queues), group="broker")
app.intake(MemoryBroker(queues, read="missing"), {"missing": "invoices.paid"})
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "broker_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def app() -> Mainspring:
    queues, away = MemoryQueues({"billing": ["orders.placed"]}), MemoryQueues({})
    away.fail("it was stopped")
    app = Mainspring("memory://", name="shop")
    app.route("orders.*", to=MemoryBroker(queues), group="broker")
    app.route("parcels.*", to=MemoryBroker(away), group="away")
    app.intake(MemoryBroker(queues, read="billing"))
    app.intake(MemoryBroker(queues, read="missing"), {"missing": "invoices.paid"})
    return app


async def test_the_routes_and_intakes_of_the_code_are_listed(app: Mainspring) -> None:
    found = await app.brokers.list()

    assert [(each.name, each.direction, each.topics, each.group) for each in found] == [
        ("broker", "out", ("orders.*",), "broker"),
        ("away", "out", ("parcels.*",), "away"),
        ("memory:billing", "in", (), "intake:memory:billing"),
        ("memory:missing", "in", ("invoices.paid",), "intake:memory:missing"),
    ]
    assert {each.url for each in found} == {"memory://broker"}


async def test_each_is_checked_and_one_that_is_away_hides_no_other(app: Mainspring) -> None:
    found = {each.broker.name: each for each in await app.brokers.check()}

    assert (found["broker"].ok, found["broker"].lag) == (True, None)
    assert found["away"].problems == ("it was stopped",)
    assert (found["memory:billing"].ok, found["memory:billing"].lag) == (True, 0)
    assert found["memory:missing"].problems == ("there is no queue 'missing': declare=True makes it",)


async def test_an_option_that_a_client_refuses_is_a_problem_and_hides_no_other(app: Mainspring) -> None:
    app.route("bills.*", to=Kafka("127.0.0.1:1", config={"no.such.option": 1}), group="wrong")

    found = {each.broker.name: each for each in await app.brokers.check()}
    made = {each.broker.name: each for each in await app.brokers.declare()}

    assert found["wrong"].problems == ('Kafka(config=…): No such configuration property: "no.such.option"',)
    assert (found["broker"].ok, made["wrong"].error) == (True, found["wrong"].problems[0])


async def test_what_is_missing_is_made_once(app: Mainspring) -> None:
    first = {each.broker.name: each for each in await app.brokers.declare()}
    again = {each.broker.name: each for each in await app.brokers.declare()}

    assert (first["memory:missing"].made, again["memory:missing"].made) == (("queue missing",), ())
    assert first["away"].error == "it was stopped"
    assert (await app.brokers.check())[3].ok


def test_code_that_blocks_has_the_same(app: Mainspring) -> None:
    assert [each.name for each in app.sync.brokers.list()] == ["broker", "away", "memory:billing", "memory:missing"]
    assert [each.ok for each in app.sync.brokers.check()] == [True, False, True, False]


@pytest.mark.usefixtures("shop")
def test_the_commands_list_check_and_declare(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["brokers", "list", "broker_shop:app"]) == 0
    listed = capsys.readouterr().out
    assert run(["brokers", "check", "--url", "sqlite:///shop.db"]) == 2  # no code, so no brokers
    assert run(["brokers", "check", "broker_shop:app"]) == 1
    before = capsys.readouterr().out
    assert run(["brokers", "declare", "broker_shop:app"]) == 0
    made = capsys.readouterr().out
    assert run(["brokers", "check", "--app", "broker_shop:app", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)

    assert "broker" in listed
    assert "invoices.paid" in listed
    assert "there is no queue 'missing': declare=True makes it" in before
    assert "queue missing" in made
    assert [each["problems"] for each in after] == [[], []]


def test_an_app_without_brokers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain_shop.py").write_text("from mainspring import Mainspring\napp = Mainspring('memory://')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    assert run(["brokers", "list", "plain_shop:app"]) == 0

    assert capsys.readouterr().out == "No brokers: the app has no app.route(…), app.intake(…) or source=.\n"


async def test_metrics_count_what_was_sent_and_received_and_health_names_a_broker_that_is_away() -> None:
    queues, away = MemoryQueues({"billing": ["orders.placed"]}), MemoryQueues({})
    app = Mainspring("memory://", name="shop")
    app.route("orders.*", to=MemoryBroker(queues), group="broker")
    app.route("parcels.packed", to=MemoryBroker(away), group="away")
    app.intake(MemoryBroker(queues, read="billing"), {"billing": "copies.placed"})
    away.fail("it was stopped")

    async with app.worker():
        await app.publish("orders.placed", 1)
        await app.publish("orders.cancelled", 2)
        await app.publish("parcels.packed", 3)
        sent = 'mainspring_broker_events_total{broker="broker",event="sent"} 1.0'
        stored = 'mainspring_broker_events_total{broker="memory:billing",event="stored"} 1.0'

        async def are_counted() -> bool:
            text = await app.metrics()
            return sent in text and stored in text and 'broker_up{broker="away"} 0.0' in text

        await until(are_counted)
        text = await app.metrics()
        at_once = HealthLimits(broker_down=(timedelta(), timedelta(hours=1)))
        (found,) = [each for each in (await app.health(at_once)).checks if each.name == "brokers"]
        (patient,) = [each for each in (await app.health()).checks if each.name == "brokers"]
    async with app:
        after = await app.metrics()

    assert 'mainspring_broker_events_total{broker="broker",event="rejected"} 1.0' in text
    assert 'mainspring_broker_up{broker="broker"} 1.0' in text
    assert found.status == "degraded"
    assert found.summary.startswith("away has not been connected for 0s: it was stopped")
    assert patient.status == "healthy"
    assert sent in after, "counts stay when their worker has ended"
