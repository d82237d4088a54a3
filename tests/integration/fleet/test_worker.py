"""The worker of a fleet: in turns, at no cost for the idle, in spite of the dead."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from mainspring import Fleet, Mainspring
from mainspring.model.errors import BadOption, Misuse, SchemaMissing
from tests.integration.fleet.conftest import Make, until
from tests.services.postgres import new_database, private_server

QUICK: dict[str, Any] = {"longest_pause": "1s", "idle": "1s"}


class Shop:
    """An app that notes what it has handled, by database."""

    def __init__(self) -> None:
        self.app = Mainspring("fleet://", name="shop")
        self.done: dict[str, list[int]] = {}
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.app.consumer("orders.placed")(self._handled)
        self.app.consumer("orders.held")(self._waited)

    async def _handled(self, order: dict[str, Any]) -> None:
        self.done.setdefault(order["tenant"], []).append(order["n"])

    async def _waited(self, order: dict[str, Any]) -> None:
        self.held.set()
        await self.release.wait()
        await self._handled(order)

    @property
    def count(self) -> int:
        return sum(map(len, self.done.values()))


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_twenty_databases_take_turns_and_none_starves(
    shop: Shop, files: Make, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"t{n:02}" for n in range(20)]
    most = 0
    caplog.set_level(logging.DEBUG, "mainspring.fleet")
    async with Fleet(shop.app, files(*names)) as fleet:
        await fleet.declare()
        await fleet["t00"].publish_many(("orders.placed", {"tenant": "t00", "n": n}) for n in range(3_000))
        for name in names[1:]:
            await fleet.publish("orders.placed", {"tenant": name, "n": 0}, database=name)
        async with fleet.worker(most_open=3, **QUICK) as worker:
            while shop.count < 3_019:
                most = max(most, len(worker.open))
                await asyncio.sleep(0.02)

    assert {name: len(handled) for name, handled in shop.done.items()} == dict.fromkeys(names, 1) | {"t00": 3_000}
    assert 1 <= most <= 3
    # However much one has to do, it is served again only after all that waited.
    starts = [each.getMessage().partition(":")[0] for each in caplog.records if "its worker starts" in each.message]
    firsts = {name: starts.index(name) for name in names}
    again = [place for place, name in enumerate(starts) if name == "t00"][1:2]
    assert all(first < 3 * len(names) for first in firsts.values())
    assert not again or again[0] >= 3


async def test_a_full_database_makes_room_for_another(shop: Shop, files: Make) -> None:
    async with Fleet(shop.app, files("full", "light")) as fleet:
        await fleet.declare()
        held = asyncio.create_task(shop.held.wait())
        await fleet.publish("orders.held", {"tenant": "full", "n": 0}, database="full")
        async with fleet.worker(most_open=1, **QUICK) as worker:
            await held
            await fleet.publish("orders.placed", {"tenant": "light", "n": 0}, database="light")
            await fleet.publish("orders.placed", {"tenant": "full", "n": 1}, database="full")
            # What is in hand is finished, however long it takes: nothing is cancelled to make room.
            shop.release.set()
            await until(lambda: shop.count == 3)
            assert worker.troubles == {}

    assert {name: sorted(numbers) for name, numbers in shop.done.items()} == {"full": [0, 1], "light": [0]}


async def test_idle_databases_hold_no_connection(shop: Shop, servers: Make, postgres_url: str) -> None:
    urls = servers("acme", "bolt", "cask")
    fleet = Fleet(shop.app, urls, idle="200ms")
    await fleet.migrate()

    async def connections() -> int:
        called = [url.rpartition("/")[2] for url in urls.values()]
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY (%s)"
            row = await (await connection.execute(sql, [called])).fetchone()
            assert row is not None
            return int(row[0])

    async with fleet.worker(longest_pause="1h", idle="300ms") as worker:
        await fleet.publish("orders.placed", {"tenant": "acme", "n": 0}, database="acme")
        await until(lambda: shop.count == 1)
        await until(lambda: not worker.open)
        async with asyncio.timeout(60):
            while await connections():
                await asyncio.sleep(0.05)

        await fleet.publish("orders.placed", {"tenant": "acme", "n": 1}, database="acme")
        await until(lambda: shop.count == 2)


async def test_what_another_process_publishes_is_found(shop: Shop, servers: Make) -> None:
    urls = servers("acme")
    elsewhere = Mainspring(urls["acme"], name="shop")
    await elsewhere.migrate()

    async with Fleet(shop.app, urls).worker(**QUICK), elsewhere:
        await elsewhere.publish("orders.placed", {"tenant": "acme", "n": 0})
        await until(lambda: shop.count == 1)
        await elsewhere.publish("orders.placed", {"tenant": "acme", "n": 1}, delay="1500ms")
        await until(lambda: shop.count == 2)


async def test_a_dead_server_stops_no_other_database_and_heals(
    shop: Shop, tmp_path: Path, files: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with private_server(tmp_path) as server, new_database(server.url, f"fleet_{uuid4().hex[:8]}") as url:
        fleet = Fleet(shop.app, {"dead": url, **files("alive")})
        await fleet.migrate()
        async with fleet.worker(**QUICK) as worker:
            await fleet.publish("orders.placed", {"tenant": "dead", "n": 0}, database="dead")
            await until(lambda: shop.count == 1)
            server.kill()
            await until(lambda: "dead" in worker.troubles)
            for n in range(5):
                await fleet.publish("orders.placed", {"tenant": "alive", "n": n}, database="alive")
            await until(lambda: len(shop.done.get("alive", ())) == 5)
            assert (await fleet.health()).status == "degraded"

            server.start()
            await until(lambda: "dead" not in worker.troubles)
            await fleet.publish("orders.placed", {"tenant": "dead", "n": 1}, database="dead")
            await until(lambda: len(shop.done["dead"]) == 2)

    assert sum("dead: waits until" in each.message for each in caplog.records) == 1


async def test_an_unmigrated_database_waits_and_the_others_go_on(shop: Shop, servers: Make) -> None:
    urls = servers("new", "old")
    fleet = Fleet(shop.app, urls)
    await fleet.migrate(databases="old")

    async with fleet.worker(**QUICK) as worker:
        await fleet.publish("orders.placed", {"tenant": "old", "n": 0}, database="old")
        await until(lambda: shop.count == 1 and "new" in worker.troubles)
        assert "SchemaMissing" in worker.troubles["new"]

        await fleet.migrate(databases="new")
        await fleet.publish("orders.placed", {"tenant": "new", "n": 0}, database="new")
        await until(lambda: shop.count == 2)


async def test_a_database_that_is_too_new_waits_and_the_others_go_on(shop: Shop, servers: Make) -> None:
    urls = servers("new", "old")
    fleet = Fleet(shop.app, urls)
    await fleet.migrate()
    connection = await asyncpg.connect(urls["new"])
    await connection.execute("INSERT INTO mainspring.migration VALUES (999, 'later', '', true, now())")
    await connection.close()

    async with fleet.worker(**QUICK) as worker:
        await fleet.publish("orders.placed", {"tenant": "old", "n": 0}, database="old")
        await until(lambda: shop.count == 1 and "new" in worker.troubles)

        assert "SchemaTooNew: the database is at schema version 999" in worker.troubles["new"]


async def test_a_server_that_never_answers_delays_neither_the_others_nor_the_end(shop: Shop, files: Make) -> None:
    asked = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        urls = {f"silent-{n}": f"postgresql://ann@127.0.0.1:{port}/silent_{n}" for n in range(40)}
        fleet = Fleet(shop.app, {**urls, **files("alive")})
        async with asyncio.timeout(9):  # less than a look at one of them takes
            async with fleet.worker(**QUICK):
                await until(lambda: asked >= 16)
                await fleet.publish("orders.placed", {"tenant": "alive", "n": 0}, database="alive")
                await until(lambda: shop.count == 1)


async def test_a_worker_whose_server_dies_with_work_in_hand_ends_all_the_same(
    shop: Shop, tmp_path: Path, files: Make
) -> None:
    shop.app = Mainspring("fleet://", name="shop", grace="1s")
    shop.app.consumer("orders.held")(shop._waited)
    with private_server(tmp_path) as server, new_database(server.url, f"fleet_{uuid4().hex[:8]}") as url:
        fleet = Fleet(shop.app, {"dead": url, **files("alive")})
        await fleet.migrate()
        async with fleet.worker(most_open=1, **QUICK) as worker:
            await fleet.publish("orders.held", {"tenant": "dead", "n": 0}, database="dead")
            await shop.held.wait()
            server.kill()
            await until(lambda: "dead" in worker.troubles)
            # The dead one has the only turn no longer, although its handler still runs.
            shop.release.set()
            await fleet.publish("orders.held", {"tenant": "alive", "n": 0}, database="alive")
            await until(lambda: shop.done.get("alive") == [0])
        server.start()


async def test_only_the_chosen_databases_are_served(shop: Shop, files: Make) -> None:
    fleet = Fleet(shop.app, files("eu-1", "eu-2", "us-1"))

    async with fleet.worker(databases="eu-*", **QUICK):
        for name in fleet:
            await fleet.publish("orders.placed", {"tenant": name, "n": 0}, database=name)
        await until(lambda: shop.count == 2)

    assert sorted(shop.done) == ["eu-1", "eu-2"]


async def test_options_that_make_no_sense_are_rejected(shop: Shop, files: Make) -> None:
    fleet = Fleet(shop.app, files("acme"))

    with pytest.raises(BadOption, match="most_open"):
        async with fleet.worker(most_open=0):
            pass
    with pytest.raises(BadOption, match="a pattern, as in 'eu-\\*'"):
        async with fleet.worker(databases=7):  # type: ignore[arg-type]
            pass
    with pytest.raises(Misuse, match="no consumer is registered"):
        async with Fleet(Mainspring("fleet://", name="shop"), files("acme")).worker():
            pass


SCRIPT = """
import sys
from mainspring import Fleet, Mainspring

