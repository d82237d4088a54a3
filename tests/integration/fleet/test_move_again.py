"""A move that was stopped goes on or goes back, and what is no move is refused before anything changes."""

import asyncio
import sqlite3
from contextlib import closing

import psycopg
import pytest

from mainspring import NO_RETRY, Context, Fleet, Mainspring
from mainspring.app.fleet import mover
from mainspring.model.errors import Misuse, StorageUnavailable, UnknownDatabase
from tests.integration.fleet.conftest import Make, until
from tests.integration.fleet.moving import Stopped, Told, becomes, content, handled, opened, refusals, shop

# --- stopped, resumed, undone -------------------------------------------------------------------------------------

STOPS = (
    "is prepared",
    "eu-2 is fenced",
    "step pause",
    "is drained",
    "acme is fenced",
    "step copy",
    "rows of delivery",
    "on_move has returned",
    "step verify",
    "is alike",
)
AFTER = ("step reroute", "step resume")


@pytest.mark.parametrize("stop", [*STOPS, *AFTER])
async def test_a_move_that_was_stopped_anywhere_goes_on(files: Make, stop: str) -> None:
    urls = files("home", "acme", "eu-2")
    async with opened(urls, on_move=lambda source, target: None) as fleet:
        await fleet["acme"].declare()
        await fleet.publish_many([("orders.placed", number) for number in range(3)], database="acme")
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", drain="0s", progress=Told(stop))
        await fleet.refresh()
        health = await fleet.health()
        assert "move acme" in [each.name for each in health.checks]
        assert health.status == "degraded"

        move = await fleet.move("acme", to="eu-2", drain="0s")

        assert move.step == "finished"
        assert len(await fleet["acme"].messages.list()) == 3
        assert {each.paused_by for each in await fleet["acme"].groups.list()} == {None}
        await fleet.publish("orders.placed", 4, database="acme")
        assert refusals(urls["acme"])


@pytest.mark.parametrize("stop", STOPS)
async def test_a_move_that_was_stopped_before_it_is_rerouted_can_be_undone(files: Make, stop: str) -> None:
    urls = files("home", "acme", "eu-2")
    async with opened(urls, on_move=lambda source, target: None) as fleet:
        await fleet["acme"].declare()
        await fleet.publish_many([("orders.placed", number) for number in range(3)], database="acme")
        lease = await fleet["acme"].leases.acquire("nightly", "10m")
        assert lease is not None
        before = content(urls["acme"])
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", drain="0s", progress=Told(stop))

        move = await fleet.undo_move("acme")

        assert move.step == "undone"
        after = content(urls["acme"])
        assert {each for each in before if before[each] != after[each]} <= {"audit", "counter"}
        assert not content(urls["eu-2"])["message"]
        await fleet.publish("orders.placed", 4, database="acme")
        await fleet.publish("orders.placed", 5, database="eu-2")
        assert list(fleet) == ["home", "acme", "eu-2"]
        with pytest.raises(Misuse, match="no move of 'acme' is under way"):
            await fleet.undo_move("acme")


@pytest.mark.parametrize("stop", AFTER)
async def test_nothing_goes_back_once_it_is_rerouted(files: Make, stop: str) -> None:
    urls = files("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", progress=Told(stop))

        with pytest.raises(Misuse, match="'acme' is served in 'eu-2' already, which may have accepted writes"):
            await fleet.undo_move("acme")


async def test_a_transaction_of_a_handler_that_the_fence_refuses_is_no_failed_attempt(make: Make) -> None:
    urls = make("home", "acme", "eu-2")
    began, release, attempts = asyncio.Event(), asyncio.Event(), list[int]()
    app = Mainspring("fleet://", name="shop")

    @app.consumer("orders.placed", transactional=True, retry=NO_RETRY)
    async def receipts(number: int, ctx: Context) -> None:
        began.set()
        await release.wait()
        attempts.append(ctx.attempt)
        await ctx.tx.execute("INSERT INTO effect VALUES (1)")

    async with opened(urls, app) as fleet, fleet.worker(longest_pause="500ms", idle="500ms"):
        execute(urls["acme"], "CREATE TABLE effect (number integer)")
        await fleet.publish("orders.placed", 1, database="acme")
        await began.wait()
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", drain="0s", progress=Told("step verify"))
        release.set()
        await until(lambda: attempts == [1])
        await fleet.undo_move("acme")

        await until(lambda: len(attempts) > 1)
        await becomes(lambda: handled(fleet["acme"], 1))
        assert set(attempts) == {1}
        assert await fleet["acme"].dead.list() == []
    assert execute(urls["acme"], "SELECT count(*) FROM effect") == [(1,)]


