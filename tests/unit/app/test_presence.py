"""How queues are seen: what they did is counted once, whatever becomes of a report."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.app.queue.runtime import QueueHeartbeat
from mainspring.model.errors import StorageUnavailable
from mainspring.model.verdict import DONE
from mainspring.model.views import Beat, Declaration, Orders
from mainspring.storage.memory import MemoryStorage
from mainspring.telemetry.measures import Meter


class Scene:
    """A presence with a meter, on memory."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.meter = Meter()
        self.presence = QueueHeartbeat("shop", self.meter)

    async def declared(self) -> Scene:
        await self.storage.upkeep.declare([Declaration("mail", "shop", ("orders",), "shop:mail")])
        self.presence.serves("mail")
        return self

    def work(self, count: int = 1) -> None:
        for _ in range(count):
            self.meter.count("mail", DONE, 0.1, 0.1)

    async def counted(self) -> tuple[int, int]:
        (counts,) = (await self.storage.ledger.tally()).groups
        rows = (await self.storage.measures.read(10, timedelta(minutes=1), "mail")).rows
        return counts.handled, sum(count for _, what, _, count in rows if what == "done")


@pytest.fixture
async def scene() -> Scene:
    return await Scene().declared()


async def test_a_report_whose_reply_was_lost_is_counted_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    beat = scene.storage.upkeep.beat

    async def unheard(report: Beat) -> Orders:
        await beat(report)
        raise StorageUnavailable("the reply was lost")

    scene.work(3)
    with monkeypatch.context() as patched:
        patched.setattr(scene.storage.upkeep, "beat", unheard)
        lost = await scene.presence.report(scene.storage)
    scene.work(2)
    heard = await scene.presence.report(scene.storage)

    assert (lost, heard) == (False, True)
    assert await scene.counted() == (5, 5)


async def test_reports_at_once_are_all_counted_in_their_order(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    beat, begun, goes_on = scene.storage.upkeep.beat, asyncio.Event(), asyncio.Event()
    numbers: list[int] = []

    async def slow(report: Beat) -> Orders:
        begun.set()
        await goes_on.wait()
        numbers.append(report.number)
        return await beat(report)

    monkeypatch.setattr(scene.storage.upkeep, "beat", slow)
    scene.work()
    first = asyncio.create_task(scene.presence.report(scene.storage))
    await begun.wait()
    scene.work()
    second = await scene.presence.report(scene.storage)
    leaving = asyncio.create_task(scene.presence.leave(scene.storage))
    goes_on.set()
    await asyncio.gather(first, leaving)

    assert (first.result(), second) == (True, True)
    assert numbers == [1, 2, 3]
    assert await scene.counted() == (2, 2)
    assert (await scene.storage.ledger.roster()).workers == ()


async def test_who_drained_and_left_comes_back_undrained(scene: Scene) -> None:
    await scene.presence.report(scene.storage)
    (view,) = (await scene.storage.ledger.roster()).workers
    await scene.storage.controls.drain(view.name, "ann", "")
    await scene.presence.report(scene.storage)
    (drained,) = (await scene.storage.ledger.roster()).workers

    await scene.presence.leave(scene.storage)
    scene.presence.serves("mail")
    await scene.presence.report(scene.storage)

    (back,) = (await scene.storage.ledger.roster()).workers
    assert (view.name, drained.condition, back.condition) == (f"shop/{scene.presence.owner}", "drained", "active")
