"""A message for another database than that of its transaction: it is stored there after the commit, once."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Context, Fleet, Mainspring, Retention
from mainspring.app.fleet.member import Member
from mainspring.model.errors import BadHandle, BadOption, UnknownDatabase
from mainspring.model.views import DeliveryView, MessageView
from tests.integration.fleet.across import GROUP, QUICK, Shop, arrived, begun, consuming, sent, there
from tests.integration.fleet.conftest import Make, until


@pytest.fixture
def app() -> Mainspring:
    return consuming()


@pytest.fixture
def pair(app: Mainspring, files: Make) -> Shop:
    """Two files, where the database makes no difference."""
    return Shop(app, files("acme", "bolt"))


@pytest.fixture(params=["files", "servers"])
def shop(app: Mainspring, files: Make, servers: Make, request: pytest.FixtureRequest) -> Shop:
    make = files if request.param == "files" else servers
    return Shop(app, make("acme", "bolt", "cask"))


async def test_it_is_stored_there_if_and_when_its_transaction_commits(shop: Shop) -> None:
    fleet = shop.fleet()
    await fleet.migrate()
    async with fleet.worker(**QUICK):
        async with shop.begun() as connection:
            await fleet.publish("moved", 0, database="bolt", tx=connection)
            await connection.rollback()
        async with shop.begun() as connection:
            receipt = await fleet.publish("moved", 1, database="bolt", tx=connection)
            receipts = await fleet.publish_many([("moved", 2), ("moved", 3)], database="cask", tx=connection)
            assert await there(fleet, "bolt") == []
        (in_bolt,), in_cask = await arrived(fleet, "bolt"), await arrived(fleet, "cask", 2)
        await sent(fleet)

        assert (receipt.status, receipt.id) == ("stored", in_bolt.message_id)
        assert {each.id for each in receipts} == {each.message_id for each in in_cask}
        assert await there(fleet, "acme") == []


async def test_everything_that_belongs_to_the_message_arrives_unchanged(shop: Shop) -> None:
    @shop.app.message("moved", version=3)
    @dataclass
    class Moved:
        n: int

    fleet, at = shop.fleet(), datetime.now(UTC) + timedelta(hours=1)
    options: dict[str, Any] = {
        "key": "order:7",
        "headers": {"tenant": "acme"},
        "correlation_id": "trip",
        "message_id": uuid4(),
        "priority": "high",
        "at": at,
        "expires": at + timedelta(hours=1),
    }
    await fleet.migrate()

    def facts(view: MessageView | None, delivery: DeliveryView) -> list[object]:
        assert view is not None
        of_message = [view.id, view.topic, view.key, view.payload, view.content_type, view.headers, view.expires_at]
        return [*of_message, view.correlation_id, view.causation_id, delivery.priority, delivery.due_at, delivery.key]

    async with fleet.worker(**QUICK):
        await fleet.publish(Moved(n=1), database="cask", **options)
        async with shop.begun() as connection:
            await fleet.publish(Moved(n=1), database="bolt", tx=connection, **options)
        (direct,), (across,) = await arrived(fleet, "cask"), await arrived(fleet, "bolt")
        views = [await fleet[name].messages.get(options["message_id"]) for name in ("cask", "bolt")]

    assert facts(views[0], direct) == facts(views[1], across)
    assert (across.key, across.priority, across.due_at) == ("order:7", 1, at)


async def test_times_count_from_the_publish_and_not_from_the_arrival(pair: Shop) -> None:
    fleet = pair.fleet()
    await fleet.migrate()
    async with fleet, pair.begun() as connection:
        receipt = await fleet.publish("moved", 1, delay="1h", expires="2h", database="bolt", tx=connection)
        gone = await fleet.publish("moved", 2, expires="1ms", database="bolt", tx=connection)
    async with fleet:
        waiting = await fleet["acme"].messages.get(receipt.id)
        async with fleet.worker(**QUICK):
            (found,) = await arrived(fleet, "bolt")
            await sent(fleet)
        view = await fleet["bolt"].messages.get(receipt.id)

        assert waiting is not None
        assert view is not None
        assert found.due_at == waiting.published_at + timedelta(hours=1)
        assert view.expires_at == waiting.published_at + timedelta(hours=2)
        assert await fleet["bolt"].messages.get(gone.id) is None


async def test_a_key_finds_it_in_the_database_that_it_is_for_and_nowhere_else(pair: Shop) -> None:
    fleet = pair.fleet()
    await fleet.migrate()
    async with fleet:
        async with pair.begun() as connection:
            await fleet.publish("moved", 1, key="7", delay="1h", database="bolt", tx=connection)
            withdrawn = await fleet.publish("moved", 2, key="8", database="bolt", tx=connection)
        assert (await fleet.cancel("moved", key="7", database="acme")).cancelled == 0
        assert (await fleet.cancel(withdrawn, database="acme")).cancelled == 1

        async with fleet.worker(**QUICK):
            (found,) = await arrived(fleet, "bolt")
        assert found.key == "7"
        assert (await fleet.cancel("moved", key="7", database="bolt")).cancelled == 1


async def test_one_id_is_one_message_in_each_database(pair: Shop) -> None:
    fleet, id = pair.fleet(), uuid4()
    await fleet.migrate()
    async with fleet, pair.begun() as connection:
        statuses = [
            (await fleet.publish("moved", payload, message_id=id, database=name, tx=connection)).status
            for name, payload in [("acme", 1), ("bolt", 1), ("bolt", 1), ("bolt", 2)]
        ]
    async with fleet, fleet.worker(**QUICK):
        (across,) = await arrived(fleet, "bolt")
        (here,) = await there(fleet, "acme")
        await sent(fleet)

    assert statuses == ["stored", "stored", "duplicate", "conflict"]
    assert here.message_id == across.message_id == id


async def test_a_repeat_is_known_by_its_mark_when_both_databases_have_forgotten_its_id(
    app: Mainspring, files: Make
) -> None:
    pair, id, handled = Shop(app, files("acme", "bolt")), uuid4(), Counter[str]()

    @app.consumer("moved")
    async def count(_payload: int, ctx: Context) -> None:
        handled[str(ctx.message_id)] += 1

    fleet = pair.fleet()
    await fleet.migrate()
    async with fleet, fleet.worker(**QUICK):
        for n in range(2):
            async with pair.begun() as connection:
                receipt = await fleet.publish("moved", 1, message_id=id, database="bolt", tx=connection)
            async with pair.begun() as connection:
                other = await fleet.publish("moved", n, database="bolt", tx=connection)
            await until(lambda: handled[str(other.id)])  # noqa: B023
            await sent(fleet)
            async with asyncio.timeout(60):
                while await fleet["bolt"].messages.get(id) or await fleet["acme"].messages.get(id):
                    await fleet.prune(Retention(repeats=timedelta()))
                    await asyncio.sleep(0.02)

            assert receipt.status == "stored"
    assert handled[str(id)] == 1


async def test_an_id_that_is_known_there_as_another_message_makes_a_dead_letter(pair: Shop) -> None:
    fleet, id = pair.fleet(), uuid4()
    await fleet.migrate()
    async with fleet, fleet.worker(**QUICK):
        await fleet.publish("moved", 1, message_id=id, database="bolt")
        async with pair.begun() as connection:
            await fleet.publish("moved", 2, message_id=id, database="bolt", tx=connection)
        async with asyncio.timeout(60):
            while not (dead := await fleet["acme"].dead.list()):
                await asyncio.sleep(0.02)

        assert str(dead[0].error).startswith(f"bolt rejected it: Rejected: message {id} on moved is not stored")


async def test_what_a_transactional_handler_sends_across_commits_with_it(shop: Shop) -> None:
    attempts: list[int] = []

    @shop.app.consumer("orders.placed", transactional=True, retry="10ms")
    async def forwarded(order: int, ctx: Context) -> None:
        attempts.append(order)
        await fleet.publish("moved", len(attempts), database="bolt", tx=ctx.tx)
        if len(attempts) == 1:
            raise ValueError("the first attempt fails")

    fleet = shop.fleet()
    await fleet.migrate()
    async with fleet, fleet.worker(**QUICK):
        await fleet.publish("orders.placed", 7, database="acme")
        (found,) = await arrived(fleet, "bolt")
        await sent(fleet)
        view = await fleet["bolt"].messages.get(found.message_id)

        assert view is not None
        assert (attempts, view.payload) == ([7, 7], b"2")
        assert len(await there(fleet, "bolt")) == 1


async def test_what_cannot_be_true_across_databases_is_rejected(pair: Shop) -> None:
    fleet = pair.fleet(route=lambda _message: "bolt")
    await fleet.migrate()
    async with fleet, pair.begun() as connection:
        with pytest.raises(BadHandle, match="Write database='bolt' to have it sent across after the commit"):
            await fleet.publish("moved", 1, tx=connection)
        with pytest.raises(BadHandle, match="Let both name one, or leave tx= out"):
            await fleet.cancel("moved", key="7", database="bolt", tx=connection)
        with pytest.raises(BadHandle, match="acme"):
            await fleet["bolt"].publish("moved", 1, tx=connection)
        with pytest.raises(UnknownDatabase, match=r"'bold' is no database of the fleet. Did you mean 'bolt'"):
            await fleet.publish("moved", 1, database="bold", tx=connection)
        with pytest.raises(BadOption, match="for 'bolt' in a transaction of 'acme': only the database that it is for"):
            await fleet.publish("moved", 1, database="bolt", tx=connection, key="7", unique="key")
        with pytest.raises(BadOption, match="what is sent directly is part of no transaction"):
            await fleet.publish("moved", 1, database="bolt", tx=connection, direct=True)
        await fleet.publish("moved", 1, database="acme", tx=connection, key="7", unique="key")
    async with fleet:
        assert await fleet["acme"].messages.list("live", group=GROUP) == []
        assert len(await there(fleet, "acme")) == 1


async def test_every_worker_of_the_fleet_sends_whatever_it_has_chosen(pair: Shop) -> None:
    here, elsewhere = pair.fleet(), pair.fleet(Mainspring("fleet://", name="shop"))
    await here.migrate()
    async with elsewhere, pair.begun() as connection:
        await elsewhere.publish_many([("moved", 1), ("moved", 2)], database="bolt", tx=connection)

    # The commit of another process is found by a look, and batches are larger than this worker takes.
    async with here, here.worker(databases="ac*", groups=["other"], concurrency=1, **QUICK):
        await arrived(here, "bolt", 2)


async def test_a_worker_of_an_older_release_leaves_it_to_a_newer_one(pair: Shop) -> None:
    handled = asyncio.Event()

    @pair.app.consumer("orders.placed")
    async def placed(_order: int) -> None:
        handled.set()

    fleet = pair.fleet()
    await fleet.migrate()
    async with fleet:
        async with pair.begun() as connection:
            await fleet.publish("moved", 1, database="bolt", tx=connection)
        older = Member("acme", pair.app._code, fleet._members["acme"].address)
        async with older.app, older.app.worker():
            await older.app.publish("orders.placed", 1)
            await handled.wait()
        assert len(await fleet["acme"].messages.list("ready", group=GROUP)) == 1

        async with fleet.worker(**QUICK):
            await arrived(fleet, "bolt")


async def test_two_apps_and_two_namespaces_on_the_same_databases_do_not_meet(servers: Make) -> None:
    urls = servers("acme", "bolt")
    fleets: dict[str, Fleet] = {}
    for name, namespace in [("shop", None), ("billing", None), ("shop", "second")]:
        app = Mainspring("fleet://", name=name, namespace=namespace)
        app.consumer(f"{name}.others", group=f"{name}.others")(lambda _payload: None)
        fleets[f"{name} {namespace}"] = fleet = Fleet(app, urls)
        await fleet.migrate()
    for label, fleet in fleets.items():
        async with fleet, begun(urls["acme"]) as connection:
            await fleet.publish("moved", label, database="bolt", tx=connection)

    async with fleets["shop second"] as fleet, fleet.worker(**QUICK):
        await arrived(fleet, "bolt")
        await sent(fleet)
        assert len(await there(fleet, "bolt")) == 1
    async with fleets["billing None"] as fleet, fleet.worker(**QUICK):
        (found,) = await arrived(fleet, "bolt")
        view = await fleet["bolt"].messages.get(found.message_id)
        assert view is not None
        assert view.payload == b'"billing None"'
    async with fleets["shop None"] as fleet, fleet.worker(**QUICK):
        await arrived(fleet, "bolt", 2)  # apps of one namespace share its messages


async def test_a_blocking_transaction_is_named_with_what_takes_it(pair: Shop) -> None:
    fleet = pair.fleet()
    await fleet.migrate()
    connection = sqlite3.connect(Path(pair.urls["acme"].removeprefix("sqlite:///")), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    async with fleet:
        with pytest.raises(BadHandle, match="blocks"):
            await fleet.publish("moved", 1, database="bolt", tx=connection)
    connection.execute("ROLLBACK")
    connection.close()


@pytest.mark.parametrize("name", ["mainspring.fleet", "mainspring.fleet.shop"])
def test_no_consumer_or_queue_takes_the_name_of_its_group(app: Mainspring, name: str) -> None:
    registrations: list[Callable[[], object]] = [
        lambda: app.consumer("moved", group=name)(lambda _payload: None),
        lambda: app.queue(name, "moved"),
    ]
    for register in registrations:
        with pytest.raises(BadOption, match="keeps for fleets"):
            register()
