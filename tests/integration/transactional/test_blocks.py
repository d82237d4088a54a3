"""Blocks of the user's that give a connection: however they end it, what was settled in it is committed."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from mainspring import Cancel, Context
from tests.integration.transactional.acting import consume, heard_by, until
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import WAYS, Way


def _way(name: str) -> Way:
    return next(way for way in WAYS if way.name == name)


def _engine(address: str) -> Any:
    return create_async_engine(address.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool)


def _session_with_a_setting(address: str) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(_engine(address)) as session:
            await session.execute(text("SET LOCAL work_mem = '5MB'"))
            yield session  # and then close, which rolls back

    return opened


def _connection_with_a_setting(address: str) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncConnection]:
        async with _engine(address).connect() as connection:
            await connection.execute(text("SET LOCAL work_mem = '5MB'"))
            yield connection

    return opened


def _asyncpg_in_a_transaction(address: str) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(address)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    return opened


def _psycopg_with_a_setting(address: str) -> Any:
    @contextmanager
    def opened() -> Iterator[psycopg.Connection[Any]]:
        with closing(psycopg.connect(address)) as connection:
            connection.execute("SET LOCAL work_mem = '5MB'")
            yield connection

    return opened


def _psycopg_in_a_transaction(address: str) -> Any:
    @contextmanager
    def opened() -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(address) as connection, connection.transaction():
            yield connection

    return opened


def _file(address: str) -> Any:
    @contextmanager
    def opened() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(address)) as connection:
            yield connection

    return opened


def _file_that_swallows(address: str) -> Any:
    @contextmanager
    def opened() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(address)) as connection:
            try:
                yield connection
            except Exception:  # what people write, and forget to raise again
                connection.rollback()

    return opened


BLOCKS = [
    pytest.param(_way(like), made, id=made.__name__.strip("_"))
    for like, made in [
        ("async_sessionmaker, asyncpg", _session_with_a_setting),
        ("async engine.begin", _connection_with_a_setting),
        ("pool.acquire", _asyncpg_in_a_transaction),
        ("psycopg.connect", _psycopg_with_a_setting),
        ("psycopg.connect", _psycopg_in_a_transaction),
        ("sqlite3.connect", _file),
    ]
]


@pytest.mark.parametrize(("way", "made"), BLOCKS)
async def test_what_a_block_gives_is_committed_whatever_its_end_does(way: Way, made: Any, place: Place) -> None:
    app = place.app(way)
    heard = heard_by(app)
    consume(app, way, made(place.address))
    async with app.worker():
        await app.publish("deposit", 1)
        await until(lambda: heard == [1])

    assert place.effects() == [1]
    assert place.rows("SELECT count(*) FROM {}delivery WHERE group_name = 'deposit'")[0][0] == 0


@pytest.mark.parametrize("way", [_way("sqlite3.connect")], ids=repr)
async def test_a_failure_that_its_block_swallows_is_a_failure(way: Way, place: Place) -> None:
    app = place.app(way)

    def fail(_n: int, _ctx: Context) -> object:
        raise RuntimeError("never")

    consume(app, way, _file_that_swallows(place.address), fail, retry="none")
    async with app.worker():
        await app.publish("deposit", 1)
        await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)

    assert place.rows("SELECT error FROM {}dead")[0][0] == "RuntimeError: never"
    assert place.effects() == []


ENDED = [way for way in WAYS if way.name in ("True, asyncpg", "True, psycopg", "True, plain function")]


@pytest.mark.parametrize("way", ENDED, ids=repr)
async def test_a_transaction_that_its_handler_has_ended_is_refused(way: Way, place: Place) -> None:
    app = place.app(way)
    if way.threaded:

        @app.consumer("deposit", transactional=True, retry="none")
        def deposit(n: int, ctx: Context) -> Cancel:
            ctx.tx.execute("ROLLBACK")
            return Cancel("it must not come to that")
    else:

        @app.consumer("deposit", transactional=True, retry="none")
        async def deposit_async(n: int, ctx: Context) -> Cancel:
            await ctx.tx.execute("ROLLBACK")
            return Cancel("it must not come to that")

    async with app.worker():
        await app.publish("deposit", 1)
        await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)

    assert "its handler has ended it" in place.rows("SELECT error FROM {}dead")[0][0]
