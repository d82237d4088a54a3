"""SQLAlchemy's rollback fixtures with the kit in their transaction: nothing is left behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mainspring import Context, Mainspring, Testing, errors, intervals
from tests.integration.testing.counting import new_rows, rows_on_postgres, rows_on_sqlite


class Base(DeclarativeBase):
    """The user's tables."""


class Order(Base):
    __tablename__ = "kit_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="placed")


class Place:
    """A database with the tables of an app and of its user."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.app = Mainspring(url, name="shop", schema=schema)
        self.app.sync.migrate()
        self.app.sync.close()
        with self.engine("sqlite" if url.startswith("sqlite") else "psycopg").begin() as connection:
            Base.metadata.create_all(connection)

    def address(self, driver: str) -> str:
        return self.url.replace("://", f"+{driver}://") if driver != "sqlite" else self.url

    def engine(self, driver: str) -> Engine:
        return create_engine(self.address(driver), poolclass=NullPool)

    def async_engine(self, driver: str) -> AsyncEngine:
        return create_async_engine(self.address(driver), poolclass=NullPool)

    def rows(self) -> dict[str, int]:
        if self.url.startswith("sqlite"):
            return rows_on_sqlite(self.url.removeprefix("sqlite:///"))
        return rows_on_postgres(self.url)

    @contextmanager
    def leaving_nothing(self, what: str) -> Iterator[None]:
        before = self.rows()
        yield
        left = new_rows(before, self.rows())
        print(f"\n{what}, rows left: {sum(left.values())} in {len(left)} tables")
        assert set(left.values()) == {0}, left


@pytest.fixture
def place(driver: str, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Iterator[Place]:
    """The database of the test's driver."""
    if driver in ("sqlite", "aiosqlite"):
        yield Place(f"sqlite:///{tmp_path}/shop.db", "mainspring")
        return
    made = Place(postgres_url, postgres_schema)
    yield made
    with made.engine("psycopg").begin() as connection:
        Base.metadata.drop_all(connection)


def consumers(app: Mainspring, session: Any) -> None:
    """What a shop does, on the session of the test."""

    @app.consumer("orders.placed", retry=intervals(60))
    def confirm(order: int, ctx: Context) -> None:
        found = session.get(Order, order)
        found.state = "confirmed"
        session.flush()
        ctx.sync.publish("orders.confirmed", order, delay="1d", tx=session)
        if order == 13:
            raise ValueError("unlucky")

    @app.consumer("orders.confirmed")
    async def thank(order: int) -> None:
        await app.publish("mail", order)


@pytest.mark.parametrize("driver", ["sqlite", "psycopg"])
def test_a_session_that_is_rolled_back_leaves_no_rows(place: Place, driver: str) -> None:
    app, engine = place.app, place.engine(driver)

    with place.leaving_nothing(f"Session on {driver}"), Session(engine) as session:
        consumers(app, session)
        with app.testing(tx=session) as kit:
            session.add_all([Order(id=7), Order(id=13)])
            session.flush()
            app.sync.publish("orders.placed", 7, tx=session)
            app.sync.publish("orders.placed", 13)
            with kit.expect_dead("confirm", error=ValueError) as dead:
                kit.sync.advance("1d")

            assert [ran.payload for ran in dead] == [13]
            assert kit.delivered("thank")[0].payload == 7
            assert [sent.payload for sent in kit.published("orders.confirmed")] == [7]
            assert session.get(Order, 7).state == "confirmed"  # type: ignore[union-attr]
            assert session.get(Order, 13).state == "placed"  # type: ignore[union-attr]
            assert app.sync.dead.revive(group="confirm") == 1
        session.rollback()


@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg"])
async def test_an_async_session_that_is_rolled_back_leaves_no_rows(place: Place, driver: str) -> None:
    app, engine = place.app, place.async_engine(driver)

    with place.leaving_nothing(f"AsyncSession on {driver}"):
        async with AsyncSession(engine) as session, app.testing(tx=session) as kit:
            await _story(app, session, kit)
            await session.rollback()


