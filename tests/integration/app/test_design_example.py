"""The example of the design, as far as it is built, on every database that has transactions."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring import Cancelled, Consumed, Context, Mainspring, Receipt, exponential
from mainspring.model.errors import BadHandle, SchemaMissing
from tests.integration.app.shop import Seen, eventually

Transaction = Callable[[], Any]
Publish = Callable[..., Awaitable[Receipt]]


@dataclass
class OrderPlaced:
    order_id: int
    total: float


@dataclass
class Shop:
    """An app with its consumers, and the application's own way into the same database."""

    app: Mainspring
    send_receipt: Consumed[[OrderPlaced, Context], Any]
    transaction: Transaction
    receipts: Seen[tuple[OrderPlaced, str, int]] = field(default_factory=Seen)
    counted: Seen[dict[str, Any]] = field(default_factory=Seen)


class Undo(Exception):
    """Rolls the application's transaction back."""


def open_shop(app: Mainspring, transaction: Transaction) -> Shop:
    app.message("orders.placed")(OrderPlaced)

    @app.consumer(OrderPlaced, retry=exponential("1s", cap="10m", attempts=15), timeout="30s", concurrency=20)
    async def send_receipt(order: OrderPlaced, ctx: Context) -> None:
        opened.receipts.add((order, ctx.topic, ctx.attempt))

    @app.consumer("orders.*", group="analytics")
    def count_order(order: dict[str, Any]) -> None:
        opened.counted.add(order)

    opened = Shop(app, send_receipt, transaction)
    return opened


@asynccontextmanager
async def asyncpg_transaction(app: Mainspring, url: str) -> AsyncIterator[Publish]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():

            async def publish(*message: Any, **options: Any) -> Receipt:
                return await app.publish(*message, tx=connection, **options)

            yield publish
    finally:
        await connection.close()


@asynccontextmanager
async def sqlite3_transaction(app: Mainspring, path: Path) -> AsyncIterator[Publish]:
    with closing(sqlite3.connect(path)) as connection, connection:

        async def publish(*message: Any, **options: Any) -> Receipt:
            return app.sync.publish(*message, tx=connection, **options)

        yield publish


@pytest.fixture
async def sqlite_shop(tmp_path: Path) -> Shop:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}", name="shop")
    return open_shop(app, lambda: sqlite3_transaction(app, path))


@pytest.fixture
async def postgres_shop(postgres_url: str, postgres_schema: str) -> Shop:
    app = Mainspring(postgres_url, name="shop", schema=postgres_schema, auto_migrate=True)
    return open_shop(app, lambda: asyncpg_transaction(app, postgres_url))


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, sqlite_shop: Shop, postgres_shop: Shop) -> Shop:
    """The same shop on each database."""
    return sqlite_shop if request.param == "sqlite" else postgres_shop


async def test_a_committed_transaction_reaches_every_group(shop: Shop) -> None:
    async with shop.app.worker():
        async with shop.transaction() as publish:
            receipt = await publish(OrderPlaced(42, 9.5))
            assert receipt.status == "stored"

        assert await shop.receipts.count(1) == [(OrderPlaced(42, 9.5), "orders.placed", 1)]
        assert await shop.counted.count(1) == [{"order_id": 42, "total": 9.5}]


async def test_a_transaction_that_is_rolled_back_never_happened(shop: Shop) -> None:
    async with shop.app.worker():
        undone: list[Receipt] = []
        with contextlib.suppress(Undo):
            async with shop.transaction() as publish:
                undone.append(await publish(OrderPlaced(1, 1.0)))
                raise Undo
        await shop.app.publish(OrderPlaced(2, 2.0))

        assert [order.order_id for order, _, _ in await shop.receipts.count(1)] == [2]
        assert await shop.app.messages.get(undone[0].id) is None


