"""The consumer that the tests of this room have in common, whatever gives its transaction."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from mainspring import Context, Mainspring, Middleware, exponential
from mainspring.app.consume.middleware import Next
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import Way

Act = Callable[[int, Context], object]
SOON = exponential("10ms", cap="10ms", attempts=3)


def nothing(_n: int, _ctx: Context) -> object:
    return None


def consume(
    app: Mainspring, way: Way, given: object, then: Act = nothing, before: Act = nothing, **options: Any
) -> None:
    """A consumer that writes an effect, publishes that it has, and then does as told."""
    options = {"group": "deposit", "transactional": given, "retry": SOON, **options}
    if way.threaded:

        @app.consumer("deposit", **options)
        def deposit(n: int, ctx: Context) -> object:
            before(n, ctx)
            way.write(ctx.tx, n)
            ctx.sync.publish("deposited", n)
            return then(n, ctx)
    else:

        @app.consumer("deposit", **options)
        async def deposit_async(n: int, ctx: Context) -> object:
            before(n, ctx)
            await way.write(ctx.tx, n)
            await ctx.publish("deposited", n)
            return then(n, ctx)


def heard_by(app: Mainspring) -> list[int]:
    """What became known of the effects, in a list that grows."""
    heard: list[int] = []

    @app.consumer("deposited", group="teller")
    async def count(n: int) -> None:
        heard.append(n)

    return heard


class Ends(Middleware):
    """Counts the attempts that have ended, committed or not."""

    def __init__(self) -> None:
        self.count = 0

    async def handling(self, ctx: Context, call_next: Next) -> object:
        try:
            return await call_next()
        finally:
            self.count += 1


async def until(true: Callable[[], bool]) -> None:
    """Wait for it, looking often; fail when it does not come true."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


_ROB = "UPDATE {} SET epoch = epoch + 1, held_by = 'a robber' WHERE group_name = 'deposit'"
_SETTLE = "DELETE FROM {} WHERE group_name = 'deposit'"


def rob(place: Place) -> None:
    """Let somebody else hold it, as if the claim had lapsed and been taken."""
    _change(place, _ROB)


def settle_elsewhere(place: Place) -> None:
    """Let it be settled, as if the claim had lapsed, and who had taken it were done."""
    _change(place, _SETTLE)


def _change(place: Place, statement: LiteralString) -> None:
    if place.database == "SQLite":
        with closing(sqlite3.connect(place.address, timeout=20)) as client, client:
            client.execute(statement.format("mainspring_delivery"))
        return
    with psycopg.connect(place.address) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(place.schema, "delivery")))
