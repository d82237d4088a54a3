"""The kit in a transaction, on tables in which others have stored theirs: it runs what the test has published."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import Context, Mainspring, Testing


def shop(url: str, schema: str) -> Mainspring:
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)

    @app.consumer("orders.placed")
    async def confirm(order: int, ctx: Context) -> None:
        await ctx.publish("orders.confirmed", order, delay="1d")

    @app.consumer("orders.confirmed")
    async def thank(order: int) -> None:
        pass

    @app.consumer("orders.placed", batch=10, linger="0s")
    async def count(orders: list[int]) -> None:
        pass

    @app.consumer("orders.placed", rate="100/1m", key_concurrency=1)
    async def bill(order: int) -> None:
        pass

    @app.recurring(f"0 {(datetime.now(UTC).hour + 12) % 24} * * *")  # not within the hour, whenever the test runs
    async def nightly() -> None:
        pass

    return app


def other(url: str, schema: str) -> Mainspring:
    app = Mainspring(url, name="other", schema=schema)

    @app.consumer("orders.placed")
    async def track(order: int) -> None:
        pass

    return app


@pytest.fixture(params=["asyncpg", "psycopg", "async psycopg", "sqlite3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path, postgres_url: str, postgres_schema: str) -> tuple[str, str]:
    if kind == "sqlite3":
        return f"sqlite:///{tmp_path}/shop.db", "mainspring"
    return postgres_url, postgres_schema


@asynccontextmanager
async def transaction(kind: str, url: str) -> AsyncIterator[Any]:
    """The test's own, rolled back at the end."""
    async with AsyncExitStack() as stack:
        if kind == "asyncpg":
            connection: Any = await asyncpg.connect(url)
            stack.push_async_callback(connection.close)
            begun = connection.transaction()
            await begun.start()
            stack.push_async_callback(begun.rollback)
        elif kind == "psycopg":
            connection = stack.enter_context(closing(psycopg.connect(url)))
        elif kind == "async psycopg":
            connection = await psycopg.AsyncConnection.connect(url)
            stack.push_async_callback(connection.close)
        else:
            connection = stack.enter_context(closing(sqlite3.connect(url.removeprefix("sqlite:///"))))
        yield connection


async def committed(place: tuple[str, str]) -> None:
    """What was there before: of this app, due and delayed and dead, and of another one."""
    async with shop(*place) as app, other(*place) as theirs:
        await app.declare()
        await theirs.declare()
        await app.publish("orders.placed", 1)
        await app.publish("orders.placed", 2, delay="1h")
        await theirs.publish("orders.placed", 3)
        await app.publish("mail.sent", 4)  # parked


def ran(kit: Testing) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for each in kit.runs:
        groups.setdefault(each.group, []).append(each.payload)
    return groups


async def test_what_was_committed_before_is_neither_run_nor_shown(kind: str, place: tuple[str, str]) -> None:
    await committed(place)
    app = shop(*place)

    async with transaction(kind, place[0]) as tx, app.testing(tx=tx) as kit:
        before = kit.pending, kit.dead
        drained = await kit.drain()
        await app.publish("orders.placed", 7)
        pending = {each.group for each in kit.pending}
        await kit.advance("1h")
        first = ran(kit)
        await kit.advance("2d")
        then = ran(kit)

    assert before == ([], [])
    assert drained == []
    assert pending == {"confirm", "count", "bill", "track"}
    assert first == {"confirm": [7], "count": [7], "bill": [7]}
    assert {group: runs for group, runs in then.items() if group != "nightly"} == {**first, "thank": [7]}
    assert len(then["nightly"]) == 2


async def test_what_others_commit_while_the_test_runs_is_not_run_either(kind: str, place: tuple[str, str]) -> None:
    if kind == "sqlite3":
        pytest.skip("while the test writes, nobody else does")
    await committed(place)
    app = shop(*place)

    async with transaction(kind, place[0]) as tx, app.testing(tx=tx) as kit:
        await app.publish("orders.placed", 7)
        async with other(*place) as theirs:
            await theirs.publish("orders.placed", 8)
        await app.publish("orders.placed", 9)
        await kit.advance("1h")  # what they have published is due by the clock of the database
        runs = ran(kit)

    assert runs == {"confirm": [7, 9], "count": [7, 9], "bill": [7, 9]}


async def test_what_was_committed_runs_where_that_is_asked_for(kind: str, place: tuple[str, str]) -> None:
    await committed(place)
    app = shop(*place)

    async with transaction(kind, place[0]) as tx, app.testing(tx=tx, committed=True) as kit:
        await app.publish("orders.placed", 7)
        await kit.drain()
        runs = ran(kit)

    assert runs == {"confirm": [1, 3, 7], "count": [1, 3, 7], "bill": [1, 3, 7]}


async def test_a_paused_group_runs_nothing_of_the_tests_own(kind: str, place: tuple[str, str]) -> None:
    await committed(place)
    app = shop(*place)

    async with transaction(kind, place[0]) as tx, app.testing(tx=tx) as kit:
        await app.publish("orders.placed", 7)
        await app.groups.pause("confirm", by="ann", reason="upgrade")
        await kit.drain()
        while_paused = ran(kit)
        await app.groups.resume("confirm", by="ann")
        await kit.drain()
        resumed = ran(kit)

    assert while_paused == {"count": [7], "bill": [7]}
    assert resumed["confirm"] == [7]


async def test_what_is_published_in_sql_and_what_a_savepoint_holds_are_the_tests_own(
    postgres_url: str, postgres_schema: str
) -> None:
    place = postgres_url, postgres_schema
    await committed(place)
    app = shop(*place)

    async with transaction("asyncpg", postgres_url) as tx, app.testing(tx=tx) as kit:
        async with tx.transaction():
            await tx.execute(f"SELECT \"{postgres_schema}\".publish('orders.placed', '5')")
        await kit.advance("1h")  # it is due by the clock of the database
        runs = ran(kit)

    assert runs == {"confirm": [5], "count": [5], "bill": [5]}
