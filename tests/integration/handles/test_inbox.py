"""The inbox in the caller's transaction, through every adapter: let in when it commits, or never."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Admission
from tests.faults.report import Report
from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import KINDS, Caller, Kind, Undone, one_per_adapter
from tests.integration.handles.conftest import Shop
from tests.integration.handles.listening import wire_to

CALLERS = 8
TOGETHER = {
    "asyncpg.Connection",
    "psycopg.Connection",
    "psycopg.AsyncConnection",
    "Session, psycopg",
    "AsyncSession, asyncpg",
    "sqlite3.Connection",
}
"""Kinds of which several are there at once; the others share their drivers."""


async def admit(caller: Caller, shop: Shop, message_id: str, **options: Any) -> Admission:
    if caller.blocking:
        return shop.app.sync.inbox.admit(message_id, "stripe ß%s", tx=caller.tx, **options)
    return await shop.app.inbox.admit(message_id, "stripe ß%s", tx=caller.tx, **options)


async def done(caller: Caller, shop: Shop, admission: Admission) -> bool:
    if caller.blocking:
        return shop.app.sync.inbox.done(admission, tx=caller.tx)
    return await shop.app.inbox.done(admission, tx=caller.tx)


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_a_message_is_let_in_when_the_transaction_commits_and_only_then(kind: Kind, shop: Shop) -> None:
    mine = uuid4().hex
    answers: list[Admission] = []

    async def play() -> None:
        async with kind.open(shop.address) as caller:
            try:
                async with caller.transaction():
                    answers.append(await admit(caller, shop, mine, hash=b"\x00\xff"))
                    raise Undone
            except Undone:
                pass
            async with caller.transaction():
                answers.append(await admit(caller, shop, mine, hash=b"\x00\xff"))
            async with caller.transaction():
                answers.append(await admit(caller, shop, mine, hash=b"\x00\xff", retry_after="1h"))
                answers.append(await admit(caller, shop, mine, hash=b"\xff"))

    kind.run(play())

    assert [(each.admitted, each.status, each.attempts) for each in answers] == [
        (True, "done", 1),
        (True, "done", 1),
        (False, "done", 1),
        (False, "done", 1),
    ]
    assert [each.mismatch for each in answers] == [False, False, False, True]
    assert all(each.first_seen_at.tzinfo is not None for each in answers)


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_what_was_let_in_before_is_done_with_the_transaction(kind: Kind, shop: Shop) -> None:
    mine = uuid4().hex
    admission = shop.app.sync.inbox.admit(mine, "stripe ß%s")

    async def play() -> list[bool]:
        async with kind.open(shop.address) as caller:
            await caller.undone_by_hand(lambda: done(caller, shop, admission))
            before = shop.app.sync.inbox.list("processing", message_id=mine) if not kind.loop else []
            async with caller.transaction():
                return [await done(caller, shop, admission), bool(before)]

    heard, seen = kind.run(play())
    after = shop.app.sync.inbox.get(mine, "stripe ß%s")

    assert after is not None
    assert (heard, seen, after.status) == (True, not kind.loop, "done")


@pytest.mark.parametrize("kind", [each for each in KINDS if each.handle in TOGETHER], ids=str)
def test_of_several_at_once_one_effect_is_left_though_every_other_rolls_back(
    kind: Kind, shop: Shop, request: pytest.FixtureRequest
) -> None:
    mine = uuid4().hex
    begun = threading.Event()

    async def play(number: int) -> tuple[bool, bool]:
        if number:  # the first is let in alone, and rolls back while the others come
            begun.wait()
        async with kind.open(shop.address) as caller:
            if isinstance(caller.tx, sqlite3.Connection):
                caller.tx.execute("PRAGMA busy_timeout = 60000")
            try:
                async with caller.transaction():
                    admission = await admit(caller, shop, mine)
                    if admission:
                        await caller.publish(shop.app, mine)  # the effect
                        begun.set()
                        if number % 2 == 0:
                            raise Undone
            except Undone:
                return True, False
            return bool(admission), bool(admission)

    with ThreadPoolExecutor(CALLERS) as threads:
        answers = list(threads.map(lambda number: kind.run(play(number)), range(CALLERS), timeout=120))

    admitted, committed = (sum(column) for column in zip(*answers, strict=True))
    Report(request.node)(
        f"inbox, {CALLERS} transactions at once, {kind.database}, {kind.handle}",
        f"admitted={admitted} rolled-back={admitted - committed} effects={shop.count(mine)[0]}",
    )
    assert committed == 1
    assert admitted > committed
    assert shop.count(mine) == (1, 1)


@pytest.mark.parametrize("kind", [each for each in one_per_adapter() if each.database == "PostgreSQL"], ids=str)
def test_letting_in_is_one_statement(kind: Kind, shop: Shop) -> None:
    with wire_to(shop.address) as wire:

        async def play() -> list[list[str]]:
            heard = []
            async with kind.open(wire.url) as caller, caller.transaction():
                await admit(caller, shop, uuid4().hex)  # with whatever the library says when it begins
                mine = uuid4().hex
                for _ in range(8):
                    wire.statements.clear()
                    await admit(caller, shop, mine)
                    heard.append(list(wire.statements))
            return heard

        heard = kind.run(play())

    assert [len(each) for each in heard] == [1] * 8
    assert all("inbox_admit(" in statement for each in heard for statement in each)
