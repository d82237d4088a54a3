"""The coroutines of one consumer: how they are woken, and that none of them can strand the queue."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from mainspring.runtime.crew import Crew
from mainspring.runtime.reports import RateLimitedLog
from mainspring.timing.clock import SystemClock


class Line:
    """A queue of pieces of work, and the crew that serves it as an executor does."""

    def __init__(self, size: int) -> None:
        self.crew = Crew("work", size, self.work, RateLimitedLog(SystemClock()))
        self.queue: deque[int] = deque()
        self.served: list[int] = []
        self.wake_ups = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def put(self, count: int) -> None:
        self.queue.extend(range(count))
        self.crew.wake_one()

    async def work(self) -> None:
        self.wake_ups += 1
        self.crew.awake()
        while True:
            while not self.queue:
                await self.crew.rest(asyncio.get_running_loop())
                self.wake_ups += 1
            piece = self.queue.popleft()
            if self.queue:
                self.crew.wake_one()
            await self.gate.wait()
            self.served.append(piece)

    async def until_served(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.served) < count:
                await asyncio.sleep(0)


async def test_work_that_never_waits_needs_no_wake_up_for_each_piece() -> None:
    line = Line(size=100)

    line.put(1_000)
    await line.until_served(1_000)
    line.put(1_000)
    await line.until_served(2_000)

    assert line.wake_ups <= 6
    line.crew.close()


async def test_work_that_waits_is_done_by_as_many_coroutines_as_there_may_be() -> None:
    line = Line(size=3)

    for served in (5, 10):  # the first time they are started, then woken
        line.gate.clear()
        line.put(5)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(line.queue) == 2
        line.gate.set()
        await line.until_served(served)

    line.crew.close()


@pytest.mark.parametrize("rested", [False, True], ids=["not started yet", "at rest"])
async def test_a_coroutine_that_is_cancelled_when_it_is_woken_strands_nothing(rested: bool) -> None:
    line = Line(size=1)
    if rested:
        line.put(1)
        await line.until_served(1)

    line.put(1)
    (worker,) = [task for task in asyncio.all_tasks() if task.get_name() == "mainspring-work"]
    worker.cancel()
    await line.until_served(1 + rested)
    line.put(1)
    await line.until_served(2 + rested)

    line.crew.close()
