"""In ``app.testing(tx=…)`` a transactional consumer is lent the test's own transaction."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from mainspring import Context, Mainspring, intervals
from tests.integration.transactional.conftest import Place


def test_a_plain_function_writes_into_the_tests_transaction(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/bank.db")

    @app.consumer("deposit", transactional=True)
    def deposit(n: int, ctx: Context) -> None:
        ctx.tx.execute("INSERT INTO effect VALUES (?)", (n,))
        ctx.sync.publish("deposited", n)
        if n < 0:
            raise ValueError("a negative deposit")

    with closing(sqlite3.connect(tmp_path / "bank.db")) as tx:
        tx.execute("CREATE TABLE effect (n INTEGER PRIMARY KEY)")
        with app.testing(tx=tx) as kit:
            app.sync.publish("deposit", 5)
            app.sync.publish("deposit", -1)
            with kit.expect_dead("deposit"):
                kit.sync.advance("30d")

            assert tx.execute("SELECT n FROM effect").fetchall() == [(5,)]
            assert [each.payload for each in kit.published("deposited")] == [5]
        tx.rollback()
        assert tx.execute("SELECT n FROM effect").fetchall() == []


def test_a_handler_that_returns_after_its_timeout_leaves_only_its_failure_behind(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/bank.db")

    @app.consumer("deposit", timeout="30s", retry=intervals("1m"))
    def deposit(n: int) -> None:
        tx.execute("INSERT INTO effect VALUES (?)", (n,))
        app.sync.publish("deposited", n)
        kit.elapse("10s" if n else "31s")

    with closing(sqlite3.connect(tmp_path / "bank.db")) as tx:
        tx.execute("CREATE TABLE effect (n INTEGER PRIMARY KEY)")
        with app.testing(tx=tx) as kit:
            app.sync.publish("deposit", 0)
            app.sync.publish("deposit", 5)
            runs = kit.sync.drain()

            assert [(ran.payload, ran.outcome) for ran in runs] == [(0, "failed"), (5, "done")]
            assert tx.execute("SELECT n FROM effect").fetchall() == [(5,)]
            assert [each.payload for each in kit.published("deposited")] == [5]
        tx.rollback()


async def test_a_coroutine_is_lent_the_session_in_place_of_its_own(place: Place) -> None:
    engine = create_async_engine(place.address.replace("postgresql://", "postgresql+asyncpg://"))
    sessions = async_sessionmaker(engine)
    app = place.app()

    @app.consumer("deposit", transactional=sessions)
    async def deposit(n: int, ctx: Context) -> None:
        await ctx.tx.execute(text("INSERT INTO effect VALUES (:n)"), {"n": n})

    await app.migrate()
    async with sessions() as session:
        async with app.testing(tx=session) as kit:
            await app.publish("deposit", 5)
            await kit.drain()

            assert await session.scalar(text("SELECT n FROM effect")) == 5
        await session.rollback()
    await engine.dispose()
    assert place.effects() == []