async def _story(app: Mainspring, session: AsyncSession, kit: Testing) -> None:
    @app.consumer("orders.placed", retry=intervals(60))
    async def confirm(order: int, ctx: Context) -> None:
        found = await session.get(Order, order)
        assert found is not None
        found.state = "confirmed"
        await session.flush()
        await ctx.publish("orders.confirmed", order, delay="1d", tx=session)
        if order == 13:
            raise ValueError("unlucky")

    @app.consumer("orders.confirmed")
    def thank(order: int) -> None:
        app.sync.publish("mail", order)

    session.add_all([Order(id=7), Order(id=13)])
    await app.publish("orders.placed", 7, tx=session)
    await app.publish("orders.placed", 13)
    assert [waiting.payload for waiting in kit.pending] == [7, 13]
    with kit.expect_dead("confirm", error=ValueError):
        await kit.advance("1d")

    assert [sent.payload for sent in kit.published("mail")] == [7]
    assert (await session.get(Order, 7)).state == "confirmed"  # type: ignore[union-attr]
    assert (await session.get(Order, 13)).state == "placed"  # type: ignore[union-attr]
    await session.refresh(await session.get(Order, 13))
    assert [letter.payload for letter in kit.dead] == [13]
    assert await app.dead.revive(group="confirm") == 1
    assert (kit.dead, [waiting.payload for waiting in kit.pending]) == ([], [13])
    assert (await app.health()).status == "healthy"
    with pytest.raises(errors.Misuse, match=r"write `await kit\.drain\(\)`"):
        kit.sync.drain()


@pytest.mark.parametrize("driver", ["sqlite", "psycopg"])
def test_code_that_commits_its_own_session_leaves_no_rows_in_a_joined_one(place: Place, driver: str) -> None:
    app, engine = place.app, place.engine(driver)
    if driver == "sqlite":
        _begin_as_sqlalchemy_says(engine)

    @app.consumer("orders.placed", retry=intervals(60))
    def confirm(order: int) -> None:
        with Session(connection, join_transaction_mode="create_savepoint") as mine:
            mine.get_one(Order, order).state = "confirmed"
            mine.commit()

    with place.leaving_nothing(f"joined Session on {driver}"), engine.connect() as connection:
        outer = connection.begin()
        with (
            app.testing(tx=connection) as kit,
            Session(connection, join_transaction_mode="create_savepoint") as session,
        ):
            session.add(Order(id=7))
            app.sync.publish("orders.placed", 7, tx=session)
            session.commit()
            app.sync.publish("orders.placed", 8, tx=session)
            session.rollback()
            kit.sync.drain()

            assert [ran.payload for ran in kit.delivered(confirm)] == [7]
            assert [sent.payload for sent in kit.published()] == [7]
            assert session.get_one(Order, 7).state == "confirmed"
        outer.rollback()


@pytest.mark.parametrize("driver", ["psycopg"])
def test_a_handler_that_commits_the_tests_own_session_does_not_break_it(place: Place, driver: str) -> None:
    app, engine = place.app, place.engine(driver)

    with engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as session:

            @app.consumer("orders.placed")
            def confirm(order: int) -> None:
                session.add(Order(id=order))
                session.commit()
                session.execute(text("SELECT 1"))

            with place.leaving_nothing("committing handler"), app.testing(tx=session) as kit:
                app.sync.publish("orders.placed", 7)
                kit.sync.drain()

                assert [ran.payload for ran in kit.delivered(confirm)] == [7]
                session.close()
                outer.rollback()


def _begin_as_sqlalchemy_says(engine: Engine) -> None:
    """As its page on SQLite says, so that savepoints have a transaction around them."""

    @event.listens_for(engine, "connect")
    def connected(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")
