"""Publishing to a group with a limit: refused or waiting, by every way out there is."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import asyncpg
import pytest

from mainspring import Context, Mainspring
from mainspring.app.consume import backpressure
from mainspring.model.errors import Backlogged
from mainspring.storage.contract import Ledger
from tests.integration.app.shop import Seen


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks come every twentieth of a second."""
    monkeypatch.setattr(backpressure, "COUNT_EVERY", 0.05)
    monkeypatch.setattr(backpressure, "RECOUNT_AFTER", 0.05)


class Looked:
    """A ledger that tells when somebody has counted."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.counts: Seen[dict[str, int]] = Seen()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        counted = await self._ledger.pending(limits)
        self.counts.add(counted)
        return counted


class Shop:
    """An app with one limited group, whose handlers wait to be let."""

    def __init__(self, url: str, when_full: Literal["raise", "wait"] = "raise") -> None:
        self.app = Mainspring(url, auto_migrate=True)
        self.seen: Seen[Any] = Seen()
        self.go = asyncio.Event()

        @self.app.consumer("news", "orders.*", pending_limit=2, when_full=when_full)
        async def mail(value: Any) -> None:
            await self.go.wait()
            self.seen.add(value)

        self.mail = mail

    async def looked(self) -> Looked:
        """Hear from now on when somebody has counted."""
        storage: Any = (await self.app._connection.opening("a test")).storage
        storage.ledger = looked = Looked(storage.ledger)
        return looked

    async def waiting(self) -> int:
        [counts] = (await self.app.stats.tally()).groups
        return counts.ready + counts.scheduled


@contextlib.asynccontextmanager
async def opened(url: str = "memory://", when_full: Literal["raise", "wait"] = "raise") -> AsyncIterator[Shop]:
    shop = Shop(url, when_full)
    async with shop.app:
        await shop.app.declare()
        yield shop


ASYNC: dict[str, Callable[[Shop], Any]] = {
    "publish": lambda shop: shop.app.publish("news", 1),
    "later": lambda shop: shop.app.publish("news", 1, delay="1h"),
    "unique": lambda shop: shop.app.publish("news", 1, key="a", unique="key"),
    "publish_many": lambda shop: shop.app.publish_many([("news", 1), ("elsewhere", 2), ("orders.paid", 3)]),
    "send": lambda shop: shop.mail.send(1),
    "send_then": lambda shop: shop.mail.send(1, then=shop.mail),
    "join": lambda shop: shop.app.join([(shop.mail, 1), (shop.mail, 2)], then=shop.mail),
}
SYNC: dict[str, Callable[[Shop], Any]] = {
    "publish": lambda shop: shop.app.sync.publish("news", 1),
    "unique": lambda shop: shop.app.sync.publish("news", 1, key="a", unique="key"),
    "publish_many": lambda shop: shop.app.sync.publish_many([("news", 1), ("elsewhere", 2), ("orders.paid", 3)]),
    "send": lambda shop: shop.mail.sync.send(1),
    "send_then": lambda shop: shop.mail.sync.send(1, then=shop.mail),
    "join": lambda shop: shop.app.sync.join([(shop.mail, 1), (shop.mail, 2)], then=shop.mail),
}


async def test_every_way_out_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/shop.db") as shop:
        await shop.app.publish("news", "first")
        await shop.mail.send("second")

        for way in ASYNC.values():
            with pytest.raises(Backlogged, match="Nothing was stored"):
                await way(shop)
        for way in SYNC.values():
            with pytest.raises(Backlogged, match="Nothing was stored"):
                await asyncio.to_thread(way, shop)

        assert await shop.waiting() == 2
        assert await shop.app.messages.list("parked") == []  # nor what was published with it to others
        await asyncio.to_thread(shop.app.sync.close)


async def test_a_callers_transaction_is_refused_also_where_others_wait(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    async with opened(f"sqlite:///{file}", when_full="wait") as shop:
        await shop.app.publish_many([("news", 1), ("news", 2)])
        with contextlib.closing(sqlite3.connect(file)) as connection:
            for way in (
                lambda tx: shop.app.sync.publish("news", 3, tx=tx),
                lambda tx: shop.app.sync.publish("news", 3, key="a", unique="key", tx=tx),
                lambda tx: shop.app.sync.publish_many([("elsewhere", 1), ("news", 3)], tx=tx),
                lambda tx: shop.mail.sync.send(3, tx=tx),
                lambda tx: shop.app.sync.join([(shop.mail, 3)], then=shop.mail, tx=tx),
            ):
                with pytest.raises(Backlogged), connection:
                    way(connection)
                # It may go on, too: what was refused has left nothing behind.
                with connection, contextlib.suppress(Backlogged):
                    way(connection)

        assert await shop.waiting() == 2
        assert await shop.app.messages.list("parked") == []


async def test_a_callers_transaction_counts_what_it_has_published_itself(
    postgres_url: str, postgres_schema: str
) -> None:
    app = Mainspring(postgres_url, schema=postgres_schema, auto_migrate=True)

    @app.consumer("news", pending_limit=2, when_full="wait")
    async def mail(value: Any) -> None: ...

    async with app:
        await app.declare()
    connection = await asyncpg.connect(postgres_url)
    # Nothing is open but the caller's own connection.
    async with connection.transaction():
        await app.publish_many([("news", 1), ("news", 2)], tx=connection)
        with pytest.raises(Backlogged, match="2 wait"):
            await mail.send(3, tx=connection)
    stored = await connection.fetchval(f"SELECT count(*) FROM {postgres_schema}.delivery")
    await connection.close()

    assert stored == 2


def statements(app: Mainspring, connection: sqlite3.Connection) -> list[str]:
    """What publishing says to the database."""
    heard: list[str] = []
    connection.set_trace_callback(lambda said: heard.append(said[:40]))
    with connection:
        app.sync.publish("elsewhere", 1, tx=connection)
        app.sync.publish_many([("elsewhere", 1), ("elsewhere", 2)], tx=connection)
    return heard


async def test_whom_no_limit_concerns_says_nothing_more_to_the_database(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    async with opened(f"sqlite:///{file}") as shop:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            unlimited = statements(Mainspring(f"sqlite:///{file}"), connection)
            unconcerned = statements(shop.app, connection)

    assert unlimited == unconcerned
    assert len(unlimited) > 3


@pytest.mark.usefixtures("quick")
async def test_a_publish_waits_until_a_worker_has_made_room() -> None:
    async with opened(when_full="wait") as shop:
        await shop.app.publish_many([("news", 1), ("news", 2)])
        looked = await shop.looked()
        waiting = [asyncio.create_task(shop.app.publish("news", number)) for number in (3, 4)]
        waiting.append(asyncio.create_task(asyncio.to_thread(shop.app.sync.publish, "news", 5)))
        await looked.counts.count(2)
        done = [each for each in waiting if each.done()]
        before = await shop.waiting()

        shop.go.set()
        async with shop.app.worker():
            await asyncio.gather(*waiting)
            handled = await shop.seen.count(5)

        await asyncio.to_thread(shop.app.sync.close)
    assert (done, before, sorted(handled)) == ([], 2, [1, 2, 3, 4, 5])


@pytest.mark.usefixtures("quick")
async def test_who_waits_can_be_cancelled_and_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(when_full="wait") as shop:
        await shop.app.publish_many([("news", 1), ("news", 2)])
        looked = await shop.looked()
        waiting = asyncio.create_task(shop.app.publish("news", 3))
        await looked.counts.count(2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        monkeypatch.setattr(backpressure, "PATIENCE", backpressure.PATIENCE / 300)
        with pytest.raises(Backlogged, match=r"no room for one more, after a wait of 100ms: 2 wait"):
            await shop.app.publish("news", 3)
        with pytest.raises(Backlogged, match="3 messages at once"):  # for which no wait would ever be enough
            await shop.app.publish_many([("news", 3)] * 3)

        assert await shop.waiting() == 2


async def test_a_handler_does_not_wait_for_itself() -> None:
    app, told = Mainspring("memory://"), Seen[str]()

    @app.consumer("a", pending_limit=2, when_full="wait", retry="none")
    async def awaited(value: int, ctx: Context) -> None:
        for publish in (ctx.publish, app.publish):
            with pytest.raises(Backlogged, match="no room for one more: 2 wait"):
                await asyncio.gather(*(publish("a", 2, delay="1h") for _ in range(3)))
        told.add("awaited")

    @app.consumer("b", pending_limit=2, when_full="wait", retry="none")
    def threaded(value: int, ctx: Context) -> None:
        for publish in (ctx.sync.publish, app.sync.publish):
            with pytest.raises(Backlogged, match="no room for one more: 2 wait"):
                _ = [publish("b", 2, delay="1h") for _ in range(3)]
        told.add("threaded")

    async with app.worker():
        await app.publish("a", 1)
        await app.publish("b", 1)
        assert sorted(await told.count(2)) == ["awaited", "threaded"]


async def test_a_transactional_handler_does_not_wait_while_its_transaction_is_open(tmp_path: Path) -> None:
    app, told = Mainspring(f"sqlite:///{tmp_path}/shop.db", auto_migrate=True), Seen[Backlogged]()

    @app.consumer("full", pending_limit=1, when_full="wait")
    async def full(value: int) -> None: ...

    @app.consumer("a", transactional=True)
    async def forwards(value: int, ctx: Context) -> None:
        try:
            await ctx.publish("full", value)
        except Backlogged as error:
            told.add(error)

    async with app.worker(groups=["forwards"]):
        await app.declare()
        await full.send(1)
        await app.publish("a", 2)
        [error] = await told.count(1)

    assert (error.group, error.limit, error.pending) == ("full", 1, 1)


async def test_a_queue_has_room_again_when_something_is_claimed() -> None:
    app = Mainspring("memory://")
    jobs = app.queue("jobs", "jobs.*", pending_limit=1)

    async with app:
        await jobs.declare()
        await app.publish("jobs.made", 1)
        with pytest.raises(Backlogged, match="group 'jobs'"):
            await app.publish("jobs.made", 2)


async def test_the_kit_refuses_at_once_and_always_knows() -> None:
    shop = Shop("memory://", when_full="wait")
    shop.go.set()

    async with shop.app.testing() as kit:
        for _ in range(3):  # no second has passed
            await shop.app.publish_many([("news", 1), ("news", 2)])
            with pytest.raises(Backlogged):
                await shop.app.publish("news", 3)
            with pytest.raises(Backlogged):
                await shop.app.publish("news", 3, tx=object())
            await kit.drain()

        assert len(kit.delivered(shop.mail)) == 6