async def test_a_delayed_message_is_cancelled_by_its_key(shop: Shop) -> None:
    async with shop.app.worker():
        async with shop.transaction() as publish:
            await publish("orders.timeout", {"order": 42}, delay="15m", key="order:42")
            await publish("orders.timeout", {"order": 43}, delay="15m", key="order:43")
        [row] = await shop.app.messages.list("scheduled", key="order:42")

        assert row.scheduled_for - row.published_at == timedelta(minutes=15)
        assert await shop.app.cancel("orders.timeout", key="order:42") == Cancelled(cancelled=1, asked=0)
        assert await shop.app.cancel("orders.timeout", key="order:42") == Cancelled(cancelled=0, asked=0)
        assert [row.key for row in await shop.app.messages.list("scheduled")] == ["order:43"]


async def test_a_message_for_one_consumer_waits_for_it_alone(shop: Shop) -> None:
    async with shop.app.worker():
        receipt = await shop.send_receipt.send(OrderPlaced(7, 1.0), delay="1h")
        soon = await shop.send_receipt.send(OrderPlaced(8, 1.0))

        assert [order.order_id for order, _, _ in await shop.receipts.count(1)] == [8]
        [row] = await shop.app.messages.list("scheduled")
        assert (row.message_id, row.group, row.topic) == (receipt.id, "send_receipt", "orders.placed")

        async def is_done() -> bool:
            found = await shop.app.messages.get(soon.id)
            return found is None or not found.deliveries

        await eventually(is_done)
        assert shop.counted.items == []


async def test_many_are_published_in_one_transaction(shop: Shop) -> None:
    async with shop.app.worker():
        async with shop.transaction() as publish:
            for number in range(30):
                await publish(OrderPlaced(number, 1.0))

        assert sorted(order.order_id for order, _, _ in await shop.receipts.count(30)) == list(range(30))


async def test_the_same_id_in_a_transaction_is_a_duplicate(shop: Shop) -> None:
    async with shop.app, shop.transaction() as publish:
        first = await publish(OrderPlaced(1, 1.0))
        again = await publish(OrderPlaced(1, 1.0), message_id=first.id)

    assert (first.status, again.status) == ("stored", "duplicate")


async def test_an_app_need_not_be_open_for_a_callers_own_transaction(shop: Shop) -> None:
    await shop.app.migrate()

    async with shop.transaction() as publish:
        receipt = await publish(OrderPlaced(1, 1.0))

    async with shop.app:
        assert await shop.app.messages.get(receipt.id) is not None


async def test_cancelling_joins_a_transaction_too(sqlite_shop: Shop, tmp_path: Path) -> None:
    app = sqlite_shop.app
    async with app:
        await app.publish("a", 1, key="k")
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
            cancelled = app.sync.cancel("a", key="k", tx=connection)
            connection.rollback()
        still_there = await app.messages.list("parked")

    assert cancelled == Cancelled(cancelled=1, asked=0)
    assert len(still_there) == 1


async def test_many_join_a_blocking_transaction(sqlite_shop: Shop, tmp_path: Path) -> None:
    app = sqlite_shop.app
    async with app:
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
            receipts = app.sync.publish_many([("a", number) for number in range(3)], spread="3h", tx=connection)
        rows = await app.messages.list("parked")

    assert [receipt.status for receipt in receipts] == ["stored"] * 3
    assert [row.message_id for row in reversed(rows)] == [receipt.id for receipt in receipts]


async def test_many_join_an_asyncio_transaction(postgres_shop: Shop, postgres_url: str) -> None:
    app = postgres_shop.app
    async with app:
        connection = await asyncpg.connect(postgres_url)
        async with connection.transaction():
            await app.publish_many([("a", number) for number in range(3)], tx=connection)
            await app.publish("b", 1, key="k", tx=connection)
            assert await app.cancel("b", key="k", tx=connection) == Cancelled(cancelled=1, asked=0)
        await connection.close()

        assert len(await app.messages.list("parked")) == 3


