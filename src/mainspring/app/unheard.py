"""Asking for something on behalf of somebody who may be gone before the answer comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mainspring.app.door import Door
from mainspring.model.errors import MainspringError
from mainspring.storage.contract import Storage

T = TypeVar("T")

_logger = logging.getLogger("mainspring.app")
_MOST = 100
"""How many calls go on without their callers: more would keep everybody else from a database that is slow already."""


class Unheard:
    """Gives back what was granted to a caller that was cancelled meanwhile.

    Such a caller never learns of it, so nobody would have it in hand, and everybody else would be kept out. It knows
    the door and nothing else of the app, which the door outlives.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._under_way: set[asyncio.Task[None]] = set()
        door.farewells.append(self._finish)

    async def ask(self, work: Coroutine[Any, Any, T], give_back: Callable[[T], Awaitable[object]]) -> T:
        """The answer of ``work``, which goes on when the caller is cancelled; then its answer is given back."""
        if self._door.stand_in is not None:
            return await work  # in a test there may be no loop, and nothing waits
        asking = asyncio.ensure_future(work)
        try:
            await asyncio.wait([asking])
        except asyncio.CancelledError:
            if len(self._under_way) >= _MOST:
                asking.cancel()
                raise
            returning = asyncio.create_task(_returned(asking, give_back), name="mainspring-unheard")
            self._under_way.add(returning)
            returning.add_done_callback(self._under_way.discard)
            raise
        return asking.result()

    async def _finish(self, _storage: Storage) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way)


async def _returned(asking: asyncio.Task[T], give_back: Callable[[T], Awaitable[object]]) -> None:
    try:
        await give_back(await asking)
    except MainspringError as error:
        _logger.warning("what was granted to a caller that was cancelled meanwhile was not given back: %s", error)
