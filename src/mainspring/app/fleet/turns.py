"""The turns of a fleet's worker: how many databases it looks at, and has an open worker on, at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_logger = logging.getLogger("mainspring.fleet")
_LOOKS = 16
"""How many databases are looked at at a time."""
_RETRIES = 4
"""How many of those that could not be used: they delay no look at the others."""
_HANGS_AFTER = 0.5
"""Seconds after which a look no longer keeps others waiting."""


class Turn:
    """One of some places, until it is ended."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def end(self) -> None:
        """Make room for the next, once."""
        places, self._places = self._places, None
        if places is not None:
            places.release()


class Turns:
    """The bounds of a fleet's worker: how many databases are looked at, and have an open worker, at a time."""

    def __init__(self, most_open: int) -> None:
        self._looks = asyncio.Semaphore(_LOOKS)
        self._retries = asyncio.Semaphore(_RETRIES)
        self._places = asyncio.Semaphore(most_open)
        self.waiting: int = 0
        """How many databases wait for a turn."""

    @property
    def is_free(self) -> bool:
        """Whether a turn would begin at once."""
        return not self._places.locked()

    @property
    def is_crowded(self) -> bool:
        """Whether some database waits for a turn."""
        return self.waiting > 0

    @asynccontextmanager
    async def look(self, *, again: bool) -> AsyncIterator[None]:
        """Wait for a place to look at a database; ``again``: it could not be used the last time.

        A look that takes long goes on without its place, so that servers which never answer delay no other.
        """
        places = self._retries if again else self._looks
        await places.acquire()
        turn = Turn(places)
        hanging = asyncio.get_running_loop().call_later(_HANGS_AFTER, turn.end)
        try:
            yield
        finally:
            hanging.cancel()
            turn.end()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[Turn]:
        """Wait for a place for an open worker, in the order of the calls."""
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        _logger.debug("%s: its worker starts", name)
        turn = Turn(self._places)
        try:
            yield turn
        finally:
            turn.end()
