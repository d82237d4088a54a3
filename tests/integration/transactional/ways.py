"""Every way to be transactional: what is given to ``transactional=``, and how its ``ctx.tx`` is written to."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

Database = Literal["PostgreSQL", "SQLite"]


@dataclass(frozen=True)
class Way:
    """One way: opened with the database's address, it gives what ``transactional=`` is."""

    name: str
    database: Database
    threaded: bool
    write: Callable[[Any, int], Any]
    """Writes an effect through ``ctx.tx``; for a coroutine it is awaited."""
    open: Callable[[str], Any]
    scheme: str = ""
    """What the app's own URL begins with, where that decides."""

    def __repr__(self) -> str:
        return self.name


def _ours(_: str) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[object]:
        yield True

    return opened()


@asynccontextmanager
async def _asyncpg_pool(address: str) -> AsyncIterator[object]:
    async with asyncpg.create_pool(address, min_size=0, max_size=8) as pool:
        yield pool.acquire


def _sessions(driver: str, *, begin: bool = False) -> Callable[[str], Any]:
    @asynccontextmanager
    async def opened(address: str) -> AsyncIterator[object]:
        engine = create_engine(_spelled(address, driver), pool_size=8)
        yield engine.begin if begin else sessionmaker(engine)
        engine.dispose()

    return opened


def _async_sessions(driver: str, *, begin: bool = False) -> Callable[[str], Any]:
    @asynccontextmanager
    async def opened(address: str) -> AsyncIterator[object]:
        engine = create_async_engine(_spelled(address, driver), pool_size=8)
        yield engine.begin if begin else async_sessionmaker(engine)
        await engine.dispose()

    return opened


@asynccontextmanager
async def _connections(address: str) -> AsyncIterator[object]:
    yield lambda: psycopg.connect(address)


@asynccontextmanager
async def _async_connections(address: str) -> AsyncIterator[object]:
    @asynccontextmanager
    async def connected() -> AsyncIterator[object]:
        connection = await psycopg.AsyncConnection.connect(address)
        async with connection:
            yield connection

    yield connected


@asynccontextmanager
async def _files(address: str) -> AsyncIterator[object]:
    import sqlite3

    yield lambda: sqlite3.connect(address)


def _spelled(address: str, driver: str) -> str:
    if driver in ("pysqlite", "aiosqlite"):
        return f"sqlite+{driver}:///{address}"
    return address.replace("postgresql://", f"postgresql+{driver}://", 1)


async def _by_asyncpg(tx: Any, n: int) -> None:
    await tx.execute("INSERT INTO effect (n) VALUES ($1)", n)


async def _by_async_psycopg(tx: Any, n: int) -> None:
    await tx.execute("INSERT INTO effect (n) VALUES (%s)", (n,))


def _by_psycopg(tx: Any, n: int) -> None:
    tx.execute("INSERT INTO effect (n) VALUES (%s)", (n,))


async def _by_async_sqlite(tx: Any, n: int) -> None:
    await tx.execute("INSERT INTO effect (n) VALUES (?)", (n,))


def _by_sqlite(tx: Any, n: int) -> None:
    tx.execute("INSERT INTO effect (n) VALUES (?)", (n,))


async def _by_async_session(tx: Any, n: int) -> None:
    await tx.execute(text("INSERT INTO effect (n) VALUES (:n)"), {"n": n})


def _by_session(tx: Any, n: int) -> None:
    tx.execute(text("INSERT INTO effect (n) VALUES (:n)"), {"n": n})


WAYS = [
    Way("True, asyncpg", "PostgreSQL", threaded=False, write=_by_asyncpg, open=_ours),
    Way(
        "True, psycopg",
        "PostgreSQL",
        threaded=False,
        write=_by_async_psycopg,
        open=_ours,
        scheme="postgresql+psycopg://",
    ),
    Way("True, plain function", "PostgreSQL", threaded=True, write=_by_psycopg, open=_ours),
    Way("pool.acquire", "PostgreSQL", threaded=False, write=_by_asyncpg, open=_asyncpg_pool),
    Way("psycopg.connect", "PostgreSQL", threaded=True, write=_by_psycopg, open=_connections),
    Way("psycopg.AsyncConnection", "PostgreSQL", threaded=False, write=_by_async_psycopg, open=_async_connections),
    Way("sessionmaker", "PostgreSQL", threaded=True, write=_by_session, open=_sessions("psycopg")),
    Way("engine.begin", "PostgreSQL", threaded=True, write=_by_session, open=_sessions("psycopg", begin=True)),
    Way(
        "async_sessionmaker, asyncpg",
        "PostgreSQL",
        threaded=False,
        write=_by_async_session,
        open=_async_sessions("asyncpg"),
    ),
    Way(
        "async_sessionmaker, psycopg",
        "PostgreSQL",
        threaded=False,
        write=_by_async_session,
        open=_async_sessions("psycopg"),
    ),
    Way(
        "async engine.begin",
        "PostgreSQL",
        threaded=False,
        write=_by_async_session,
        open=_async_sessions("asyncpg", begin=True),
    ),
    Way("True, SQLite", "SQLite", threaded=False, write=_by_async_sqlite, open=_ours),
    Way("True, plain function on SQLite", "SQLite", threaded=True, write=_by_sqlite, open=_ours),
    Way("sqlite3.connect", "SQLite", threaded=True, write=_by_sqlite, open=_files),
    Way("sessionmaker, SQLite", "SQLite", threaded=True, write=_by_session, open=_sessions("pysqlite")),
    Way(
        "async_sessionmaker, aiosqlite",
        "SQLite",
        threaded=False,
        write=_by_async_session,
        open=_async_sessions("aiosqlite"),
    ),
]
"""Django's alias is tried in the room of its own project."""


def effects(database: Database, address: str) -> list[int]:
    """What everybody sees of the effects."""
    if database == "SQLite":
        import sqlite3

        with closing(sqlite3.connect(address)) as client:
            return [row[0] for row in client.execute("SELECT n FROM effect ORDER BY n")]
    with psycopg.connect(address) as client:
        return [row[0] for row in client.execute("SELECT n FROM effect ORDER BY n")]


Handler = Callable[..., Awaitable[object]] | Callable[..., object]
