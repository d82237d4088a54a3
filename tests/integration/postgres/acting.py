"""What the tests on PostgreSQL do over and over."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.model.views import Declaration
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

DRIVERS: tuple[DriverName, ...] = ("asyncpg", "psycopg")
HOLD = timedelta(seconds=30)
TOPIC = "orders.placed"

SESSIONS = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mainspring' ORDER BY pid
"""
"""Sessions of ours in this database."""


def draft(topic: str = TOPIC, **options: Any) -> Draft:
    return Draft(**{"id": uuid4(), "topic": topic, "payload": b"{}", **options})


async def declare(storage: PostgresStorage, group: str = "mail", *patterns: str) -> None:
    await storage.upkeep.declare([Declaration(group, "shop", patterns or (TOPIC,), f"shop:{group}")])


async def publish(storage: PostgresStorage, count: int = 1, **options: Any) -> list[UUID]:
    drafts = [draft(**options) for _ in range(count)]
    await storage.mailbox.publish(drafts)
    return [each.id for each in drafts]


async def claim(storage: PostgresStorage, limit: int = 1000, group: str = "mail") -> list[Delivery]:
    return await storage.mailbox.claim([ClaimRequest(group, limit, ALL_LEVELS)], "node", HOLD)


async def dial(storage: PostgresStorage, settings: Mapping[str, str] | None = None) -> Connection:
    """A connection as the storage opens it."""
    made = await storage._gateway.dial(dict(settings or {}))
    assert isinstance(made, asyncpg.Connection)
    return made


async def until(true: Callable[[], bool]) -> None:
    """Wait for what another task or the server is about to bring about."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def blocked(connection: Connection, count: int = 1) -> None:
    """Wait until this many sessions of the database wait for a lock."""
    waiting = """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    async with asyncio.timeout(60):
        while await connection.fetchval(waiting) < count:
            await asyncio.sleep(0.01)