async def test_a_pools_connection_is_a_connection(postgres_shop: Shop, postgres_url: str) -> None:
    app = postgres_shop.app
    async with app, asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection, connection.transaction():
            receipt = await app.publish("a", 1, tx=connection)

        assert await app.messages.get(receipt.id) is not None


async def test_what_would_commit_by_itself_is_refused(postgres_shop: Shop, postgres_url: str, tmp_path: Path) -> None:
    connection = await asyncpg.connect(postgres_url)
    with pytest.raises(BadHandle, match=r"outside a transaction"):
        await postgres_shop.app.publish("a", 1, tx=connection)
    await connection.close()

    embedded = Mainspring(f"sqlite:///{tmp_path}/other.db")
    with (
        closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as autocommitting,
        pytest.raises(BadHandle, match="commits every statement by itself"),
    ):
        embedded.sync.publish("a", 1, tx=autocommitting)


async def test_a_handle_goes_to_the_call_of_its_kind(sqlite_shop: Shop, postgres_shop: Shop, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    with pytest.raises(BadHandle, match=r"asyncio's: write `await app\.publish\(…, tx=connection\)`"):
        postgres_shop.app.sync.publish("a", 1, tx=connection)
    with pytest.raises(BadHandle, match="this app is on SQLite"):
        await sqlite_shop.app.publish("a", 1, tx=connection)
    await connection.close()
    with closing(sqlite3.connect(":memory:")) as embedded:
        with pytest.raises(BadHandle, match=r"write `app\.sync\.publish\(…, tx=connection\)`"):
            await sqlite_shop.app.publish("a", 1, tx=embedded)
        with pytest.raises(BadHandle, match="this app is on PostgreSQL"):
            await postgres_shop.app.publish("a", 1, tx=embedded)


@pytest.mark.no_schema
async def test_publishing_without_a_schema_names_the_command(postgres_url: str, postgres_schema: str) -> None:
    app = Mainspring(postgres_url, schema=postgres_schema, namespace="my_staging-2")
    command = "run `mainspring migrate --app MODULE:APP`"
    of_handle = f"run `mainspring migrate --url URL --schema {postgres_schema} --namespace my_staging-2`"
    async with app:
        with pytest.raises(SchemaMissing, match=command):
            await app.publish("a", 1)
        connection = await asyncpg.connect(postgres_url)
        with pytest.raises(SchemaMissing, match=of_handle):
            async with connection.transaction():
                await app.publish("a", 1, tx=connection)
        await connection.close()

        assert (await app.health()).status == "unhealthy"


@pytest.mark.no_schema
async def test_a_worker_without_a_schema_waits_for_it(postgres_url: str, postgres_schema: str) -> None:
    app, seen = Mainspring(postgres_url, schema=postgres_schema), Seen[int]()

    @app.consumer("a")
    async def handler(value: int) -> None:
        seen.add(value)

    async with app.worker() as worker:
        assert not worker.ready
        assert await app.migrate() != []

        async def is_ready() -> bool:
            return worker.ready

        await eventually(is_ready)
        await app.publish("a", 5)
        assert await seen.count(1) == [5]


async def test_namespaces_share_a_database_and_never_meet(tmp_path: Path) -> None:
    url, seen = f"sqlite:///{tmp_path}/shop.db", Seen[str]()
    staging, laptop = Mainspring(url, namespace="staging"), Mainspring(url, namespace="laptop")

    for app, where in ((staging, "staging"), (laptop, "laptop")):

        @app.consumer("orders.#", group="receipts")
        async def handler(value: str, ctx: Context, *, where: str = where) -> None:
            seen.add(f"{where}: {value} on {ctx.topic} for {ctx.group}")

    async with staging.worker(), laptop.worker():
        await staging.publish("orders.placed", "from staging")
        await laptop.publish("orders.placed", "from laptop")
        found = await seen.count(2)

    assert sorted(found) == [
        "laptop: from laptop on orders.placed for receipts",
        "staging: from staging on orders.placed for receipts",
    ]
