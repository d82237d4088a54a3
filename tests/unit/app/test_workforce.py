"""Workers as an operator sees and steers them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.model.errors import BadOption
from mainspring.model.views import Beat
from mainspring.storage.contract import Storage

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LONG = timedelta(minutes=1)
"""Long enough for another report."""


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("the test")


async def beat(app: Mainspring, worker: str, of: str) -> bool:
    """Report a worker, and answer whether it is to drain."""
    return (await (await storage_of(app)).upkeep.beat(Beat(worker, of, "host", 1, ("mail",), 2, "poll"))).drain


async def test_workers_are_listed_drained_and_resumed() -> None:
    app = Mainspring("memory://", name="shop")
    async with app:
        await beat(app, "node-1", "shop")

        (view,) = await app.workers.list()
        await app.workers.drain("node-1", by="ann", reason="deploy")
        drains = await beat(app, "node-1", "shop")
        (drained,) = await app.workers.list()
        await app.workers.resume("node-1")

        assert (view.name, view.app, view.groups, view.in_hand) == ("node-1", "shop", ("mail",), 2)
        assert (drains, drained.drained_by) == (True, "ann")
        assert not await beat(app, "node-1", "shop")


async def test_a_worker_that_is_not_there_is_unknown() -> None:
    app = Mainspring("memory://", name="shop")
    async with app:
        await beat(app, "node-1", "shop")

        with pytest.raises(BadOption, match=r"there is no worker 'node-2'.*There are: node-1"):
            await app.workers.drain("node-2")
        with pytest.raises(BadOption, match="there is no worker 'nobody'"):
            await app.workers.resume("nobody")


def test_workers_are_steered_without_await() -> None:
    app = Mainspring("memory://", name="shop")

    with pytest.raises(BadOption, match="There are: none"):
        app.sync.workers.drain("node-1")

    assert app.sync.workers.list() == []
    app.sync.close()


async def test_the_process_of_a_queue_drains_like_any_other() -> None:
    app = Mainspring("memory://", name="shop")
    with app.testing(start=NOON):
        clock: Any = app._code.clock._clock
        queue = app.queue("billing", "invoices.*")
        assert await queue.claim() == []
        (view,) = await app.workers.list()
        await app.publish("invoices.due", {"number": 1})

        await app.workers.drain(view.name)
        clock.advance(LONG)
        while_draining = await queue.claim(), await queue.reap()
        await app.workers.resume(view.name)
        clock.advance(LONG)
        (item,) = await queue.claim()

    assert while_draining == ([], None)
    assert item.payload == {"number": 1}
