"""A bank in worker processes: each transfer is one transaction with what it publishes and its verdict."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mainspring import Context, Done, Mainspring
from tests.faults.ledger import Effects
from tests.faults.plan import Plan

ACCOUNTS = 8
OPENING = 1_000
TRANSFERS, RECEIPTS = "transfers", "receipts"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A message: what goes from where to where, and how long it takes when it is not taken over."""

    n: int
    source: int
    target: int
    amount: int
    seconds: float = 0.0


Write = Callable[[Any, str, tuple[Any, ...]], Awaitable[Any]]
"""Runs a statement whose parameters are written ``?``."""


def table(plan: Plan, name: str) -> str:
    """A table of the bank, beside ours: in one schema for all tests, so it has their schema's name in its own."""
    return name if plan.url.startswith("sqlite") else f"{plan.schema}_{name}"


def declare(app: Mainspring, plan: Plan, effects: Effects) -> None:
    """Add the bank's consumers to the app. With the bug ``piecemeal`` each write is committed by itself."""
    piecemeal = plan.bug == "piecemeal"
    write = _on_sqlite if plan.url.startswith("sqlite") else _on_postgres
    account, effect, receipt = (table(plan, name) for name in ("account", "effect", "receipt"))
    options: dict[str, Any] = {"keep": "all", "concurrency": 5} | ({} if piecemeal else {"transactional": True})

    @app.consumer(TRANSFERS, group="transfer", **options)
    async def transfer(job: Transfer, ctx: Context) -> Done:
        effects.begin(ctx.message_id, job.n, ctx.fence, ctx.attempt)
        async with _own(plan) if piecemeal else _Lent(ctx) as tx:
            # In no order: two of them may well wait for each other, and be tried again.
            await write(tx, f"UPDATE {account} SET balance = balance - ? WHERE id = ?", (job.amount, job.source))
            await asyncio.sleep(job.seconds * random.random() if ctx.fence == 1 else 0.0)
            await write(tx, f"UPDATE {account} SET balance = balance + ? WHERE id = ?", (job.amount, job.target))
            await write(tx, f"INSERT INTO {effect} VALUES (?, ?)", (str(ctx.message_id), ctx.fence))
            await ctx.publish(RECEIPTS, job.n)
            while piecemeal and ctx.fence == 1 and not plan.gate.exists():
                await asyncio.sleep(0.02)
        effects.end(ctx.message_id, ctx.fence, "ok")
        return Done(f"{ctx.fence}:{os.getpid()}")

    @app.consumer(RECEIPTS, group="receipt", keep="all", concurrency=5, transactional=True)
    async def note(n: int, ctx: Context) -> Done:
        await write(ctx.tx, f"INSERT INTO {receipt} VALUES (?)", (n,))
        return Done(f"{ctx.fence}:{os.getpid()}")


class _Lent:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def __aenter__(self) -> Any:
        return self._ctx.tx

    async def __aexit__(self, *_: object) -> None:
        """It is committed with the verdict."""


class _own:  # noqa: N801 - it stands for a function
    """A connection on which every statement commits by itself: what people write who have no such thing."""

    def __init__(self, plan: Plan) -> None:
        self._url = plan.url

    async def __aenter__(self) -> Any:
        import asyncpg

        self._connection = await asyncpg.connect(self._url)
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()


async def _on_postgres(tx: Any, sql: str, args: tuple[Any, ...]) -> None:
    for place in range(1, len(args) + 1):
        sql = sql.replace("?", f"${place}", 1)
    await tx.execute(sql, *args)


async def _on_sqlite(tx: Any, sql: str, args: tuple[Any, ...]) -> None:
    await tx.execute(sql, args)
