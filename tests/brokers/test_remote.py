"""Another Mainspring database as a broker: each message is published there once, under its own id."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mainspring import Context, Mainspring
from mainspring.app.broker.remote import Remote, RemoteConnection
from mainspring.brokers.contract import SENT, Received
from mainspring.brokers.link import Link
from mainspring.brokers.wire import write
from mainspring.model.errors import BadOption, BrokerUnavailable, Conflict, StorageError
from tests.brokers.bench import until
from tests.integration.sqlite.test_trouble import pragma
from tests.unit.brokers.test_wire import PLACED

TOPIC = "orders.placed"
ON_THE_WIRE = write(PLACED, "shop", "cloudevents", "ce-")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return f"sqlite:///{tmp_path}/billing.db" if request.param == "sqlite" else postgres_url


@pytest.fixture
async def billing(url: str, postgres_schema: str) -> Mainspring:
    app = Mainspring(url, name="billing", schema=postgres_schema)
    await app.migrate()
    return app


async def test_what_is_published_here_is_handled_there_with_all_it_says(
    billing: Mainspring, url: str, postgres_schema: str, tmp_path: Path
) -> None:
    handled: list[tuple[str, dict[str, int], str | None, str | None, dict[str, str]]] = []

    @billing.consumer(TOPIC)
    async def bill(order: dict[str, int], ctx: Context) -> None:
        handled.append((str(ctx.message_id), order, ctx.key, ctx.correlation_id, dict(ctx.headers)))

    shop = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", auto_migrate=True)
    shop.route("orders.*", to=Remote(url, name="shop", schema=postgres_schema), group="billing-database")

    async with billing.worker(), shop.worker():
        receipt = await shop.publish(
            TOPIC, {"order_id": 7}, key="order:7", correlation_id="cart-7", headers={"tenant": "acme"}
        )
        await until(lambda: bool(handled))

    assert handled == [(str(receipt.id), {"order_id": 7}, "order:7", "cart-7", {"tenant": "acme"})]


async def test_a_repeat_is_sent_and_stored_once(billing: Mainspring, url: str, postgres_schema: str) -> None:
    link = Link(Remote(url, name="shop", schema=postgres_schema))

    results = await asyncio.gather(*(link.send([ON_THE_WIRE]) for _ in range(5)))
    await link.close()
    async with billing:
        stored = await billing.messages.get(PLACED.id)
        marks = await billing.inbox.list(group="remote", source="mainspring:shop")

    assert results == [[SENT]] * 5
    assert stored is not None
    assert [each.message_id for each in marks] == [str(PLACED.id)]


async def test_a_repeat_with_another_payload_is_rejected(billing: Mainspring, url: str, postgres_schema: str) -> None:
    link = Link(Remote(url, name="shop", schema=postgres_schema))

    first = await link.send([ON_THE_WIRE])
    (second,) = await link.send([ON_THE_WIRE._replace(body=b'{"order_id": 8}')])
    await link.close()
    async with billing:
        stored = await billing.messages.get(PLACED.id)

    assert first == [SENT]
    assert second == ("rejected", "its id is known there as another message")
    assert stored is not None
    assert stored.payload == ON_THE_WIRE.body


async def test_without_its_tables_it_is_away_and_says_what_to_run(postgres_url: str) -> None:
    link = Link(Remote(postgres_url, schema="not_there"))

    (result,) = await link.send([ON_THE_WIRE])

    assert result.status == "later"
    assert "has no Mainspring schema 'not_there'" in result.reason
    assert result.reason.endswith(", for the app whose database it is")


async def test_a_file_that_cannot_be_opened_is_away_and_costs_no_attempt(tmp_path: Path) -> None:
    link = Link(Remote(f"sqlite:///{tmp_path}/unmounted/billing.db"))

    (result,) = await link.send([ON_THE_WIRE])

    assert result.status == "later"
    assert "does not exist: correct the URL" in result.reason
    assert link.down_for is not None


async def test_a_file_that_is_missing_is_not_made(tmp_path: Path) -> None:
    app = Mainspring("memory://", name="shop")
    app.route("orders.*", to=Remote(f"sqlite:///{tmp_path}/biling.db"))

    (found,) = await app.brokers.check()

    assert "biling.db does not exist: correct the URL" in found.problems[0]
    assert not list(tmp_path.iterdir())


async def test_one_that_the_other_database_cannot_store_is_rejected_alone(
    billing: Mainspring, url: str, postgres_schema: str
) -> None:
    link = Link(Remote(url, name="shop", schema=postgres_schema))
    bad = ON_THE_WIRE._replace(id="no uuid")

    results = await link.send([bad, ON_THE_WIRE])
    await link.close()
    async with billing:
        stored = await billing.messages.get(PLACED.id)

    assert [each.status for each in results] == ["rejected", "sent"]
    assert stored is not None


def test_memory_is_no_database_of_another_app() -> None:
    with pytest.raises(BadOption, match="leads to no database of another app"):
        Remote("memory://")


async def test_what_is_published_there_is_handled_here_once(
    billing: Mainspring, url: str, postgres_schema: str, tmp_path: Path
) -> None:
    handled: list[tuple[dict[str, int], str | None, str | None, dict[str, str]]] = []
    source = Remote(url, name="ledger", group="ledger", topics=["orders.*"], schema=postgres_schema, declare=True)
    ledger = Mainspring(f"sqlite:///{tmp_path}/ledger.db", name="ledger")

    @ledger.consumer(TOPIC, source=source)
    async def book(order: dict[str, int], ctx: Context) -> None:
        handled.append((order, ctx.key, ctx.correlation_id, dict(ctx.headers)))

    async with ledger.worker(), billing:
        await until(lambda: _knows(billing, "ledger"))
        for number in range(30):
            await billing.publish(
                TOPIC, {"n": number}, key=f"order:{number}", correlation_id="cart", headers={"tenant": "acme"}
            )
        await until(lambda: len(handled) == 30)
        await until(lambda: _is_empty(billing, "ledger"))

    assert sorted(handled, key=lambda each: each[0]["n"]) == [
        ({"n": number}, f"order:{number}", "cart", {"tenant": "acme"}) for number in range(30)
    ]


async def test_what_its_reader_was_killed_with_is_received_by_another_when_the_claim_lapses(
    billing: Mainspring, url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.app.broker.remote._HOLD", timedelta(seconds=1))
    source = Remote(url, name="ledger", group="ledger", topics=["orders.*"], schema=postgres_schema)
    killed, other = await source.connect(), await source.connect()
    await killed.declare()
    async with billing:
        for number in range(3):
            await billing.publish(TOPIC, number)

    first = await killed.receive(10, 5)
    assert isinstance(killed, RemoteConnection)
    assert killed._reader is not None
    killed._reader._extending.cancel()  # it does nothing more, as a process that was killed
    killed._reader._in_hand.clear()
    again: list[Received] = []
    async with asyncio.timeout(30):
        while len(again) < 3:
            found = await other.receive(10, 5)
            await other.ack(found)
            again += found
    rest = await other.lag()
    await killed.close()
    await other.close()

    assert {each.message_id for each in again} == {each.message_id for each in first}
    assert all(each.redelivered for each in again)
    assert rest == 0


async def test_what_is_not_acknowledged_stays_claimed(
    billing: Mainspring, url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.app.broker.remote._HOLD", timedelta(seconds=1))
    source = Remote(url, name="ledger", group="ledger", topics=["orders.*"], schema=postgres_schema)
    slow, other = await source.connect(), await source.connect()
    await slow.declare()
    async with billing:
        await billing.publish(TOPIC, 1)

    held = await slow.receive(10, 5)
    stolen = await other.receive(10, 2.5)
    await slow.ack(held)
    for each in (slow, other):
        await each.close()

    assert (len(held), stolen) == (1, [])


async def test_a_group_that_is_not_there_is_named_and_not_made(
    billing: Mainspring, url: str, postgres_schema: str
) -> None:
    source = Remote(url, group="ledger", schema=postgres_schema)
    connection = await source.connect()

    with pytest.raises(BrokerUnavailable, match="ledger"):
        await connection.receive(1, 1)
    with pytest.raises(BrokerUnavailable, match=r"the group 'ledger' has no topics: pass Remote\(…, topics="):
        await connection.declare()
    found = await connection.check()
    await connection.close()

    assert found == [f"there is no group 'ledger' in {source.shown}: declare=True makes it"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topics": ["orders.*"]}, "has no group="),
        ({"group": "ledger", "topics": "orders.*"}, "must be a list"),
        ({"largest": 0}, "largest"),
    ],
)
def test_options_that_do_not_fit_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        Remote("sqlite:///billing.db", **options)


async def _knows(app: Mainspring, group: str) -> bool:
    return any(each.name == group for each in await app.groups.list())


async def _is_empty(app: Mainspring, group: str) -> bool:
    counts = [each for each in (await app.stats.tally()).groups if each.group == group]
    return all(each.ready + each.running + each.scheduled + each.lapsed == 0 for each in counts)


async def test_one_whose_id_another_message_has_over_there_is_a_dead_letter_and_not_sent(
    billing: Mainspring, url: str, postgres_schema: str
) -> None:
    link = Link(Remote(url, name="crm", schema=postgres_schema))
    other, fresh = ON_THE_WIRE._replace(topic="customers.added"), ON_THE_WIRE._replace(id=str(UUID(int=7)))
    async with billing:
        await billing.publish(TOPIC, {"n": 1}, message_id=UUID(ON_THE_WIRE.id))

        results = await link.send([other, fresh])
        marked = await billing.inbox.list(source="mainspring:crm")
    await link.close()

    assert [each.status for each in results] == ["rejected", "sent"]
    assert "its id is known as a message on orders.placed" in results[0].reason
    assert [each.message_id for each in marked] == [fresh.id]


async def test_a_state_of_the_other_database_buries_nothing(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/billing.db"
    await Mainspring(address, name="billing").migrate()
    link = Link(Remote(address, name="shop"))
    batch = [ON_THE_WIRE._replace(id=str(UUID(int=number)), body=b"x" * 50_000) for number in range(3)]
    storage = (await link.connection())._storage  # type: ignore[attr-defined]
    pages = await pragma(storage, "page_count")

    await pragma(storage, f"max_page_count = {pages + 4}")
    full = await link.send(batch)
    await pragma(storage, "max_page_count = 1000000")
    with closing(sqlite3.connect(f"{tmp_path}/billing.db")) as other:  # as while a backup is restored
        other.execute("ALTER TABLE mainspring_inbox RENAME TO away")
        moved = await link.send(batch)
        other.execute("ALTER TABLE away RENAME TO mainspring_inbox")
    after = await link.send(batch)
    await link.close()

    assert [[each.status for each in results] for results in (full, moved, after)] == [
        ["later"] * 3,
        ["later"] * 3,
        ["sent"] * 3,
    ]


async def test_what_is_held_stays_claimed_after_an_extension_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.app.broker.remote._HOLD", timedelta(seconds=1.5))
    address = f"sqlite:///{tmp_path}/shop.db"
    source = Remote(address, name="ledger", group="ledger", topics=["orders.*"])
    failed: list[object] = []
    async with Mainspring(address, name="shop", auto_migrate=True) as shop:
        slow, other = await source.connect(), await source.connect()
        await slow.declare()
        await shop.publish(TOPIC, 1)
        held = await slow.receive(10, 5)
        assert isinstance(slow, RemoteConnection)
        assert slow._reader is not None
        extend = slow._reader._queue.extend

        async def failing_once(*items: Any, **how: Any) -> Any:
            if not failed:
                failed.append(items)
                raise StorageError("the database has no space left")
            return await extend(*items, **how)

        monkeypatch.setattr(slow._reader._queue, "extend", failing_once)
        taken_over = await other.receive(10, 5)
        await slow.ack(held)
        for each in (slow, other):
            await each.close()

    assert (len(failed), len(held), taken_over) == (1, 1, [])


async def test_an_older_release_that_connects_again_leaves_the_topics_of_the_newer(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/shop.db"
    new, old = (
        Link(Remote(address, name="ledger", group="ledger", declare=True, topics=topics))
        for topics in (["orders.*", "payments.*"], ["orders.*"])
    )
    async with Mainspring(address, name="shop", auto_migrate=True) as shop, asyncio.timeout(30):
        reader = await new.connection()
        assert await reader.receive(10, 0.1) == []
        with closing(sqlite3.connect(f"{tmp_path}/shop.db", isolation_level=None)) as database:
            database.execute("UPDATE mainspring_declaration SET seen_at = 0, since = 0")  # as after some days
            while database.execute("SELECT count(*) FROM mainspring_declaration WHERE seen_at > 0").fetchone() == (0,):
                assert await reader.receive(10, 0.2) == []
            database.execute("DELETE FROM mainspring_declaration WHERE seen_at = 0")  # as retention does
        await old.connection()  # as after a moment without the database
        await shop.publish("payments.received", {"n": 1})
        found = await reader.receive(10, 5)
        for each in (new, old):
            await each.close()

    assert [each.address for each in found] == ["payments.received"]


def test_two_namespaces_of_one_database_are_two_places() -> None:
    app = Mainspring("memory://", name="shop")

    for each in ("eu", "us"):
        app.route("orders.*", to=Remote("sqlite:///billing.db", namespace=each), group=each)

    with pytest.raises(Conflict):
        app.route("orders.*", to=Remote("sqlite:///billing.db", namespace="eu"), group="again")
