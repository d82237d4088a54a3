"""The consumers of joins in a worker process: members that nap or fail, and the two that follow."""

import asyncio
from dataclasses import dataclass
from typing import Any

from mainspring import NO_RETRY, Consumed, Context, Done, Mainspring
from tests.faults.ledger import Effects


@dataclass(frozen=True, slots=True)
class Part:
    """A member: how long it takes when it is not taken over, and whether it fails then."""

    seconds: float
    fails: bool


@dataclass(frozen=True, slots=True)
class Joiners:
    """The consumers, for whoever opens joins."""

    part: Consumed[..., Any]
    then: Consumed[..., Any]
    failed: Consumed[..., Any]


def declare(app: Mainspring, effects: Effects | None = None) -> Joiners:
    """Add them to the app; who only sends to them has no effects."""

    def begin(ctx: Context, n: int) -> None:
        assert effects is not None, "this process works"
        effects.begin(ctx.message_id, n, ctx.fence, ctx.attempt)

    def end(ctx: Context, outcome: str) -> None:
        assert effects is not None
        effects.end(ctx.message_id, ctx.fence, outcome)

    @app.consumer("parts", group="part", retry=NO_RETRY, keep="failures", concurrency=20)
    async def part(given: Part, ctx: Context) -> None:
        begin(ctx, 0)
        await asyncio.sleep(given.seconds if ctx.fence == 1 else 0.0)
        end(ctx, "failed" if given.fails else "ok")
        if given.fails:
            raise ValueError("as asked")

    async def follow(ctx: Context, name: str) -> Done:
        begin(ctx, 1)
        end(ctx, name)
        joined = ctx.joined
        return Done("no join" if joined is None else f"{name} {joined.done} {joined.failed}")

    @app.consumer("all.done", group="then", keep="all")
    async def then(ctx: Context) -> Done:
        return await follow(ctx, "then")

    @app.consumer("some.failed", group="failed", keep="all")
    async def failed(ctx: Context) -> Done:
        return await follow(ctx, "failed")

    return Joiners(part, then, failed)
