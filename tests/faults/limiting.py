"""Consumers under limits in a worker process: one ordered, one with so many at once, one at a rate."""

import asyncio
import os
from dataclasses import dataclass
from typing import Any

from mainspring import Context, Mainspring, exponential
from tests.faults.ledger import Effects
from tests.faults.plan import Plan

KEY_CONCURRENCY, GLOBAL_CONCURRENCY = 2, 6
RATE, KEY_RATE = 40, 3
"""A second."""


@dataclass(frozen=True, slots=True)
class Step:
    """A message: the how manieth of its key it is, how long it takes, and whether it fails the first time."""

    n: int
    seconds: float
    fails: bool = False


def declare(app: Mainspring, plan: Plan, effects: Effects) -> None:
    """Add them to the app; a plan with the bug leaves their limits out."""

    def limits(**options: Any) -> dict[str, Any]:
        return {} if plan.bug == "unlimited" else options

    async def perform(step: Step, ctx: Context) -> None:
        delivery = ctx._delivery
        claimed = int(delivery.claimed_at.timestamp()) * 1_000_000 + delivery.claimed_at.microsecond
        effects.begin(ctx.message_id, step.n, ctx.fence, ctx.attempt, group=ctx.group, key=ctx.key, claimed=claimed)
        await asyncio.sleep(step.seconds)
        failed = step.fails and ctx.attempt == 1
        effects.end(ctx.message_id, ctx.fence, "failed" if failed else "ok")
        if failed:
            raise ValueError(f"as asked, in {os.getpid()}")

    retry = exponential("100ms", cap="200ms", attempts=10)

    @app.consumer("lanes", group="lanes", retry=retry, **limits(ordered=True))
    async def lanes(step: Step, ctx: Context) -> None:
        await perform(step, ctx)

    @app.consumer(
        "doors",
        group="doors",
        retry=retry,
        **limits(key_concurrency=KEY_CONCURRENCY, global_concurrency=GLOBAL_CONCURRENCY),
    )
    async def doors(step: Step, ctx: Context) -> None:
        await perform(step, ctx)

    @app.consumer("taps", group="taps", retry=retry, **limits(rate=f"{RATE}/1s", key_rate=f"{KEY_RATE}/1s"))
    async def taps(step: Step, ctx: Context) -> None:
        await perform(step, ctx)
