"""Uniqueness in the caller's transaction: stored when it commits, and of several at once by one of them."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Receipt, unique
from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import KINDS, Caller, Kind, Undone, one_per_adapter
from tests.integration.handles.conftest import Shop
from tests.integration.handles.listening import wire_to

CALLERS = 6
TOGETHER = {
    "asyncpg.Connection",
    "psycopg.Connection",
    "AsyncSession, asyncpg",
    "sqlite3.Connection",
}
"""Kinds of which several are there at once; the others share their drivers."""
LAST: Any = unique(keep="last")


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_it_is_stored_when_the_transaction_commits_and_only_then(kind: Kind, shop: Shop) -> None:
    mine = uuid4().hex
    receipts: list[Receipt] = []

    async def play() -> None:
        async def publish(caller: Caller, how: Any) -> None:
            receipts.append(await caller.publish(shop.app, mine, unique=how))

        async with kind.open(shop.address) as caller:
            try:
                async with caller.transaction():
                    await publish(caller, unique(scope="10m"))
                    raise Undone
            except Undone:
                pass
            async with caller.transaction():
                await publish(caller, unique(scope="10m"))
                await publish(caller, "key")
            async with caller.transaction():
                await publish(caller, unique(scope="pending"))
                await publish(caller, LAST)

    kind.run(play())

    undone, first, second, third, last = receipts
    assert [each.status for each in receipts] == ["stored", "stored", "duplicate", "duplicate", "replaced"]
    assert second.id == third.id == first.id != undone.id
    assert last.id != first.id
    assert shop.count(mine) == (2, 1)


@pytest.mark.parametrize("kind", [each for each in KINDS if each.handle in TOGETHER], ids=str)
def test_of_several_at_once_one_is_stored_though_others_roll_back(kind: Kind, shop: Shop) -> None:
    mine = uuid4().hex
    begun = threading.Event()

    async def play(number: int) -> str:
        if number:  # the first stores it alone, and rolls back while the others come
            begun.wait()
        async with kind.open(shop.address) as caller:
            if isinstance(caller.tx, sqlite3.Connection):
                caller.tx.execute("PRAGMA busy_timeout = 60000")
            try:
                async with caller.transaction():
                    receipt = await caller.publish(shop.app, mine, unique="key")
                    begun.set()
                    if number == 0:
                        raise Undone
            except Undone:
                return "undone"
            return receipt.status

    with ThreadPoolExecutor(CALLERS) as threads:
        answers = list(threads.map(lambda number: kind.run(play(number)), range(CALLERS), timeout=120))

    assert sorted(answers) == [*["duplicate"] * (CALLERS - 2), "stored", "undone"]
    assert shop.count(mine) == (1, 1)


@pytest.mark.parametrize("kind", [each for each in one_per_adapter() if each.database == "PostgreSQL"], ids=str)
def test_on_postgresql_it_is_one_statement_more(kind: Kind, shop: Shop) -> None:
    with wire_to(shop.address) as wire:

        async def play() -> list[list[str]]:
            heard = []
            mine = uuid4().hex
            async with kind.open(wire.url) as caller, caller.transaction():
                await caller.publish(shop.app, uuid4().hex, unique="key")  # with whatever the library says first
                for how in ("key", "key", LAST):
                    wire.statements.clear()
                    await caller.publish(shop.app, mine, unique=how)
                    heard.append(list(wire.statements))
            return heard

        stored, duplicate, replaced = kind.run(play())

    assert (len(stored), len(duplicate), len(replaced)) == (2, 1, 3)
    assert all("likeness_enter(" in each[0] for each in (stored, duplicate, replaced))
