"""The state of brokers as other processes see it: what workers report with their beats, and what waits."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import BrokerState, HealthLimits, Mainspring
from mainspring.app.broker import state
from mainspring.brokers.contract import BrokerConnection, Received
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.cli.commands import run
from mainspring.model.views import BrokerLink, Counts, GroupView, Roster, Tally, WorkerView
from tests.brokers.bench import until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROUTE = GroupView(
    "rabbitmq:orders.*", "shop", ("orders.*",), "the route", {"to": "amqp://…@host/", "broker": "rabbitmq"}, NOON, NOON
)
CONSUMER = GroupView("mailer", "shop", ("orders.placed",), "mailer", {"retry": "messages"}, NOON, NOON)


class Slow(MemoryBroker):
    """A queue in which a few always wait."""

    async def connect(self) -> BrokerConnection:
        connection = await super().connect()

        async def lag() -> int:
            return 12_345

        connection.lag = lag  # type: ignore[method-assign]
        return connection


def shop(url: str, queues: MemoryQueues, away: MemoryQueues) -> Mainspring:
    app = Mainspring(url, name="shop")
    app.route("orders.*", to=MemoryBroker(queues), group="broker")
    app.route("parcels.packed", to=MemoryBroker(away), group="away")
    app.intake(Slow(queues, read="billing"), {"billing": "copies.placed"})
    return app


def worker(name: str, *links: BrokerLink, app: str = "shop", beat_at: datetime = NOON) -> WorkerView:
    groups = ("rabbitmq:orders.*",)
    return WorkerView(name, app, "host", 1, groups, 0, "poll", NOON, beat_at, links=links)


def stated(*workers: WorkerView, groups: tuple[GroupView, ...] = (ROUTE,)) -> BrokerState:
    counts = Counts("rabbitmq:orders.*", ready=7, dead=2, oldest_ready_at=NOON)
    (found,) = state.states([], Roster(NOON, groups, workers), Tally(NOON, (counts,), 0, 0))
    return found


async def test_another_process_sees_the_connections_of_a_worker(tmp_path: Path) -> None:
    queues, away = MemoryQueues({"billing": ["orders.placed"]}), MemoryQueues({})
    app = shop(f"sqlite:///{tmp_path}/shop.db", queues, away)
    away.fail("amqp://ann:s3cr3t@host/ was stopped")
    bare = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="cli")

    async with app.worker():
        await app.publish("orders.placed", 1)
        await app.publish("orders.cancelled", 2)
        await app.publish("parcels.packed", 3)
        async with bare:

            async def all_known() -> bool:
                found = {each.name: each for each in await bare.brokers.states()}
                stored = found["memory:billing"].counts.get("stored") if "memory:billing" in found else None
                return stored == 1 and found["memory:billing"].lag is not None and found["away"].error is not None

            await until(all_known)
            found = {each.name: each for each in await bare.brokers.states()}
    async with bare:
        after = {each.name: each for each in await bare.brokers.states()}

    broker, lost, read = found["broker"], found["away"], found["memory:billing"]
    assert (broker.condition, broker.workers, broker.connected) == ("connected", 1, 1)
    assert (broker.kind, broker.url, broker.topics) == ("memory", "memory://broker", ("orders.*",))
    assert (broker.counts["sent"], broker.counts["rejected"], broker.dead) == (1, 1, 1)
    assert (lost.condition, lost.connected, lost.error) == ("down", 0, "amqp://…@host/ was stopped")
    assert lost.down_since is not None
    assert (read.condition, read.direction, read.lag) == ("connected", "in", 12_345)
    assert (read.topics, read.group) == (("copies.placed",), "intake:memory:billing")
    assert {each.condition for each in after.values()} == {"unserved"}


async def test_a_worker_without_brokers_reports_nothing_of_them() -> None:
    app = Mainspring("memory://", name="shop")

    @app.consumer("orders.placed")
    async def mailer(order: int) -> None: ...

    async with app.worker():

        async def reported() -> bool:
            return bool((await app.stats.roster()).workers)

        await until(reported)
        (found,) = (await app.stats.roster()).workers
        states = await app.brokers.states()

    assert found.links == ()
    assert states == []


async def test_a_route_and_an_intake_of_one_name_are_told_apart() -> None:
    queues = MemoryQueues({"orders": ["orders"]})
    app = Mainspring("memory://", name="shop")
    app.route("orders", to=MemoryBroker(queues))
    app.intake(MemoryBroker(queues, read="orders"), {"orders": "copies"})

    async with app.worker():
        await app.publish("orders", 1)

        async def counted() -> bool:
            return [sorted(each.counts) for each in await app.brokers.states()] == [["sent"], ["received", "stored"]]

        await until(counted)
        out, back = await app.brokers.states()
        text = await app.metrics()

    assert (out.name, out.direction, back.name, back.direction) == ("memory:orders", "out", "memory:orders", "in")
    assert 'mainspring_broker_events_total{broker="memory:orders",event="sent"} 1.0' in text
    assert 'mainspring_broker_events_total{broker="memory:orders",event="stored"} 1.0' in text


async def test_metrics_and_health_tell_how_much_waits_in_a_broker() -> None:
    queues = MemoryQueues({"billing": []})
    app = Mainspring("memory://", name="shop")
    app.intake(Slow(queues, read="billing"), {"billing": "copies.placed"})

    async with app.worker():

        async def asked() -> bool:
            return 'mainspring_broker_lag{broker="memory:billing"} 12345.0' in await app.metrics()

        await until(asked)
        found = {
            limits: next(
                each for each in (await app.health(HealthLimits(broker_lag=limits))).checks if each.name == "brokers"
            )
            for limits in ((20_000, 100_000), (10_000, 100_000), (1_000, 12_344), (1_000, None))
        }

    summary = "12,345 messages wait in the broker for memory:billing"
    assert [each.status for each in found.values()] == ["healthy", "degraded", "unhealthy", "degraded"]
    assert found[20_000, 100_000].summary == "1 of 1 connected, or not used yet"
    assert found[10_000, 100_000].summary == summary
    assert found[10_000, 100_000].data == {"memory:billing": 12_345}


async def test_how_much_waits_is_asked_while_nothing_comes_and_the_intake_waits() -> None:
    asked: list[bool] = []
    queues = MemoryQueues({"billing": []})

    class Noting(MemoryBroker):
        async def connect(self) -> BrokerConnection:
            connection = await super().connect()

            async def lag() -> int:
                asked.append(bool(queues.waiters))
                return 0

            connection.lag = lag  # type: ignore[method-assign]
            return connection

    app = Mainspring("memory://", name="shop")
    app.intake(Noting(queues, read="billing"), {"billing": "copies.placed"})

    async with app.worker():
        await until(lambda: bool(asked))
        queues.put("billing", Received(b"1", {"ce-id": "1"}, "application/json", "", ""))
        await until(lambda: not queues.waiting["billing"])

    assert asked[0], "the intake was waiting for a message"


def test_the_oldest_outage_of_live_workers_is_told() -> None:
    up = BrokerLink(ROUTE.name, "out", connected=True, counts={"sent": 5})
    first = BrokerLink(
        ROUTE.name, "out", connected=False, error="refused", down_for=30.0, counts={"sent": 2, "later": 1}
    )
    second = BrokerLink(ROUTE.name, "out", connected=False, error="no route", down_for=3.0)
    long_gone = NOON - timedelta(hours=1)

    found = stated(
        worker("a", up),
        worker("b", second),
        worker("c", first),
        worker("silent", up, beat_at=long_gone),
        worker("other", up, app="other"),
    )

    assert (found.workers, found.connected, found.condition) == (3, 1, "down")
    assert (found.error, found.down_since) == ("refused", NOON - timedelta(seconds=30))
    assert found.counts == {"sent": 7, "later": 1}
    assert (found.ready, found.dead, found.oldest_ready_at) == (7, 2, NOON)


def test_what_was_put_off_while_the_broker_is_away_still_waits() -> None:
    counts = Counts(ROUTE.name, ready=1, running=2, lapsed=3, scheduled=10)

    def waiting(link: BrokerLink) -> int:
        roster = Roster(NOON, (ROUTE,), (worker("a", link),))
        (found,) = state.states([], roster, Tally(NOON, (counts,), 0, 0))
        return found.waiting

    assert waiting(BrokerLink(ROUTE.name, "out", connected=True)) == 6
    assert waiting(BrokerLink(ROUTE.name, "out", connected=False, error="refused", down_for=1.0)) == 16


def test_one_that_no_worker_has_used_is_idle_and_one_without_a_worker_is_unserved() -> None:
    unused = BrokerLink(ROUTE.name, "out", connected=False)

    assert stated(worker("a", unused)).condition == "idle"
    assert stated(worker("of a release that reports none")).condition == "idle"
    assert stated().condition == "unserved"


def test_a_consumer_is_no_broker_and_what_is_only_in_the_code_is_listed_too() -> None:
    coded = state.BrokerView("kafka:orders", "in", "kafka", "localhost:9092", (), "intake:kafka:orders")

    found = state.states([coded], Roster(NOON, (ROUTE, CONSUMER), ()), Tally(NOON, (), 0, 0))

    assert [each.name for each in found] == ["rabbitmq:orders.*", "kafka:orders"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


async def test_the_command_shows_the_state_with_the_code_and_without(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queues, away = MemoryQueues({"billing": ["orders.placed"]}), MemoryQueues({})
    app = shop(f"sqlite:///{folder}/shop.db", queues, away)
    away.fail("it was stopped")
    async with app.worker():
        await app.publish("orders.placed", 1)
        await app.publish("parcels.packed", 3)

        async def known() -> bool:
            found = {each.name: each for each in await app.brokers.states()}
            return found["away"].error is not None and bool(found["broker"].connected and found["memory:billing"].lag)

        await until(known)
        assert await run_aside("brokers", "list", "--url", f"sqlite:///{folder}/shop.db") == 0
        table = capsys.readouterr().out
        assert await run_aside("brokers", "list", "--url", f"sqlite:///{folder}/shop.db", "--json") == 0
        rows = {each["name"]: each for each in json.loads(capsys.readouterr().out)}

    lines = {line.split()[0]: " ".join(line.split()) for line in table.splitlines()}
    assert lines["broker"] == "broker out memory://broker orders.* connected on 1 of 1 worker 0"
    assert lines["memory:billing"].startswith(
        "memory:billing in memory://broker copies.placed connected on 1 of 1 worker 12"
    )
    assert "away is not connected since" in table
    assert table.rstrip().endswith("it was stopped")
    assert (rows["memory:billing"]["lag"], rows["away"]["error"]) == (12_345, "it was stopped")


def test_the_command_lists_the_code_if_the_database_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "away_shop.py").write_text(
        "from mainspring import Mainspring\nfrom mainspring.brokers import RabbitMQ\n"
        "app = Mainspring('postgresql://ann:s3cr3t@127.0.0.1:1/shop', name='shop')\n"
        "app.route('orders.*', to=RabbitMQ('amqp://guest:guest@localhost/', exchange='shop'))\n"
    )

    assert run(["brokers", "list", "away_shop:app"]) == 0
    printed = capsys.readouterr()

    assert printed.out.split()[:8] == [
        "NAME",
        "DIRECTION",
        "BROKER",
        "TOPICS",
        "rabbitmq:orders.*",
        "out",
        "amqp://…@localhost/",
        "orders.*",
    ]
    assert printed.err.startswith("The database cannot be read")
    assert "s3cr3t" not in printed.err


async def run_aside(*words: str) -> int:
    return await asyncio.to_thread(run, list(words))
