"""A batch in one transaction: what is returned is committed with every verdict, what raises leaves nothing."""

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

from mainspring import BatchContext, Mainspring, Snooze
from tests.integration.transactional.acting import SOON, heard_by, until
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import WAYS, Way

CHOSEN = ("True, asyncpg", "True, SQLite", "async_sessionmaker, asyncpg", "psycopg.connect", "sqlite3.connect")
_ROB = "UPDATE {} SET epoch = epoch + 1, held_by = 'a robber' WHERE group_name = 'deposit' AND key = 'robbed'"
ways = pytest.mark.parametrize("way", [way for way in WAYS if way.name in CHOSEN], ids=repr)


def rob_one(place: Place) -> None:
    """Let somebody else hold what has the key *robbed*, as if the claim had lapsed and been taken."""
    if place.database == "SQLite":
        with closing(sqlite3.connect(place.address, timeout=20)) as client, client:
            client.execute(_ROB.format("mainspring_delivery"))
        return
    with psycopg.connect(place.address) as connection:
        connection.execute(sql.SQL(_ROB).format(sql.Identifier(place.schema, "delivery")))


class Deposits:
    """A batch consumer that writes an effect per message, publishes that it has, and does as told at last."""

    def __init__(self, app: Mainspring, way: Way, given: object, then: Any, before: Any = None) -> None:
        self._before = before
        self.batches: list[list[tuple[int, int]]] = []
        options: dict[str, Any] = {"group": "deposit", "transactional": given, "retry": SOON}
        options |= {"batch": 4, "linger": "20ms"}
        if way.threaded:

            @app.consumer("deposit", **options)
            def deposit(numbers: list[int], ctx: BatchContext) -> object:
                self._note(numbers, ctx)
                for number, each in zip(numbers, ctx.contexts, strict=True):
                    if number >= 0:
                        way.write(ctx.tx, number)
                        each.sync.publish("deposited", number)
                return then(self, numbers)
        else:

            @app.consumer("deposit", **options)
            async def deposit_async(numbers: list[int], ctx: BatchContext) -> object:
                self._note(numbers, ctx)
                for number, each in zip(numbers, ctx.contexts, strict=True):
                    if number >= 0:
                        await way.write(ctx.tx, number)
                        await each.publish("deposited", number)
                return then(self, numbers)

    def _note(self, numbers: list[int], ctx: BatchContext) -> None:
        self.batches.append([(number, each.attempt) for number, each in zip(numbers, ctx.contexts, strict=True)])
        if self._before is not None:
            self._before(self)


@ways
async def test_what_is_returned_is_committed_with_each_verdict_and_what_raises_is_undone(
    way: Way, given: object, place: Place
) -> None:
    app = place.app(way)
    heard = heard_by(app)

    def then(deposits: Deposits, numbers: list[int]) -> object:
        if len(deposits.batches) == 1:
            raise RuntimeError("not yet")  # were an effect there, the next attempt would fail on the primary key
        said = {-1: ValueError("overdrawn"), -2: Snooze("1h")}
        return [said.get(number) for number in numbers]

    deposits = Deposits(app, way, given, then)
    async with app:
        await app.declare()
        await app.publish_many([("deposit", n) for n in (1, -1, 2, -2)])
        async with app.worker():
            await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)
            await until(lambda: len(heard) == 2)

    assert (place.effects(), sorted(heard)) == ([1, 2], [1, 2])
    assert sorted(deposits.batches[0]) == [(-2, 1), (-1, 1), (1, 1), (2, 1)]
    assert sorted(each for batch in deposits.batches[1:] for each in batch) == [
        (-2, 2),
        (-1, 2),
        (-1, 3),
        (1, 2),
        (2, 2),
    ]
    [(attempt,)] = place.rows("SELECT attempt FROM {}delivery WHERE group_name = 'deposit'")
    assert attempt == 1  # a snooze counts none


@ways
async def test_a_lost_claim_undoes_its_batch_and_counts_no_attempt_of_the_others(
    way: Way, given: object, place: Place
) -> None:
    app = place.app(way)
    heard = heard_by(app)

    def rob_first(deposits: Deposits) -> None:
        if len(deposits.batches) == 1:
            rob_one(place)  # before anything is written, since SQLite has one writer

    deposits = Deposits(app, way, given, lambda _deposits, _numbers: None, rob_first)
    async with app:
        await app.declare()
        for number in (1, 2, 3):
            await app.publish("deposit", number, key="robbed" if number == 1 else None)
        async with app.worker():
            await until(lambda: len(heard) == 2)

    assert (place.effects(), sorted(heard)) == ([2, 3], [2, 3])
    assert sorted(deposits.batches[0]) == [(1, 1), (2, 1), (3, 1)]
    assert sorted(each for batch in deposits.batches[1:] for each in batch) == [(2, 1), (3, 1)]
