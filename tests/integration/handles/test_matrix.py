"""Every kind of handle, and every way a transaction can end: what is rolled back never happened."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import KINDS, Caller, Kind, Undone
from tests.integration.handles.conftest import Shop
from tests.integration.handles.report import record

ROUNDS = 5
"""Transactions per test, one after another on the same handle."""

Flow = Callable[[Caller, Callable[..., Awaitable[Any]]], Awaitable[None]]


async def commit(caller: Caller, publish: Callable[..., Awaitable[Any]]) -> None:
    async with caller.transaction():
        await publish()


async def rollback(caller: Caller, publish: Callable[..., Awaitable[Any]]) -> None:
    await caller.undone_by_hand(publish)


async def savepoint_rollback(caller: Caller, publish: Callable[..., Awaitable[Any]]) -> None:
    async with caller.transaction():
        await publish()
        try:
            async with caller.savepoint():
                await publish()
                raise Undone
        except Undone:
            pass
        async with caller.savepoint():
            await publish()


async def exception(caller: Caller, publish: Callable[..., Awaitable[Any]]) -> None:
    try:
        async with caller.transaction():
            await publish()
            raise Undone
    except Undone:
        pass


async def idempotent_retry(caller: Caller, publish: Callable[..., Awaitable[Any]]) -> None:
    mine = uuid4()
    for expected in (["stored", "duplicate"], ["duplicate", "duplicate"]):
        async with caller.transaction():
            receipts = [await publish(message_id=mine), await publish(message_id=mine)]
        assert [(each.id, each.status) for each in receipts] == [(mine, status) for status in expected]


FATES: dict[str, tuple[Flow, int, int]] = {
    "commit": (commit, 1, 1),
    "rollback": (rollback, 1, 0),
    "savepoint rollback": (savepoint_rollback, 3, 2),
    "exception": (exception, 1, 0),
    "idempotent retry": (idempotent_retry, 4, 1),
}
"""What is published per transaction, and what must be found of it."""


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_rolled_back_never_happened_and_the_rest_did(
    kind: Kind, shop: Shop, fate: str, request: pytest.FixtureRequest
) -> None:
    flow, published, kept = FATES[fate]
    key, calls = uuid4().hex, 0

    async def play() -> None:
        async with kind.open(shop.address) as caller:

            async def publish(**options: Any) -> Any:
                nonlocal calls
                calls += 1
                return await caller.publish(shop.app, key, **options)

            for _ in range(ROUNDS):
                await flow(caller, publish)

    kind.run(play())
    messages, deliveries = shop.count(key)

    record(request.node, kind.handle, kind.database, fate, calls, messages)
    assert (calls, messages, deliveries) == (ROUNDS * published, ROUNDS * kept, ROUNDS * kept)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nothing_is_seen_before_the_commit(kind: Kind, shop: Shop) -> None:
    key = uuid4().hex

    async def play() -> tuple[int, int]:
        async with kind.open(shop.address) as caller, caller.transaction():
            await caller.publish(shop.app, key)
            return shop.count(key)

    unseen = kind.run(play())

    assert (unseen, shop.count(key)) == ((0, 0), (1, 1))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_and_cancelled_are_part_of_it_too(kind: Kind, shop: Shop) -> None:
    key = uuid4().hex
    ids: list[UUID] = []

    async def play() -> tuple[int, int]:
        async with kind.open(shop.address) as caller:
            async with caller.transaction():
                await caller.publish(shop.app, key, delay="1h", headers={"a": "ä%s"}, expires="2h", priority="low")
            async with caller.transaction():
                ids.extend(each.id for each in await caller.publish_many(shop.app, ["a", "b", "c"]))
                cancelled = await caller.cancel(shop.app, key)
            return cancelled.cancelled, cancelled.asked

    cancelled = kind.run(play())

    assert (len(set(ids)), cancelled) == (3, (1, 0))
    assert shop.count(key) == (1, 0)


def test_a_publish_before_any_other_statement_rolls_back_with_the_session(postgres_shop: Shop) -> None:
    # Until SQLAlchemy has run a statement the driver's connection is outside any transaction: on it this would stay.
    key = uuid4().hex
    kind = next(each for each in KINDS if each.handle == "AsyncSession, asyncpg")

    async def play() -> None:
        async with kind.open(postgres_shop.address) as caller:
            await caller.publish(postgres_shop.app, key)
            await caller.tx.rollback()

    kind.run(play())

    assert postgres_shop.count(key) == (0, 0)
