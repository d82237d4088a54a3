"""The kit in a transaction of the drivers themselves."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import NO_RETRY, Context, Mainspring, Testing, errors, intervals
from tests.integration.testing.counting import new_rows, rows_on_postgres, rows_on_sqlite


def consumers(app: Mainspring) -> None:
    @app.consumer("orders.placed", retry=intervals(60))
    async def confirm(order: int, ctx: Context) -> None:
        await ctx.publish("orders.confirmed", order, delay="1d")
        if order == 13:
            raise ValueError("unlucky")

    @app.consumer("orders.confirmed")
    def thank(order: int) -> None:
        app.sync.publish("mail", order)


def check(kit: Testing) -> None:
    assert [(ran.group, ran.payload, ran.outcome) for ran in kit.runs] == [
        ("confirm", 7, "done"),
        ("confirm", 13, "failed"),
        ("confirm", 13, "dead"),
        ("thank", 7, "done"),
    ]
    assert [sent.payload for sent in kit.published("orders.confirmed")] == [7]
    assert [sent.payload for sent in kit.published("mail")] == [7]
    assert [letter.payload for letter in kit.dead] == [13]


@pytest.fixture
def app(postgres_url: str, postgres_schema: str) -> Iterator[Mainspring]:
    app = Mainspring(postgres_url, name="shop", schema=postgres_schema)
    app.sync.migrate()
    app.sync.close()
    consumers(app)
    before = rows_on_postgres(postgres_url)
    yield app
    left = new_rows(before, rows_on_postgres(postgres_url))
    assert set(left.values()) == {0}, left


async def test_an_asyncpg_connection_leaves_no_rows(app: Mainspring, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    transaction = connection.transaction()
    await transaction.start()

    async with app.testing(tx=connection) as kit:
        await asyncio.gather(app.publish("orders.placed", 7), app.publish("orders.placed", 13, tx=None))
        with kit.expect_dead("confirm"):
            await kit.advance("1d")
        check(kit)

    await transaction.rollback()
    await connection.close()


async def test_an_async_psycopg_connection_leaves_no_rows(app: Mainspring, postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with app.testing(tx=connection) as kit:
            await app.publish("orders.placed", 7)
            await app.publish("orders.placed", 13, tx=connection)
            with kit.expect_dead("confirm"):
                await kit.advance("1d")
            check(kit)
        await connection.rollback()


def test_a_psycopg_connection_leaves_no_rows(app: Mainspring, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        with app.testing(tx=connection) as kit:
            app.sync.publish("orders.placed", 7)
            app.sync.publish("orders.placed", 13, tx=connection)
            with kit.expect_dead("confirm"):
                kit.sync.advance("1d")
            check(kit)
        connection.rollback()


def rolling_back(app: Mainspring) -> None:
    @app.consumer("orders.refused", retry=NO_RETRY)
    async def refuse(order: int) -> None:
        raise psycopg.Rollback  # psycopg's own transaction() would suppress it


async def test_an_error_that_async_psycopg_suppresses_fails_the_run(app: Mainspring, postgres_url: str) -> None:
    rolling_back(app)
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with app.testing(tx=connection) as kit:
            await app.publish("orders.refused", 7)
            with kit.expect_dead("refuse"):
                await kit.drain()
            assert [(ran.group, ran.outcome) for ran in kit.runs] == [("refuse", "dead")]
        await connection.rollback()


def test_an_error_that_psycopg_suppresses_fails_the_run(app: Mainspring, postgres_url: str) -> None:
    rolling_back(app)
    with psycopg.connect(postgres_url) as connection:
        with app.testing(tx=connection) as kit:
            app.sync.publish("orders.refused", 7)
            with kit.expect_dead("refuse"):
                kit.sync.drain()
            assert [(ran.group, ran.outcome) for ran in kit.runs] == [("refuse", "dead")]
        connection.rollback()


def test_a_message_in_another_transaction_would_be_left_behind_and_is_refused(
    app: Mainspring, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection, psycopg.connect(postgres_url) as other:
        with app.testing(tx=connection) as kit:
            with pytest.raises(errors.BadHandle, match="have both on one connection"):
                app.sync.publish("orders.placed", 7, tx=other)

            assert kit.published() == []
        connection.rollback()
        other.rollback()


async def test_so_is_one_in_another_asyncio_transaction(app: Mainspring, postgres_url: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(postgres_url) as connection,
        await psycopg.AsyncConnection.connect(postgres_url) as other,
    ):
        async with app.testing(tx=connection):
            with pytest.raises(errors.BadHandle, match="have both on one connection"):
                await app.publish("orders.placed", 7, tx=other)
        await connection.rollback()
        await other.rollback()


def test_a_sqlite3_connection_leaves_no_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    app = Mainspring(f"sqlite:///{path}", name="shop")
    app.sync.migrate()
    app.sync.close()
    consumers(app)
    before = rows_on_sqlite(path)

    with closing(sqlite3.connect(path)) as connection:
        with app.testing(tx=connection) as kit:
            app.sync.publish("orders.placed", 7)
            app.sync.publish("orders.placed", 13, tx=connection)
            with kit.expect_dead("confirm"):
                kit.sync.advance("1d")
            check(kit)
        connection.rollback()

    assert set(new_rows(before, rows_on_sqlite(path)).values()) == {0}


@pytest.mark.no_schema
def test_a_database_without_tables_says_what_to_run(postgres_url: str, postgres_schema: str) -> None:
    app = Mainspring(postgres_url, schema=postgres_schema)

    with (
        psycopg.connect(postgres_url) as connection,
        pytest.raises(errors.SchemaMissing, match=f"run `mainspring migrate --url URL --schema {postgres_schema}`"),
        app.testing(tx=connection),
    ):
        pass
    with pytest.raises(errors.NotOpen):
        asyncio.run(app.publish("orders.placed", 7))


@pytest.mark.parametrize("isolation", [{"isolation_level": None}])
def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Path, isolation: dict[str, Any]) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    with (
        closing(sqlite3.connect(tmp_path / "shop.db", **isolation)) as connection,
        pytest.raises(errors.BadHandle, match="commits every statement by itself"),
        app.testing(tx=connection),
    ):
        pass


async def test_without_a_loop_an_asyncio_connection_cannot_be_waited_for(app: Mainspring, postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with app.testing(tx=connection), pytest.raises(errors.Misuse, match="asyncio's, and no loop runs"):
            await asyncio.to_thread(app.sync.publish, "orders.placed", 7)
        await connection.rollback()
