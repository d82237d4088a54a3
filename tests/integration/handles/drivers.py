"""Callers with a bare driver: asyncpg, psycopg, sqlite3."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import asyncpg
import psycopg

from tests.integration.handles.callers import Caller, kind


class Asyncpg(Caller):
    blocking = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self.tx.transaction():
            yield

    savepoint = transaction

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        transaction = self.tx.transaction()
        await transaction.start()
        await work()
        await transaction.rollback()


@kind("asyncpg.Connection", "PostgreSQL", loop=True)
@asynccontextmanager
async def asyncpg_alone(url: str) -> AsyncIterator[Caller]:
    caller = Asyncpg()
    caller.tx = await asyncpg.connect(url)
    yield caller
    await caller.tx.close()


@kind("asyncpg.Connection of a pool", "PostgreSQL", loop=True)
@asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[Caller]:
    caller = Asyncpg()
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as caller.tx:
        yield caller


class Psycopg(Caller):
    """Begins by itself; ``with connection.transaction()`` within that is a savepoint."""

    tx: psycopg.Connection[Any]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            self.tx.rollback()
            raise
        self.tx.commit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self.tx.transaction():
            yield

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        await work()
        self.tx.rollback()


@kind("psycopg.Connection", "PostgreSQL", loop=False)
@asynccontextmanager
async def psycopg_alone(url: str) -> AsyncIterator[Caller]:
    caller = Psycopg()
    with psycopg.connect(url) as caller.tx:
        yield caller


class PsycopgBlocks(Psycopg):
    """With autocommit, where only ``with connection.transaction()`` begins."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        with self.tx.transaction():
            yield

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        with self.tx.transaction():
            await work()
            raise psycopg.Rollback


@kind("psycopg.Connection with autocommit", "PostgreSQL", loop=False)
@asynccontextmanager
async def psycopg_blocks(url: str) -> AsyncIterator[Caller]:
    caller = PsycopgBlocks()
    with psycopg.connect(url, autocommit=True) as caller.tx:
        yield caller


@kind("psycopg.Connection in a pipeline", "PostgreSQL", loop=False)
@asynccontextmanager
async def psycopg_pipelined(url: str) -> AsyncIterator[Caller]:
    caller = PsycopgBlocks()
    with psycopg.connect(url) as caller.tx, caller.tx.pipeline():
        yield caller


class AsyncPsycopg(Caller):
    blocking = False
    tx: psycopg.AsyncConnection[Any]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await self.tx.rollback()
            raise
        await self.tx.commit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self.tx.transaction():
            yield

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        await work()
        await self.tx.rollback()


@kind("psycopg.AsyncConnection", "PostgreSQL", loop=True)
@asynccontextmanager
async def async_psycopg(url: str) -> AsyncIterator[Caller]:
    caller = AsyncPsycopg()
    async with await psycopg.AsyncConnection.connect(url) as caller.tx:
        yield caller


class Sqlite(Caller):
    tx: sqlite3.Connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        if self.tx.isolation_level is None:
            self.tx.execute("BEGIN")
        with self.tx:
            yield

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        self.tx.execute("SAVEPOINT mine")
        try:
            yield
        except BaseException:
            self.tx.execute("ROLLBACK TO mine")
            raise
        self.tx.execute("RELEASE mine")

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        if self.tx.isolation_level is None:
            self.tx.execute("BEGIN")
        await work()
        self.tx.rollback()


@kind("sqlite3.Connection", "SQLite", loop=False)
@kind("sqlite3.Connection, BEGIN by hand", "SQLite", loop=False, isolation_level=None)
@asynccontextmanager
async def sqlite_alone(path: str, **options: Any) -> AsyncIterator[Caller]:
    caller = Sqlite()
    with closing(sqlite3.connect(path, **options)) as caller.tx:
        yield caller