app = Mainspring("fleet://", name="shop")


@app.consumer("orders.placed")
async def receipts(order: dict) -> None:
    print("handled", order["n"], flush=True)


Fleet(app, {name: f"sqlite:///{sys.argv[1]}/{name}.db" for name in ("acme", "bolt")}).run(longest_pause="200ms")
print("stopped", flush=True)
"""


async def test_a_script_works_until_it_is_told_to_stop(files: Make, tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(SCRIPT)
    async with Fleet(Mainspring("fleet://", name="shop"), files("acme", "bolt")) as fleet:
        child = await asyncio.create_subprocess_exec(
            sys.executable, script, tmp_path, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
        )
        assert child.stdout is not None
        async with asyncio.timeout(60):
            await fleet.publish("orders.placed", {"n": 7}, database="bolt")
            assert await child.stdout.readline() == b"handled 7\n"
            child.terminate()
            assert await child.stdout.readline() == b"stopped\n"
            assert await child.wait() == 0


async def test_reports_name_what_failed_and_the_rest_is_done(shop: Shop, servers: Make) -> None:
    urls = {**servers("acme", "bolt"), "gone": "postgresql://nobody@127.0.0.1:1/none"}
    fleet = Fleet(shop.app, urls)

    migrated = await fleet.migrate()
    declared = await fleet.declare(databases=["acme"])
    health = await fleet.health(databases="[ab]*")
    sick = await fleet.health()
    connection = await asyncpg.connect(urls["bolt"])
    await connection.execute("DROP SCHEMA mainspring CASCADE")
    await connection.close()
    pruned = await fleet.prune(databases=["acme", "bolt"])

    assert list(migrated.results) == ["acme", "bolt"]
    assert list(migrated.errors) == ["gone"]
    assert not migrated.ok
    assert str(migrated).startswith("2 done, 1 failed\n  gone: StorageUnavailable: ")
    assert [each.group for each in declared.results["acme"]] == ["_handled", "_waited"]
    assert (health.status, list(health.databases)) == ("healthy", ["acme", "bolt"])
    assert sick.status == "degraded"
    assert (list(pruned.results), isinstance(pruned.errors["bolt"], SchemaMissing)) == (["acme"], True)
    assert (await fleet.health(databases="gone")).status == "unhealthy"
