"""Publishing through a fleet: by name, by route, by transaction; and what is rejected."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring import Fleet, Mainspring, RoutedMessage
from mainspring.model.errors import BadHandle, BadOption, Misuse, NotOpen, NotRouted, SchemaMissing, UnknownDatabase
from tests.integration.fleet.conftest import Make, until


def by_tenant(message: RoutedMessage) -> str | None:
    tenant: str | None = message.payload.get("tenant")
    return tenant


def made(urls: dict[str, str], route: Any = by_tenant) -> Fleet:
    return Fleet(Mainspring("fleet://", name="shop"), urls, route=route)


async def topics(fleet: Fleet) -> dict[str, list[str]]:
    """What is stored in each database, by topic."""
    return {name: sorted(each.topic for each in (await fleet[name].messages.list("parked"))) for name in fleet}


async def test_a_message_goes_where_its_route_or_its_caller_says(files: Make) -> None:
    seen: list[RoutedMessage] = []

    def noted(message: RoutedMessage) -> str | None:
        seen.append(message)
        return by_tenant(message)

    async with made(files("acme", "bolt"), noted) as fleet:
        await fleet.publish("a", {"tenant": "acme"}, key="7", headers={"x": "y"})
        await fleet.publish("b", {"tenant": "acme"}, database="bolt")
        await fleet["bolt"].publish("c", {"tenant": "acme"})

        assert await topics(fleet) == {"acme": ["a"], "bolt": ["b", "c"]}
        assert seen == [RoutedMessage("a", {"tenant": "acme"}, "7", {"x": "y"})]


async def test_many_messages_go_to_their_databases_and_receipts_keep_their_order(files: Make) -> None:
    async with made(files("acme", "bolt")) as fleet:
        names = ["bolt", "acme", "bolt"]
        receipts = await fleet.publish_many(("a", {"tenant": name, "n": n}) for n, name in enumerate(names))

        stored = {name: [each.message_id for each in await fleet[name].messages.list("parked")] for name in fleet}
        assert [receipt.id in stored[name] for receipt, name in zip(receipts, names, strict=True)] == [True] * 3
        assert len(stored["bolt"]) == 2


async def test_a_cancel_finds_its_database_as_a_publish_does(files: Make) -> None:
    async with made(files("acme", "bolt"), lambda message: str(message.key).partition(":")[0]) as fleet:
        await fleet.publish("a", {}, key="acme:1", delay="1h")
        receipt = await fleet.publish("a", {}, key="bolt:1", delay="1h")

        by_key = await fleet.cancel("a", key="acme:1")
        by_id = await fleet.cancel(receipt, database="bolt")
        with pytest.raises(NotRouted, match=r"fleet\.cancel"):
            await fleet.cancel(receipt)

        assert (by_key.cancelled, by_id.cancelled) == (1, 1)


@pytest.mark.parametrize(
    ("route", "options", "error", "text"),
    [
        (None, {}, NotRouted, "pass database='acme', or give the fleet a function"),
        (lambda _message: None, {}, NotRouted, "route returned None for topic 'a'"),
        (lambda _message: "acmee", {}, NotRouted, "'acmee' is no database of the fleet. Did you mean 'acme'?"),
        (lambda message: message.payload["x"], {}, NotRouted, "route has raised for topic 'a': KeyError: 'x'"),
        (None, {"database": "bolt"}, UnknownDatabase, "There are: acme. If it is new, `await fleet.refresh()`"),
    ],
)
async def test_what_names_no_database_is_an_error(
    files: Make, route: Any, options: dict[str, str], error: type[Misuse], text: str
) -> None:
    async with made(files("acme"), route) as fleet:
        with pytest.raises(error) as raised:
            await fleet.publish("a", {}, **options)  # type: ignore[arg-type]

        assert text in str(raised.value)
        assert await topics(fleet) == {"acme": []}


def test_a_database_that_is_not_there_is_a_key_error(files: Make) -> None:
    fleet = made(files("acme"))

    with pytest.raises(KeyError) as raised:
        fleet["acne"]

    assert str(raised.value).startswith("'acne' is no database of the fleet. Did you mean 'acme'? There are: acme.")
    assert ("acme" in fleet, "acne" in fleet, list(fleet), len(fleet)) == (True, False, ["acme"], 1)


async def test_a_fleet_that_is_not_open_stores_nothing(files: Make) -> None:
    with pytest.raises(NotOpen, match="async with fleet:"):
        await made(files("acme")).publish("a", {}, database="acme")


async def test_a_database_closes_after_a_time_without_use_unless_a_lease_is_held_there(files: Make) -> None:
    async with Fleet(Mainspring("fleet://", name="shop"), files("acme", "bolt"), idle="10ms") as fleet:
        lease = await fleet["acme"].leases.acquire("nightly")
        await fleet["bolt"].publish("a", {})
        await asyncio.to_thread(fleet["bolt"].sync.publish, "b", {})
        connections = [fleet["bolt"]._own.connection, fleet["bolt"]._own.place.back.connection]
        await until(lambda: not any(each.is_open for each in connections))

        assert lease is not None
        assert not lease.lost
        assert fleet["acme"]._own.connection.is_open
        await lease.release()
        await until(lambda: not fleet["acme"]._own.connection.is_open)
        assert await topics(fleet) == {"acme": [], "bolt": ["a", "b"]}


async def test_of_many_databases_those_used_last_stay_open(files: Make) -> None:
    names = [f"t{n}" for n in range(6)]
    async with Fleet(Mainspring("fleet://", name="shop"), files(*names), keep_open=2) as fleet:
        for name in names:
            await fleet[name].publish("a", {})
        await until(lambda: sum(fleet[name]._own.connection.is_open for name in names) == 2)

        assert [name for name in names if fleet[name]._own.connection.is_open] == ["t4", "t5"]
        assert await topics(fleet) == {name: ["a"] for name in names}


async def test_the_app_that_leads_a_fleet_names_the_fleet(files: Make) -> None:
    app = Mainspring("fleet://", name="shop")
    Fleet(app, files("acme"))

    with pytest.raises(NotOpen, match=r"await fleet.publish\(…\)"):
        await app.publish("a", {})
    with pytest.raises(Misuse, match="fleet://"):
        async with app:
            pass


async def test_an_app_with_a_database_of_its_own_may_lead_a_fleet(files: Make, tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/home.db", name="shop")
    fleet = Fleet(app, files("acme"))

    async with app, fleet:
        await app.publish("at.home", {})
        await fleet.publish("abroad", {}, database="acme")

        assert [each.topic for each in (await app.messages.list("parked"))] == ["at.home"]
        assert await topics(fleet) == {"acme": ["abroad"]}


async def test_a_transaction_decides_the_database(servers: Make) -> None:
    urls = servers("acme", "bolt")
    async with made(urls, None) as fleet:
        await fleet.migrate()
        connection = await asyncpg.connect(urls["bolt"])
        async with connection.transaction():
            await fleet.publish("a", {}, tx=connection)
        undone = connection.transaction()
        await undone.start()
        await fleet.publish("b", {}, tx=connection, database="bolt")
        await undone.rollback()
        await connection.close()

        assert await topics(fleet) == {"acme": [], "bolt": ["a"]}


async def test_a_transaction_of_another_database_than_is_named_is_rejected(servers: Make, postgres_url: str) -> None:
    urls = servers("acme", "bolt")
    async with made(urls) as fleet:
        await fleet.migrate()
        connection = await asyncpg.connect(urls["bolt"])
        stranger = await asyncpg.connect(postgres_url)
        async with connection.transaction(), stranger.transaction():
            with pytest.raises(BadHandle, match="route, for 'a', names 'acme', and tx= is a transaction of 'bolt'"):
                await fleet.publish("a", {"tenant": "acme"}, tx=connection)
            with pytest.raises(BadHandle, match="database='acme' names 'acme'"):
                await fleet.cancel("a", key="7", tx=connection, database="acme")
            with pytest.raises(BadHandle, match=r"which is not in the fleet \(acme, bolt\)"):
                await fleet.publish("a", {"tenant": "acme"}, tx=stranger)
        await connection.close()
        await stranger.close()

        assert await topics(fleet) == {"acme": [], "bolt": []}


async def test_the_transaction_of_a_file_decides_for_blocking_code(files: Make, tmp_path: Path) -> None:
    fleet = made(files("acme", "bolt"))
    await fleet.migrate()

    connection = sqlite3.connect(tmp_path / "bolt.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    fleet["bolt"].sync.publish("a", {}, tx=connection)
    with pytest.raises(BadHandle, match=r"acme\.db"):
        fleet["acme"].sync.publish("b", {}, tx=connection)
    connection.execute("COMMIT")
    connection.close()

    async with fleet:
        assert await topics(fleet) == {"acme": [], "bolt": ["a"]}


async def test_an_unmigrated_database_is_named_with_what_to_do(servers: Make) -> None:
    urls = servers("acme", "bolt")
    async with made(urls) as fleet:
        await fleet.migrate(databases=["bolt"])

        with pytest.raises(SchemaMissing) as raised:
            await fleet.publish("a", {"tenant": "acme"})
        await fleet.publish("a", {"tenant": "bolt"})

        assert str(raised.value).startswith("database 'acme': the database has no Mainspring schema")
        assert str(raised.value).endswith("; or `await fleet.migrate()`")


@pytest.mark.parametrize(
    ("databases", "text"),
    [
        ({"": "sqlite:///a.db"}, "must be 1 to 200 characters"),
        ({"a\x00": "sqlite:///a.db"}, "control character"),
        ({"a": "shop.db"}, "'a': the database URL has no scheme"),
        ({"a": "fleet://"}, "fleet:// is no database"),
        ({"a": "sqlite:///x/../s.db", "b": "sqlite:///s.db"}, "'b' and 'a' are the same database"),
        ({"a": "postgresql://u:secret@h/s", "b": "postgresql://v@h:5432/s"}, "'b' and 'a' are the same database"),
        ("sqlite:///a.db", "pass a mapping of names to URLs"),
    ],
)
def test_databases_that_cannot_be_used_are_rejected_where_they_are_written(databases: Any, text: str) -> None:
    with pytest.raises(BadOption) as raised:
        Fleet(Mainspring("fleet://", name="shop"), databases)

    assert text in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_a_database_is_not_closed_between_its_opening_and_the_call_it_was_opened_for(files: Make) -> None:
    async with made(files("acme")) as fleet:
        member = fleet._members["acme"]

        async def close_it() -> None:
            while True:
                await member.hang_up()  # as the end of a look does, and the end of a turn
                await asyncio.sleep(0)

        task = asyncio.create_task(close_it())
        for _ in range(20):
            await fleet.publish("a", {}, database="acme")
        task.cancel()

        assert (await topics(fleet))["acme"] == ["a"] * 20
