"""What the tests of a whole app share: waiting for work to be done."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Seen(Generic[T]):
    """What handlers have seen, and a way to wait for it: no sleeping, no polling, safe from threads."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def add(self, item: T) -> None:
        """Remember it, from any thread."""
        self.items.append(item)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def count(self, wanted: int) -> list[T]:
        """Wait until there are so many."""
        async with asyncio.timeout(60):
            while len(self.items) < wanted:
                self._changed.clear()
                await self._changed.wait()
        return list(self.items)


async def eventually(question: Callable[[], Awaitable[bool]]) -> None:
    """Ask until the answer is yes: for what only the database knows."""
    async with asyncio.timeout(60):
        while not await question():
            await asyncio.sleep(0.01)
