"""Callers with SQLAlchemy: sessions and connections, over four drivers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import create_engine, pool
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.integration.handles.callers import Caller, kind

ALONE: dict[str, Any] = {"poolclass": pool.NullPool}
"""No connection is kept: databases of tests are dropped."""


def spelled(address: str, driver: str) -> str:
    """The test's address as SQLAlchemy writes it for this driver."""
    if address.startswith("postgresql:"):
        return address.replace("postgresql:", f"postgresql+{driver}:", 1)
    return f"sqlite+{driver}:///{address}"


class Alchemist(Caller):
    """A Session, a scoped one or a Connection: they begin by themselves and speak alike."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        with self.tx.begin():
            yield

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self.tx.begin_nested():
            yield

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        await work()
        self.tx.rollback()


def _session(engine: Any) -> Any:
    return Session(engine)


def _scoped(engine: Any) -> Any:
    return scoped_session(sessionmaker(engine))


def _connection(engine: Any) -> Any:
    return engine.connect()


@kind("Session, psycopg", "PostgreSQL", loop=False, tells=True, driver="psycopg", make=_session)
@kind("scoped_session, psycopg", "PostgreSQL", loop=False, tells=True, driver="psycopg", make=_scoped)
@kind("Connection, psycopg", "PostgreSQL", loop=False, tells=True, driver="psycopg", make=_connection)
@kind("Session, sqlite3", "SQLite", loop=False, tells=True, driver="pysqlite", make=_session)
@kind("scoped_session, sqlite3", "SQLite", loop=False, tells=True, driver="pysqlite", make=_scoped)
@kind("Connection, sqlite3", "SQLite", loop=False, tells=True, driver="pysqlite", make=_connection)
@asynccontextmanager
async def alchemist(address: str, driver: str, make: Callable[[Any], Any]) -> AsyncIterator[Caller]:
    engine = create_engine(spelled(address, driver), **ALONE)
    caller = Alchemist()
    caller.tx = make(engine)
    yield caller
    caller.tx.close()
    engine.dispose()


class AsyncAlchemist(Caller):
    blocking = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self.tx.begin():
            yield

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self.tx.begin_nested():
            yield

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        await work()
        await self.tx.rollback()


async def _async_session(engine: Any) -> Any:
    return AsyncSession(engine)


async def _async_scoped(engine: Any) -> Any:
    return async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: "the only one")


async def _async_connection(engine: Any) -> Any:
    return await engine.connect()


@kind("AsyncSession, asyncpg", "PostgreSQL", loop=True, tells=True, driver="asyncpg", make=_async_session)
@kind("AsyncSession, psycopg", "PostgreSQL", loop=True, tells=True, driver="psycopg", make=_async_session)
@kind("async_scoped_session, asyncpg", "PostgreSQL", loop=True, tells=True, driver="asyncpg", make=_async_scoped)
@kind("AsyncConnection, asyncpg", "PostgreSQL", loop=True, tells=True, driver="asyncpg", make=_async_connection)
@kind("AsyncConnection, psycopg", "PostgreSQL", loop=True, tells=True, driver="psycopg", make=_async_connection)
@kind("AsyncSession, aiosqlite", "SQLite", loop=True, tells=True, driver="aiosqlite", make=_async_session)
@kind("async_scoped_session, aiosqlite", "SQLite", loop=True, tells=True, driver="aiosqlite", make=_async_scoped)
@kind("AsyncConnection, aiosqlite", "SQLite", loop=True, tells=True, driver="aiosqlite", make=_async_connection)
@asynccontextmanager
async def async_alchemist(address: str, driver: str, make: Callable[[Any], Any]) -> AsyncIterator[Caller]:
    engine = create_async_engine(spelled(address, driver), **ALONE)
    caller = AsyncAlchemist()
    caller.tx = await make(engine)
    yield caller
    await caller.tx.close()
    await engine.dispose()
