"""What a worker counts at its end, and of what was being written while a heartbeat asked for it."""

import asyncio
from typing import Any

import pytest

from mainspring.model.views import Beat, Orders
from tests.runtime.stage import Stage


async def _succeed(_delivery: Any, _run: Any) -> None: ...


async def _handled(stage: Stage) -> int:
    return sum(each.handled for each in (await stage.storage.ledger.tally()).groups)


async def test_a_report_on_its_way_is_not_sent_again_at_the_stop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, answered = asyncio.Event(), asyncio.Event()
    beat = stage.storage.upkeep.beat

    async def late(report: Beat) -> Orders:
        orders = await beat(report)
        if report.runs:
            stored.set()
            await answered.wait()
        return orders

    monkeypatch.setattr(stage.storage.upkeep, "beat", late)  # its answer comes late, as over a slow line
    async with stage.worker(stage.handler(_succeed)) as worker:
        await stage.publish()
        await stored.wait()
        stopping = asyncio.create_task(worker.stop())
        await stage.until(lambda: not worker.ready)
        asyncio.get_running_loop().call_later(0.05, answered.set)
        await stopping

    assert await _handled(stage) == 1


async def test_what_is_being_written_is_not_given_up_by_a_heartbeat(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    settle = stage.storage.mailbox.settle

    async def late(settlements: Any, owner: str) -> Any:
        begun.set()
        await goes_on.wait()
        return await settle(settlements, owner)

    monkeypatch.setattr(stage.storage.mailbox, "settle", late)  # as over a slow line
    async with stage.worker(stage.handler(_succeed)) as worker:
        await stage.publish()
        await begun.wait()

        worker._lost(stage.calls[0].claim)  # the heartbeat was answered before the verdict was
        still_in_hand = worker.in_hand
        goes_on.set()
        await stage.until(stage.empty)

    assert still_in_hand == 1
    assert await _handled(stage) == 1
