"""A route of FastAPI and a transactional consumer of the ORM, in one transaction that the test rolls back."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from httpx2 import ASGITransport, AsyncClient
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from mainspring import Context, Mainspring


class Base(DeclarativeBase):
    """The user's tables."""


class Order(Base):
    __tablename__ = "route_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="placed")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> tuple[Mainspring, str]:
    """An app, and the address of its database for an asyncio engine."""
    if request.param == "sqlite":
        app, address = Mainspring(f"sqlite:///{tmp_path}/shop.db"), f"sqlite+aiosqlite:///{tmp_path}/shop.db"
    else:
        app = Mainspring(postgres_url, schema=postgres_schema)
        address = postgres_url.replace("postgresql://", "postgresql+asyncpg://")
    app.sync.migrate()
    app.sync.close()
    return app, address


async def test_a_route_and_a_transactional_consumer_share_the_transaction_of_the_test(
    place: tuple[Mainspring, str],
) -> None:
    app, address = place
    engine = create_async_engine(address)
    sessions = async_sessionmaker(engine)
    web = FastAPI()

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            yield session

    @web.post("/orders/{number}")
    async def order(number: int, session: Annotated[AsyncSession, Depends(get_session)]) -> None:
        async with session.begin():
            session.add(Order(id=number))
            await app.publish("orders.placed", number, tx=session)

    @app.consumer("orders.placed", transactional=sessions, retry="none")
    async def confirm(number: int, ctx: Context) -> None:
        found = await ctx.tx.get(Order, number)
        found.state = "confirmed"  # flushed with the verdict, as in production
        await ctx.publish("orders.confirmed", number)
        if number < 0:
            raise ValueError("no such order")

    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    try:
        async with engine.connect() as connection, connection.begin() as outer:
            sessions.configure(bind=connection, join_transaction_mode="create_savepoint")
            async with (
                app.testing(tx=connection) as kit,
                AsyncClient(transport=ASGITransport(web), base_url="http://shop") as client,
            ):
                for number in (1, 2, -1):
                    assert (await client.post(f"/orders/{number}")).status_code == 200
                    if number < 0:
                        with kit.expect_dead(confirm, error="no such order"):
                            await kit.drain()
                    else:
                        await kit.drain()

                assert [sent.payload for sent in kit.published("orders.confirmed")] == [1, 2]
            async with sessions() as session:
                states = (await session.execute(select(Order.id, Order.state).order_by(Order.id))).all()
            assert [tuple(each) for each in states] == [(-1, "placed"), (1, "confirmed"), (2, "confirmed")]
            await outer.rollback()
        sessions.configure(bind=engine)
        async with sessions() as session:
            assert await session.scalar(select(func.count()).select_from(Order)) == 0
    finally:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
        await engine.dispose()


async def test_messages_that_are_stored_already_are_no_obstacle(place: tuple[Mainspring, str]) -> None:
    app, address = place

    @app.consumer("orders.placed")
    async def confirm(number: int) -> None:
        pass

    async with app:
        await app.declare()
        await app.publish("orders.placed", 1)
    engine = create_async_engine(address)
    async with engine.connect() as connection:
        async with app.testing(tx=connection) as kit:
            await app.publish("orders.placed", 2)
            assert [ran.payload for ran in await kit.drain()] == [2]
        await connection.rollback()
    await engine.dispose()


def test_a_plain_function_gets_a_session_of_its_own_factory(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")
    engine: Engine = create_engine(f"sqlite:///{tmp_path}/shop.db", connect_args={"check_same_thread": False})
    sessions = sessionmaker(engine)
    Base.metadata.create_all(engine)

    @app.consumer("orders.placed", transactional=sessions)
    def place_order(number: int, ctx: Context) -> None:
        assert isinstance(ctx.tx, Session)
        ctx.tx.add(Order(id=number))

    with engine.connect() as connection, connection.begin() as outer:
        with app.testing(tx=connection) as kit:
            app.sync.publish("orders.placed", 7)
            kit.sync.drain()
            assert sessions(bind=connection, join_transaction_mode="create_savepoint").get(Order, 7) is not None
        outer.rollback()
    with sessions() as session:
        assert session.get(Order, 7) is None
    engine.dispose()
