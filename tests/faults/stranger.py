"""A stranger with an open transaction: it has locked one row of every table that workers write, and takes its time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.faults.plan import Plan

_TABLES = {
    # What is in hand first of all: its verdict has to wait.
    "delivery": "held_by IS NOT NULL",
    "groups": "true",
    "worker": "true",
    "tally": "true",
    "measure_slot": "true",
    "bell": "true",
    "lease": "true",
    "limits": "true",
    "schedule": "true",
    "parked": "true",
    "fanout_cursor": "true",
}
_FOR = 1.0
"""Seconds until it ends a transaction and begins the next."""


class Stranger:
    """Locks rows at random, one of each table that has any, and counts them."""

    def __init__(self, connection: asyncpg.Connection, schema: str) -> None:
        self.locks: dict[str, int] = dict.fromkeys(_TABLES, 0)
        self._connection = connection
        self._schema = schema

    @property
    def line(self) -> str:
        """For the report."""
        return f"stranger-locks={sum(self.locks.values())}"

    @asynccontextmanager
    async def holding(self) -> AsyncIterator[int | None]:
        """Have one row of each locked while the block lasts; gives the delivery among them."""
        delivery: int | None = None
        async with self._connection.transaction():
            for table, which in _TABLES.items():
                wanted = "seq" if table == "delivery" else "0"
                row = await self._connection.fetchrow(
                    f"SELECT {wanted} FROM {self._schema}.{table} WHERE ctid = "
                    f"(SELECT ctid FROM {self._schema}.{table} WHERE {which} ORDER BY random() LIMIT 1) "
                    "FOR UPDATE SKIP LOCKED"
                )
                if row is not None:
                    self.locks[table] += 1
                    delivery = row[0] if table == "delivery" else delivery
            yield delivery

    async def wander(self) -> None:
        """Go on so, one transaction after the other."""
        while True:
            async with self.holding():
                await asyncio.sleep(_FOR)


@asynccontextmanager
async def stranger_on(plan: Plan) -> AsyncIterator[Stranger]:
    """A stranger on the database of this run."""
    connection = await asyncpg.connect(plan.url)
    try:
        yield Stranger(connection, plan.schema)
    finally:
        connection.terminate()


@asynccontextmanager
async def wandering(stranger: Stranger) -> AsyncIterator[None]:
    """Have it lock rows while the block lasts."""
    task = asyncio.create_task(stranger.wander())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()
