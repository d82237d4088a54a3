"""Above READ COMMITTED: collisions are tried again and named, and a heartbeat is none."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from mainspring import Context, exponential
from tests.integration.transactional.acting import Ends, until
from tests.integration.transactional.conftest import Place

Sessions = async_sessionmaker[AsyncSession]


@pytest.fixture
async def sessions(place: Place) -> AsyncIterator[Sessions]:
    """Sessions whose transactions read from a snapshot."""
    engine = create_async_engine(
        place.address.replace("postgresql://", "postgresql+asyncpg://"),
        isolation_level="SERIALIZABLE",
        pool_size=8,
    )
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO account VALUES (1, 0)"))
    yield async_sessionmaker(engine)
    await engine.dispose()


async def test_transactions_that_collide_are_tried_again_within_the_attempt(place: Place, sessions: Sessions) -> None:
    app, calls = place.app(), list[int]()
    both = asyncio.Barrier(2)

    @app.consumer("deposit", transactional=sessions, concurrency=2)
    async def deposit(n: int, ctx: Context) -> None:
        calls.append(ctx.attempt)
        balance = await ctx.tx.scalar(text("SELECT balance FROM account WHERE id = 1"))
        if len(calls) <= 2:
            await both.wait()  # both have read: only one of them can be right
        await ctx.tx.execute(text("UPDATE account SET balance = :to WHERE id = 1"), {"to": balance + n})

    async with app.worker():
        await app.publish_many([("deposit", 10), ("deposit", 32)])
        await until(lambda: place.rows("SELECT count(*) FROM {}delivery")[0][0] == 0)

    assert place.rows("SELECT balance FROM account")[0][0] == 42
    assert len(calls) > 2
    assert set(calls) == {1}  # no attempt was counted for it
    assert place.rows("SELECT count(*) FROM {}run")[0][0] == 0


async def test_who_collides_every_time_fails_by_name(place: Place, sessions: Sessions) -> None:
    app, calls = place.app(), list[int]()

    @app.consumer("deposit", transactional=sessions, retry=exponential("1ms", attempts=1))
    async def deposit(n: int, ctx: Context) -> None:
        calls.append(n)
        await ctx.tx.scalar(text("SELECT balance FROM account WHERE id = 1"))
        async with sessions.begin() as other:
            await other.execute(text("UPDATE account SET balance = balance + 1 WHERE id = 1"))
        await ctx.tx.execute(text("UPDATE account SET balance = 0 WHERE id = 1"))

    async with app.worker():
        await app.publish("deposit", 1)
        await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)

    ((error,),) = place.rows("SELECT error FROM {}dead")
    assert len(calls) == 5
    assert error.startswith(
        "TransactionConflict: a serialization failure: another transaction has changed what this one read; "
        "5 tries in a row failed, the last with DBAPIError: "
    )
    assert place.rows("SELECT balance FROM account")[0][0] == 5  # what the others wrote, and nothing of its own


async def test_a_heartbeat_is_no_collision(place: Place, sessions: Sessions) -> None:
    """A claim is extended while the snapshot is open: had that changed the row, it could never be settled."""
    app, ends = place.app(claim_time="2s"), Ends()
    calls: list[int] = []

    @app.consumer("deposit", transactional=sessions, middleware=[ends])
    async def deposit(n: int, ctx: Context) -> None:
        calls.append(n)
        await ctx.tx.execute(text("UPDATE account SET balance = :to WHERE id = 1"), {"to": n})
        await asyncio.sleep(2.5)  # longer than the claim: somebody has to have extended it, or passed it over

    async with app.worker():
        await app.publish("deposit", 5)
        await until(lambda: ends.count == 1)

    assert (calls, place.rows("SELECT balance FROM account")[0][0]) == ([5], 5)
    assert place.rows("SELECT count(*) FROM {}delivery")[0][0] == 0
