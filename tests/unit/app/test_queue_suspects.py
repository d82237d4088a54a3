"""Queues and suspects: of those that ask at once, one is given what has to be alone."""

import asyncio
from collections.abc import AsyncIterator, Generator
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring, Queue
from mainspring.app.queue.item import all_settled, settled
from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Settled

_NOTHING = timedelta()


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    async with Mainspring("memory://", name="shop", namespace="suspects") as app:
        yield app


async def accused(app: Mainspring, queue: Queue[Any], count: int) -> None:
    """So many that have cost a process each."""
    await queue.declare()
    for number in range(count):
        await app.publish("invoices.due", number)
    await queue.claim(hold="1ms")
    mailbox = (await app._connection.storage("a test")).mailbox
    for _ in range(count):
        async with asyncio.timeout(60):
            while await mailbox.reap(["billing"], "one that died", _NOTHING, accused=False) is None:
                await asyncio.sleep(0.001)


def answered(answer: object) -> Generator[Any, Any, object]:
    """A script that asks for nothing."""
    yield from ()
    return answer


async def test_of_those_who_reap_at_once_one_is_given_what_has_to_be_alone(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = app.queue("billing", "invoices.*")
    await accused(app, queue, 3)
    mailbox = (await app._connection.storage("a test")).mailbox
    reap = mailbox.reap

    async def slowly(*args: Any, **options: Any) -> Any:
        found = await reap(*args, **options)
        await asyncio.sleep(0)  # a trip to a database, on which the others get their turn
        return found

    monkeypatch.setattr(mailbox, "reap", slowly)
    reaped = [each for each in await asyncio.gather(*(queue.reap() for _ in range(3))) if each is not None]

    assert len(reaped) == 1
    await queue.ack(*reaped)
    assert await queue.reap() is not None


async def test_who_could_not_reap_keeps_no_other_from_it(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = app.queue("billing", "invoices.*")
    await accused(app, queue, 1)
    mailbox = (await app._connection.storage("a test")).mailbox

    async def cut_off(*_: Any, **__: Any) -> Any:
        raise StorageUnavailable("the line broke")

    with monkeypatch.context() as patched:
        patched.setattr(mailbox, "reap", cut_off)
        with pytest.raises(StorageUnavailable):
            await queue.reap()

    assert await queue.reap() is not None


async def test_what_is_busy_is_not_taken_for_settled(app: Mainspring) -> None:
    queue = app.queue("billing", "invoices.*")
    await queue.declare()
    await app.publish("invoices.due", 1)
    [item] = await queue.claim()
    busy = Settled(busy=frozenset({item.claim}))

    assert all_settled([Settled(), busy]) == busy
    with pytest.raises(StorageUnavailable, match="roll this transaction back"):
        settled([item], busy, "ack", enlisted=True)
