"""A database of a fleet moves to another one, with all that is in it, and the old one refuses writes from then on."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import pytest

from mainspring import Fleet, Mainspring, unique
from mainspring.app.fleet import mover
from mainspring.model.errors import DatabaseMoved, LeaseLost, StorageUnavailable, UnknownDatabase
from tests.integration.fleet.conftest import Make, until
from tests.integration.fleet.moving import Told, becomes, content, handled, opened, refusals, shop

QUICK: dict[str, Any] = {"longest_pause": "500ms", "idle": "500ms"}


# --- what moves ---------------------------------------------------------------------------------------------


async def test_a_moved_database_has_every_row_of_the_old_one(make: Make) -> None:
    urls = make("home", "acme", "bolt", "eu-2")
    seen: list[dict[str, list[str]]] = []

    async def on_move(source: Mainspring, target: Mainspring) -> None:
        seen.extend((content(urls["acme"]), content(urls["eu-2"])))

    app = shop()

    @app.consumer("orders.billed")
    async def bills(number: int) -> None: ...

    async with opened(urls, app, on_move=on_move) as fleet:
        acme = fleet["acme"]
        await acme.declare()
        async with fleet.worker(databases="acme", **QUICK):
            await acme.publish_many([("orders.placed", number) for number in (1, 2, -3)])
            await becomes(acme.dead.list)
            await becomes(lambda: handled(acme, 2))
        await acme.groups.pause("parcels", by="ada", reason="stock")
        await acme.publish("orders.placed", 4, delay="1h", key="four")
        await acme.publish_many([("orders.shipped", number) for number in range(1300)])
        await acme.publish("orders.lost", "ä\u2028'\\x00")
        like = await acme.publish("orders.shipped", 6, key="six", unique=unique(by="key", scope="1h"))
        lease = await acme.leases.acquire("nightly", "10m")
        assert lease is not None
        assert await acme.inbox.admit("evt_1", "stripe", b"\x00\xff")
        await acme.join([(bills, 7)], then=(bills, 8))

        move = await fleet.move("acme", to="eu-2", drain="100ms")

        old, new = seen
        assert old == new
        assert all(old[each] for each in ("message", "delivery", "dead", "parked", "run", "ended", "inbox", "joint"))
        assert all(old[each] for each in ("schedule", "likeness", "lease", "groups", "subscription", "audit"))
        assert (move.step, move.is_over, move.counts["delivery"]) == ("finished", True, 1303)
        assert list(fleet) == ["home", "acme", "bolt"]
        now = fleet["acme"]
        assert now is not acme
        assert {each.name: each.paused_by for each in await now.groups.list()} == {
            "bills": None,
            "mainspring.fleet.shop": None,
            "parcels": "ada",
            "receipts": None,
            "report": None,
        }
        again = await now.publish("orders.shipped", 6, key="six", unique=unique(by="key", scope="1h"))
        assert (again.status, again.id) == ("duplicate", like.id)
        assert not await now.inbox.admit("evt_1", "stripe", b"\x00\xff")
        held = await now.leases.get("nightly")
        assert held is not None
        assert (held.state, held.epoch) == ("held", lease.epoch)


async def test_numbers_go_on_above_those_of_the_old_database(make: Make) -> None:
    urls = make("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        acme = fleet["acme"]
        await acme.declare()
        for _ in range(5):
            lease = await acme.leases.acquire("nightly")
            assert lease is not None
            last_lease = lease.epoch
            await lease.release()
        receipts = await acme.publish_many([("orders.placed", number) for number in range(3)])
        last = max(row for row in await seqs(acme, [each.id for each in receipts]))
        await acme.cancel(receipts[2].id)  # the row with the last number is gone

        await fleet.move("acme", to="eu-2")

        later = await fleet["acme"].leases.acquire("nightly")
        assert later is not None
        assert last_lease < later.epoch
        new = await fleet["acme"].publish("orders.placed", 9)
        assert (await seqs(fleet["acme"], [new.id]))[0] > last


async def seqs(app: Mainspring, ids: list[Any]) -> list[int]:
    found = await app.messages.list(limit=100)
    return [each.seq for each in found if each.message_id in ids]


async def test_a_fleet_serves_the_new_place_under_the_old_name_in_every_process(make: Make) -> None:
    urls = make("home", "acme", "eu-2")
    done: list[int] = []
    app = Mainspring("fleet://", name="shop")

    @app.consumer("orders.placed")
    async def receipts(number: int) -> None:
        done.append(number)

    async with opened(urls, app) as fleet, Fleet(shop(), urls, home="home", refresh="1h") as other:
        assert list(other) == ["home", "acme", "eu-2"]
        async with fleet.worker(**QUICK):
            await fleet.publish("orders.placed", 1, database="acme")
            await until(lambda: done == [1])
            await fleet.move("acme", to="eu-2")
            await fleet.publish("orders.placed", 2, database="acme")
            # This one has not been told: the fence refuses it, and it asks.
            await other.publish("orders.placed", 3, database="acme")
            await other.publish_many([("orders.placed", 4)], database="acme")
            await until(lambda: sorted(done) == [1, 2, 3, 4])

        assert list(other) == ["home", "acme"]
        with pytest.raises(UnknownDatabase):
            other["eu-2"]
        assert (await fleet.health()).status == "healthy"


async def test_the_answer_of_the_application_takes_over_when_it_says_the_same(make: Make) -> None:
    urls = make("home", "acme", "eu-2", "spare")
    answer = {each: urls[each] for each in ("home", "acme", "eu-2")}
    async with opened(dict(urls)) as fleet:
        await fleet.move("acme", to="eu-2")
        await fleet.publish("a", {}, database="acme")

    for named, names in (
        (answer, ["home", "acme"]),
        ({"home": urls["home"], "acme": urls["eu-2"]}, ["home", "acme"]),
        ({"home": urls["home"], "acme": urls["eu-2"], "eu-2": urls["spare"]}, ["home", "acme", "eu-2"]),
    ):
        async with Fleet(shop(), named, home="home") as fleet:
            assert list(fleet) == names
            assert len(await fleet["acme"].messages.list("parked")) == 1


async def test_a_database_may_move_on(make: Make) -> None:
    urls = make("home", "acme", "eu-2", "eu-3")
    async with opened(urls) as fleet:
        await fleet.publish("a", 1, database="acme")
        await fleet.move("acme", to="eu-2")
        await fleet.publish("a", 2, database="acme")
        await fleet.move("acme", to="eu-3")

        assert list(fleet) == ["home", "acme"]
        assert len(await fleet["acme"].messages.list("parked")) == 2
    async with Fleet(shop(), {"home": urls["home"], "eu-2": urls["eu-2"], "acme": urls["eu-3"]}, home="home") as fleet:
        assert list(fleet) == ["home", "eu-2", "acme"]
        assert len(await fleet["acme"].messages.list("parked")) == 2


# --- what is refused while it moves --------------------------------------------------------------------------------


async def test_from_the_fence_on_no_session_writes_to_the_old_database(make: Make) -> None:
    urls = make("home", "acme", "eu-2")
    said: list[str] = []
    async with opened(urls) as fleet:
        acme = fleet["acme"]
        await acme.declare()
        await fleet.publish("orders.placed", 1, database="acme")

        async def on_move(source: Mainspring, target: Mainspring) -> None:
            for app in (source, target):
                for work in (
                    app.leases.acquire("weekly"),
                    app.inbox.admit("evt_1", "stripe"),
                    app.groups.resume("receipts"),
                    app.schedules.pause("reports.daily"),
                ):
                    with pytest.raises(DatabaseMoved, match="moves to 'eu-2', and nothing was stored: try again soon"):
                        await work
            said.extend(refusals(urls["acme"]))
            said.extend(refusals(urls["eu-2"]))
            await refuses_tx(source, urls["acme"], over=False)

        before = content(urls["acme"])
        fleet._on_move = on_move
        await fleet.move("acme", to="eu-2", drain="0s")
        said.extend(refusals(urls["acme"]))
        await refuses_tx(acme, urls["acme"], over=True)

        assert [re.search("database '.*': nothing is stored", each) is not None for each in said] == [True] * len(said)
        assert sum("'acme' moves to 'eu-2'" in each for each in said) == 2 * sum("has moved" in each for each in said)
        after = content(urls["acme"])
        assert after["message"] == before["message"]
        assert after["delivery"] == before["delivery"]
        assert refusals(urls["eu-2"]) == []


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[Any]:
    """A caller's own, with a row in a table of the application."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.rollback()
        return
    async with await psycopg.AsyncConnection.connect(url) as server:
        yield server
        await server.rollback()