def execute(url: str, statement: str) -> list[tuple[int, ...]]:
    """Run a statement on a table of the application."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            return file.execute(statement).fetchall()
    with psycopg.connect(url) as server:
        cursor = server.execute(statement)
        return cursor.fetchall() if cursor.description else []


def connectable(url: str, *, is_so: bool) -> None:
    """Let a server accept connections to a database, or none."""
    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as server:
        name = url.rpartition("/")[2]
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {is_so}')
        if not is_so:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


async def test_a_customer_is_served_where_it_was_again_although_its_new_place_is_away(servers: Make) -> None:
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        await fleet.publish("a", 1, database="acme")
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", progress=Told("step verify"))
        connectable(urls["eu-2"], is_so=False)

        with pytest.raises(StorageUnavailable, match="'acme' is served where it was again, and 'eu-2' is not emptied"):
            await fleet.undo_move("acme")
        await fleet.publish("a", 2, database="acme")
        with pytest.raises(Misuse, match=r"is being undone: call fleet.undo_move\('acme'\)"):
            await fleet.move("acme", to="eu-2")

        connectable(urls["eu-2"], is_so=True)
        assert (await fleet.undo_move("acme")).step == "undone"
        assert not content(urls["eu-2"])["message"]


async def test_a_customer_is_served_in_its_new_place_although_the_old_one_is_away(servers: Make) -> None:
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        await fleet.publish("a", 1, database="acme")
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", progress=Told("step reroute"))
        connectable(urls["acme"], is_so=False)
        try:
            assert (await fleet.move("acme", to="eu-2")).step == "finished"
            await fleet.publish("a", 2, database="acme")
        finally:
            connectable(urls["acme"], is_so=True)
        assert len(await fleet["acme"].messages.list("parked")) == 2


async def test_a_mover_that_only_stood_still_changes_nothing_any_more(make: Make) -> None:
    urls = make("home", "acme", "eu-2")
    async with opened(urls, on_move=lambda source, target: None) as fleet:
        await fleet.publish("a", 1, database="acme")
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", progress=Told("on_move has returned"))
        stale = (await fleet.moves())[0].epoch
        await fleet.move("acme", to="eu-2")
        acme = (await fleet["acme"]._connection.opening("test")).storage
        old = (await fleet["home"]._connection.opening("test")).storage

        assert not await acme.transfer.clear("parked", stale)
        assert not await acme.transfer.write("parked", [], stale)
        assert not await acme.transfer.lift_fence(stale)
        assert not await old.moves.note((await fleet.moves())[0], stale, "undo", {})
        await acme.transfer.close()
        assert len(await fleet["acme"].messages.list("parked")) == 1


async def test_a_table_that_differs_is_found_and_copied_again(make: Make) -> None:
    urls = make("home", "acme", "eu-2")

    async def spoil(source: Mainspring, target: Mainspring) -> None:
        storage = (await target._connection.opening("test")).storage
        (move,) = await fleet.moves()
        await storage.transfer.clear("parked", move.epoch)
        await storage.transfer.close()

    async with opened(urls, on_move=spoil) as fleet:
        await fleet.publish("a", 1, database="acme")
        with pytest.raises(Exception, match="parked is not alike in 'acme' and 'eu-2': 1 rows and 0"):
            await fleet.move("acme", to="eu-2")
        fleet._on_move = None
        await fleet.move("acme", to="eu-2")

        assert len(await fleet["acme"].messages.list("parked")) == 1


# --- what is no move ------------------------------------------------------------------------------------------------


async def test_a_move_that_cannot_be_is_refused_and_changes_nothing(files: Make, servers: Make) -> None:
    urls = {**files("home", "acme", "full"), **servers("server")}
    gone = {"gone": "sqlite:////nowhere/at/all/gone.db"}
    async with opened({**urls, "eu-2": files("eu-2")["eu-2"]}) as fleet:
        await fleet.publish("a", 1, database="full")
        for name, to, error in (
            ("acme", "eu-3", r"'eu-3' is no database of the fleet.*Did you mean 'eu-2'"),
            ("acm", "eu-2", r"'acm' is no database of the fleet"),
            ("acme", "acme", "that is the same database"),
            ("acme", "home", "'home' is the home of the fleet"),
            ("home", "eu-2", "'home' is the home of the fleet"),
            ("acme", "server", "'acme' is on sqlite, and 'server' on postgresql"),
            ("acme", "full", "'full' has content of its own, in message, parked"),
        ):
            with pytest.raises(Misuse, match=error):
                await fleet.move(name, to=to)
        assert await fleet.moves() == []
        await fleet.publish("a", 1, database="acme")
        await fleet.publish("a", 1, database="full")
    async with Fleet(shop(), {**urls, **gone}, home="home") as fleet:
        with pytest.raises(Exception, match="database 'gone': the directory '/nowhere/at/all' of"):
            await fleet.move("acme", to="gone")
    with pytest.raises(Misuse, match=r"fleet.move\(\) needs a database .* write Fleet\(…, home='acme'\)"):
        await Fleet(shop(), urls).move("acme", to="full")


async def test_one_database_under_two_addresses_is_refused(servers: Make) -> None:
    urls = servers("home", "acme")
    alias = urls["acme"].replace("127.0.0.1", "localhost")
    assert alias != urls["acme"]
    async with opened({**urls, "eu-2": alias}) as fleet:
        with pytest.raises(Misuse, match="'acme' and 'eu-2' are one database under two addresses"):
            await fleet.move("acme", to="eu-2")


async def test_a_schema_of_another_version_is_refused(servers: Make) -> None:
    urls = servers("home", "acme", "eu-2")
    async with opened(urls) as fleet:
        with psycopg.connect(urls["acme"]) as server:
            server.execute("INSERT INTO mainspring.migration VALUES (999, '0999_later', 'x', false, now())")
        with pytest.raises(Misuse, match="the schema of 'acme' is at version 999, and that of 'eu-2' at"):
            await fleet.move("acme", to="eu-2")
        assert await fleet.moves() == []


async def test_only_one_mover_moves_a_database(files: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "_WAIT", "100ms")
    urls = files("home", "acme", "eu-2", "eu-3")
    holds, go = asyncio.Event(), asyncio.Event()

    async def on_move(source: Mainspring, target: Mainspring) -> None:
        holds.set()
        await go.wait()

    async with opened(urls, on_move=on_move) as fleet:
        moving = asyncio.create_task(fleet.move("acme", to="eu-2"))
        await holds.wait()
        for other in (fleet.move("acme", to="eu-2"), fleet.undo_move("acme")):
            with pytest.raises(Misuse, match="is at it at this moment"):
                await other
        with pytest.raises(Misuse, match="this database belongs to the move of 'acme' to 'eu-2', which is under way"):
            await fleet.move("eu-2", to="eu-3")
        go.set()
        await moving
        with pytest.raises(UnknownDatabase):
            await fleet.move("acme", to="eu-2")


async def test_a_move_to_elsewhere_is_refused_while_one_is_under_way(files: Make) -> None:
    urls = files("home", "acme", "eu-2", "eu-3")
    async with opened(urls) as fleet:
        with pytest.raises(Stopped):
            await fleet.move("acme", to="eu-2", progress=Told("step copy"))
        with pytest.raises(Misuse, match="'acme' moves to 'eu-2' already, step copy"):
            await fleet.move("acme", to="eu-3")
