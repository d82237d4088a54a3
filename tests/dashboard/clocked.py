"""A clock in the hand: what sleeps wakes when it is turned, and at no other time."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Any


class Clocked:
    """Seconds that pass only when told to, for ``Attempts`` and ``AccessLog``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._asleep: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = count()
        self.spans: list[float] = []
        """The lengths of what was to be done later."""

    def __call__(self) -> float:
        """What time it is."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Wait until it is so much later."""
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._asleep, (self.now + seconds, next(self._number), waking))
        await waking

    def later(self, seconds: float, then: Callable[[], None]) -> Any:
        """Do something when it is so much later."""

        async def done() -> None:
            await self.sleep(seconds)
            then()

        self.spans.append(seconds)
        return asyncio.create_task(done())

    async def turn(self, seconds: float) -> None:
        """Let so much time pass, waking each sleeper at its moment."""
        await settled()
        end = self.now + seconds
        while self._asleep and self._asleep[0][0] <= end:
            self.now, _, waking = heapq.heappop(self._asleep)
            if not waking.done():
                waking.set_result(None)
            await settled()
        self.now = end

    def wind(self, dashboard: Any) -> None:
        """Put it into a dashboard."""
        dashboard._gate.attempts._sleep = self.sleep


async def settled() -> None:
    """Let every task go on until it waits again: requests in this process take a bounded number of steps."""
    for _ in range(50):
        await asyncio.sleep(0)