async def refuses_tx(app: Mainspring, url: str, *, over: bool) -> None:
    async def publish() -> None:
        if isinstance(tx, sqlite3.Connection):
            app.sync.publish("orders.placed", 2, tx=tx)
        else:
            await app.publish("orders.placed", 2, tx=tx)

    async with transaction(url) as tx:
        with pytest.raises(DatabaseMoved, match="with tx=, begin the" if over else "try again soon") as caught:
            await publish()
        assert (caught.value.name, caught.value.target, caught.value.is_over) == ("acme", "eu-2", over)


async def test_no_transaction_confirms_a_lease_of_the_old_database(servers: Make) -> None:
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        lease = await fleet["acme"].leases.acquire("nightly", "10m")
        assert lease is not None
        async with (
            await psycopg.AsyncConnection.connect(urls["acme"]) as old,
            await psycopg.AsyncConnection.connect(urls["acme"]) as new,
        ):
            await old.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await old.execute("SELECT 1 FROM mainspring.message")  # its snapshot is older than the fence

            async def on_move(source: Mainspring, target: Mainspring) -> None:
                with pytest.raises((LeaseLost, psycopg.errors.SerializationFailure)):
                    await lease.confirm(tx=old)
                with pytest.raises(LeaseLost, match="according to the database"):
                    await lease.confirm(tx=new)

            fleet._on_move = on_move
            await fleet.move("acme", to="eu-2")


