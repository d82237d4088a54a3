"""A shop of which one database moves: what is in a database, read without the library, and a mover that is stopped."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg

from mainspring import NO_RETRY, Fleet, Mainspring, Move, every
from tests.integration.fleet.conftest import Urls

STAYS = ("migration", "move", "fence", "bell", "clock", "lease_epoch")
"""Tables of the database itself."""


def shop() -> Mainspring:
    app = Mainspring("fleet://", name="shop")

    @app.consumer("orders.placed", retry=NO_RETRY)
    async def receipts(number: int) -> None:
        if number < 0:
            raise ValueError(f"no order {number}")

    @app.consumer("orders.shipped")
    async def parcels(number: int) -> None: ...

    @app.recurring(every("1d"), name="reports.daily")
    async def report() -> None: ...

    return app


@asynccontextmanager
async def opened(urls: Urls, app: Mainspring | None = None, **options: Any) -> AsyncIterator[Fleet]:
    fleet = Fleet(app or shop(), urls, home="home", **options)
    async with fleet:
        assert (await fleet.migrate()).ok
        yield fleet


async def becomes(true: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while not await true():
            await asyncio.sleep(0.02)


async def handled(app: Mainspring, count: int) -> bool:
    return sum(each.handled for each in (await app.stats.tally()).groups) >= count


def content(url: str) -> dict[str, list[str]]:
    """Every row of every table that moves, read without the library."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            named = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'mainspring%'"
            )
            tables = [each.removeprefix("mainspring_") for (each,) in named]
            return {
                each: sorted(map(repr, connection.execute(f"SELECT * FROM mainspring_{each}")))
                for each in tables
                if each not in STAYS
            }
    with psycopg.connect(url) as server:
        found = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'mainspring'").fetchall()
        return {
            each: sorted(text for (text,) in server.execute(f"SELECT to_jsonb(t)::text FROM mainspring.{each} AS t"))
            for (each,) in found
            if each not in STAYS
        }


class Stopped(Exception):
    """What stops a mover, in a test that kills none."""


class Told:
    """What a mover has said; it is stopped where it says this."""

    def __init__(self, stop: str = "") -> None:
        self.lines: list[str] = []
        self._stop = stop

    def __call__(self, move: Move, what: str) -> None:
        self.lines.append(what)
        if self._stop and self._stop in what:
            raise Stopped(what)


TABLES = ("message", "delivery", "dead", "parked", "run", "ended", "schedule", "inbox", "likeness", "joint", "audit")


def refusals(url: str) -> list[str]:
    """What each table that holds messages says to a stranger who deletes its rows."""
    said = []
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            for each in TABLES:
                try:
                    connection.execute(f"INSERT INTO mainspring_{each} SELECT * FROM mainspring_{each} LIMIT 0")
                    if connection.execute(f"SELECT 1 FROM mainspring_{each}").fetchone():
                        connection.execute(f"DELETE FROM mainspring_{each}")
                except sqlite3.IntegrityError as error:
                    said.append(str(error))
                connection.rollback()
        return said
    with psycopg.connect(url) as server:
        for each in TABLES:
            try:
                server.execute(f"DELETE FROM mainspring.{each} WHERE false")
            except psycopg.Error as error:
                said.append(f"{error.sqlstate} {error}")
            server.rollback()
    assert all(each.startswith("MS002 ") for each in said)
    return said
