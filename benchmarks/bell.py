"""Round trips and notifications per 1,000 messages under load, and the pick-up time of an idle worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from mainspring import Mainspring
from mainspring.storage.postgres.dialect import Names


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count every round trip of any asyncpg connection in this process during the block."""
    counts = {"trips": 0}
    kinds = ("fetch", "fetchrow", "fetchval", "execute", "executemany")
    originals = {kind: getattr(asyncpg.Connection, kind) for kind in kinds}

    def counting(original: Any) -> Any:
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts["trips"] += 1
            return await original(self, *args, **kwargs)

        return call

    for kind, original in originals.items():
        setattr(asyncpg.Connection, kind, counting(original))
    try:
        yield counts
    finally:
        for kind, original in originals.items():
            setattr(asyncpg.Connection, kind, original)


async def under_load(url: str, schema: str, messages: int) -> tuple[float, float]:
    """Return trips and notifications per 1,000 messages from publish to settle, with one worker kept busy."""
    publisher = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    app = Mainspring(url, name="bench", schema=schema)
    handled = 0
    done = asyncio.Event()

    @app.consumer("bench.load", concurrency=500)
    async def noop(_: dict[str, int]) -> None:
        nonlocal handled
        handled += 1
        if handled == messages:
            done.set()

    heard = 0

    def hear(*_: object) -> None:
        nonlocal heard
        heard += 1

    async with publisher, app.worker():
        ear = await asyncpg.connect(url)
        await ear.add_listener(Names(schema).channel, hear)
        with counted() as counts:
            callers = [_caller(publisher, messages // 50) for _ in range(50)]
            await asyncio.gather(*callers)
            await done.wait()
            while any(each.ready + each.running for each in (await app.stats.tally()).groups):
                await asyncio.sleep(0.01)
        await ear.close()
    return counts["trips"] * 1_000 / messages, heard * 1_000 / messages


async def _caller(app: Mainspring, count: int) -> None:
    for number in range(count):
        await app.publish("bench.load", {"number": number})


async def idle_pickup(url: str, schema: str, rounds: int) -> list[float]:
    """Return milliseconds from the return of a publish in another app to the handler, with the worker asleep."""
    publisher = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    app = Mainspring(url, name="bench", schema=schema)
    arrived: asyncio.Queue[float] = asyncio.Queue()

    @app.consumer("bench.idle", concurrency=1)
    async def noop(_: dict[str, int]) -> None:
        arrived.put_nowait(time.perf_counter())

    waits: list[float] = []
    async with publisher, app.worker():
        for number in range(rounds):
            # After the worker's warm period, so that the doorbell is what is measured.
            await asyncio.sleep(0.15 + 0.013 * (number % 7))
            sent = time.perf_counter()
            await publisher.publish("bench.idle", {"number": number})
            waits.append((await arrived.get() - sent) * 1_000)
    return waits