async def test_a_transaction_that_has_confirmed_a_lease_is_awaited(servers: Make) -> None:
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        lease = await fleet["acme"].leases.acquire("nightly", "10m")
        assert lease is not None
        told = Told()
        async with await psycopg.AsyncConnection.connect(urls["acme"]) as tx:
            await tx.execute("CREATE TABLE report (number integer)")
            await lease.confirm(tx=tx)
            moving = asyncio.create_task(fleet.move("acme", to="eu-2", drain="0s", progress=told))
            await until(lambda: "is drained" in told.lines)
            await asyncio.wait([moving], timeout=1)
            assert "acme is fenced" not in told.lines
            await tx.commit()
        await moving


async def test_a_transaction_that_has_written_is_awaited_and_part_of_what_moves(servers: Make) -> None:
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        told = Told()
        async with await psycopg.AsyncConnection.connect(urls["acme"]) as tx:
            await fleet.publish("orders.placed", 1, tx=tx)
            moving = asyncio.create_task(fleet.move("acme", to="eu-2", drain="0s", progress=told))
            await until(lambda: "step pause" in told.lines)
            # While the mover waits, other publishers do not wait for long.
            for number in range(3):
                await fleet.publish("orders.placed", number, database="acme")
            assert not moving.done()
            await tx.commit()
        await moving

        assert len(await fleet["acme"].messages.list("parked")) == 4


async def test_a_transaction_that_stays_open_stops_the_mover_and_no_publisher(
    servers: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "_LOCKED_WITHIN", 0.5)
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        async with await psycopg.AsyncConnection.connect(urls["acme"]) as tx:
            await fleet.publish("orders.placed", 1, tx=tx)
            with pytest.raises(
                StorageUnavailable, match=r"'acme' could not be fenced .* `mainspring doctor` tells which"
            ):
                await fleet.move("acme", to="eu-2", drain="0s")
            await fleet.publish("orders.placed", 2, database="acme")
            await tx.commit()

        assert [each.step for each in await fleet.moves()] == ["pause"]
        await fleet.move("acme", to="eu-2")
        assert len(await fleet["acme"].messages.list("parked")) == 2


async def test_what_is_in_hand_at_the_fence_is_taken_over_in_the_new_place(make: Make) -> None:
    urls = make("home", "acme", "eu-2")
    began, release, runs = asyncio.Event(), asyncio.Event(), list[str]()
    slow, quick = Mainspring("fleet://", name="shop", claim_time="3s"), Mainspring("fleet://", name="shop")

    @slow.consumer("orders.placed", group="receipts")
    async def wait(number: int) -> None:
        began.set()
        await release.wait()
        runs.append("old")

    @quick.consumer("orders.placed", group="receipts")
    async def run(number: int) -> None:
        runs.append("new")

    async with Fleet(slow, urls, home="home", refresh="1h") as old, opened(urls, quick) as fleet:
        async with old.worker(databases="acme", **QUICK) as worker:
            await fleet.publish("orders.placed", 1, database="acme")
            await began.wait()
            await fleet.move("acme", to="eu-2", drain="200ms")
            release.set()
            await until(lambda: runs == ["old"])
            async with fleet.worker(**QUICK):
                await until(lambda: runs == ["old", "new"])
                await becomes(lambda: handled(fleet["acme"], 1))
            await until(lambda: worker.open == ())  # although its verdict is lost
        assert [each.state for each in await fleet["acme"].messages.list("done")] == ["done"]
