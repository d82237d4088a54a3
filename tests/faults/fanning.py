"""A fan-out in worker processes: a planner that takes its time, and slices that are each one transaction."""

import asyncio
import os
import random
from collections.abc import AsyncIterator

from mainspring import Context, Done, Mainspring, Slice
from mainspring.app.fanout import coordinator
from tests.faults.ledger import Effects
from tests.faults.plan import Plan

TOPIC, WORK = "etl", "payments"
CHUNK = 50
"""Fewer than the library's own, so that a coordinator can be killed between two of them."""


def effects_table(plan: Plan) -> str:
    """Where slices write: in one schema for all tests, so it has their schema's name in its own."""
    return f"{plan.schema}_slice_effect"


def declare(app: Mainspring, plan: Plan, effects: Effects) -> None:
    """Add the fan-out to the app. It is due once a year, and else when it is triggered."""
    coordinator.CHUNK = CHUNK

    @app.fanout(TOPIC, WORK, cron="0 0 1 1 *", jitter="100ms", lease="1s")
    async def tenants(ctx: Context) -> AsyncIterator[str]:
        effects.begin(ctx.message_id, 1, ctx.fence, ctx.attempt)
        for n in range(plan.shards):
            while n == plan.shards // 2 and ctx.fence == 1 and plan.hold.exists():
                await asyncio.sleep(0.02)  # until it is killed
            yield f"tenant-{n:05}"
            if n % 7 == 0:
                yield f"tenant-{n // 2:05}"  # named again, in this chunk or a later one

    @tenants.slices(keep="all", concurrency=10, transactional=True)
    async def load(each: Slice, ctx: Context) -> Done:
        effects.begin(ctx.message_id, 0, ctx.fence, ctx.attempt)
        row = (each.shard, each.window, each.last)
        await ctx.tx.execute(f"INSERT INTO {effects_table(plan)} VALUES ($1, $2, $3)", *row)
        await asyncio.sleep(random.uniform(0.0, 0.02) if ctx.fence == 1 else 0.0)
        effects.end(ctx.message_id, ctx.fence, "ok")
        return Done(f"{ctx.fence}:{os.getpid()}")
