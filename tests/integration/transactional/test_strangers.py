"""A stranger's open transaction has locked the row of a message whose handler is done: no failure (invariant 28)."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from mainspring import BatchContext, Context, Middleware
from mainspring.app.consume.middleware import Next
from tests.integration.transactional.acting import consume, heard_by, until
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import WAYS, Way

CHOSEN = ("True, asyncpg", "True, plain function", "sessionmaker", "async_sessionmaker, asyncpg")
ways = pytest.mark.parametrize("way", [way for way in WAYS if way.name in CHOSEN], ids=repr)


class Stranger(Middleware):
    """Locks the oldest delivery before the first attempt, and keeps it locked until it is told to end."""

    def __init__(self, place: Place) -> None:
        self._session = psycopg.connect(place.address)
        self._table = sql.Identifier(place.schema, "delivery")
        self.attempts: list[int] = []

    async def handling(self, ctx: Context, call_next: Next) -> object:
        self._lock([ctx])
        return await call_next()

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        self._lock(ctx.contexts)
        return await call_next()

    def _lock(self, contexts: Sequence[Context]) -> None:
        if not self.attempts:
            query = "SELECT FROM {} WHERE group_name = 'deposit' ORDER BY seq LIMIT 1 FOR UPDATE"
            self._session.execute(sql.SQL(query).format(self._table))
        self.attempts += [each.attempt for each in contexts]

    def end(self) -> None:
        self._session.rollback()

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def stranger(place: Place) -> Iterator[Stranger]:
    made = Stranger(place)
    yield made
    made.close()


async def undone(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until a worker has said that it waits no longer."""
    await until(
        lambda: any("was rolled back, and it runs again, no attempt counted" in each.message for each in caplog.records)
    )


def is_settled(place: Place) -> bool:
    return bool(place.rows("SELECT count(*) = 0 FROM {}delivery")[0][0])


@ways
async def test_its_transaction_is_undone_and_it_runs_again_without_an_attempt_counted(
    way: Way, given: object, place: Place, stranger: Stranger, caplog: pytest.LogCaptureFixture
) -> None:
    app = place.app(way)
    heard = heard_by(app)
    consume(app, way, given, middleware=[stranger], retry="none")
    with caplog.at_level(logging.WARNING):
        async with app.worker():
            await app.publish("deposit", 1)
            await undone(caplog)
            assert (place.effects(), heard) == ([], [])
            stranger.end()
            await until(lambda: heard == [1])
            await until(lambda: is_settled(place))

    assert (place.effects(), stranger.attempts) == ([1], [1, 1])
    assert place.rows("SELECT count(*) FROM {}dead")[0][0] == 0
    assert any("another session has locked the row of message" in each.message for each in caplog.records)


async def test_who_reads_from_a_snapshot_is_not_even_begun(
    place: Place, stranger: Stranger, caplog: pytest.LogCaptureFixture
) -> None:
    address = place.address.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(address, isolation_level="REPEATABLE READ")
    app, calls, timeouts = place.app(), list[int](), list[str]()

    @app.consumer(
        "deposit", group="deposit", transactional=async_sessionmaker(engine), middleware=[stranger], retry="none"
    )
    async def deposit(_n: int, ctx: Context) -> None:
        calls.append(ctx.attempt)
        timeouts.append(await ctx.tx.scalar(text("SHOW lock_timeout")))

    with caplog.at_level(logging.WARNING):
        async with app.worker():
            await app.publish("deposit", 1)
            await undone(caplog)
            assert calls == []
            stranger.end()
            await until(lambda: calls == [1] and is_settled(place))
    await engine.dispose()

    assert (stranger.attempts, timeouts) == ([1, 1], ["0"])  # what bounds our wait is gone with it


async def test_no_message_of_its_batch_has_failed(
    place: Place, stranger: Stranger, caplog: pytest.LogCaptureFixture
) -> None:
    app = place.app()
    options: dict[str, Any] = {"batch": 4, "linger": "20ms", "middleware": [stranger], "retry": "none"}

    @app.consumer("deposit", group="deposit", transactional=True, **options)
    async def deposit(numbers: list[int], ctx: BatchContext) -> None:
        for number in numbers:
            await ctx.tx.execute("INSERT INTO effect (n) VALUES ($1)", number)

    with caplog.at_level(logging.WARNING):
        async with app:
            await app.declare()
            await app.publish_many([("deposit", n) for n in (1, 2, 3)])
            async with app.worker():
                await until(lambda: place.effects() == [2, 3])  # the others go on while it is locked
                stranger.end()
                await until(lambda: is_settled(place))

    assert place.effects() == [1, 2, 3]
    assert set(stranger.attempts) == {1}
    assert place.rows("SELECT count(*) FROM {}dead")[0][0] == 0
