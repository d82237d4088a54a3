"""Mainspring's drain: no-op async messages through one process, all acknowledged."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from mainspring import Mainspring

CONCURRENCY = 1_000
PAYLOAD = {"text": "x" * 190}


async def drain(url: str, schema: str, messages: int) -> float:
    """Return messages per second from the start of a worker until the database has the last one settled."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    handled = 0
    done = asyncio.Event()

    @app.consumer("bench.noop", concurrency=CONCURRENCY)
    async def noop(_: dict[str, str]) -> None:
        nonlocal handled
        handled += 1
        if handled == messages:
            done.set()

    async with app:
        await app.migrate()
        await app.declare()
        await app.publish_many(("bench.noop", PAYLOAD) for _ in range(messages))
        if url.startswith("postgresql"):
            await tidy(url, schema)
        started = time.perf_counter()
        async with app.worker():
            await done.wait()
            while any(each.ready + each.running + each.lapsed for each in (await app.stats.tally()).groups):
                await asyncio.sleep(0.001)
            elapsed = time.perf_counter() - started
    if url.startswith("postgresql"):
        await verify(url, schema, messages)
    return messages / elapsed


async def tidy(url: str, schema: str) -> None:
    """Put the server into a steady state: statistics exist, and no checkpoint falls into the measurement."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"VACUUM ANALYZE {schema}.delivery; ".split(";")[0])
    await connection.execute(f"ANALYZE {schema}.message")
    await connection.close()


async def verify(url: str, schema: str, messages: int) -> None:
    """Check that all are acknowledged: no delivery left, no dead letter, and as many ended as published."""
    connection = await asyncpg.connect(url)
    try:
        left = await connection.fetchval(f"SELECT count(*) FROM {schema}.delivery")
        dead = await connection.fetchval(f"SELECT count(*) FROM {schema}.dead")
        ended = await connection.fetchval(f"SELECT coalesce(sum(cardinality(message_ids)), 0) FROM {schema}.ended")
        if (left, dead, ended) != (0, 0, messages):
            raise RuntimeError(f"not everything was acknowledged: {left=} {dead=} {ended=} of {messages}")
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")
    finally:
        await connection.close()
