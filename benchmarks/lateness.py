"""How late due work starts: delayed messages and schedules, when idle and with a thousand due every second."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mainspring import Context, Mainspring, every

_RATE = 1_000


class Fired(NamedTuple):
    """The runs of a thousand schedules in some seconds."""

    expected: int
    fired: int
    late: list[float]
    """Milliseconds from due to start, one per run."""


async def idle_delayed(url: str, schema: str, rounds: int) -> list[float]:
    """Return milliseconds from due to start for one delayed message at a time, the worker asleep before each."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    arrived: asyncio.Queue[float] = asyncio.Queue()

    @app.consumer("bench.delayed", concurrency=1)
    async def noop(_: int, ctx: Context) -> None:
        arrived.put_nowait(_late(ctx))

    waits: list[float] = []
    async with app.worker():
        for number in range(rounds):
            await app.publish("bench.delayed", number, delay=timedelta(milliseconds=250 + 13 * (number % 7)))
            waits.append(await arrived.get())
    return waits


async def idle_schedule(url: str, schema: str, rounds: int) -> list[float]:
    """Return the same for one schedule, with an otherwise idle worker."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    arrived: asyncio.Queue[float] = asyncio.Queue()

    @app.recurring(every("300ms"), keep="none")
    async def tick(ctx: Context) -> None:
        arrived.put_nowait(_late(ctx))

    async with app.worker():
        return [await arrived.get() for _ in range(rounds)]


async def busy_delayed(url: str, schema: str, seconds: int) -> list[float]:
    """Return milliseconds from due to start with a thousand messages due every second."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    late: list[float] = []
    done = asyncio.Event()
    count = _RATE * seconds

    @app.consumer("bench.busy")
    async def noop(_: int, ctx: Context) -> None:
        late.append(_late(ctx))
        if len(late) == count:
            done.set()

    async with app.worker():
        numbers = (("bench.busy", number) for number in range(count))
        await app.publish_many(numbers, delay="3s", spread=timedelta(seconds=seconds))
        await done.wait()
    return late


async def thousand_schedules(url: str, schema: str, seconds: int) -> Fired:
    """Run a thousand schedules in one process, each every second; return how many were due, and their runs."""
    app = Mainspring(url, name="bench", schema=schema, auto_migrate=True)
    runs: list[tuple[datetime, float]] = []

    @app.consumer("bench.job", keep="none")
    async def job(ctx: Context) -> None:
        assert ctx.scheduled_for is not None
        runs.append((ctx.scheduled_for, _late(ctx)))

    async with app.worker():
        for number in range(_RATE):
            await app.schedules.put(f"job-{number}", every("1s"), job, overlap="allow")
        await asyncio.sleep(2)
        first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
        last = first + timedelta(seconds=seconds)
        while datetime.now(UTC) < last + timedelta(seconds=1):
            await asyncio.sleep(0.1)
    chosen = [late for due, late in runs if first <= due < last]
    return Fired(_RATE * seconds, len(chosen), chosen)


def _late(ctx: Context) -> float:
    # The database is on this host, so both use the same clock.
    assert ctx.scheduled_for is not None
    return (datetime.now(UTC) - ctx.scheduled_for) / timedelta(milliseconds=1)
