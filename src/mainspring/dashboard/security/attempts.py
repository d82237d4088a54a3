"""How fast wrong tokens are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

HELD = 16
"""Answers that are held back at a time, of all senders together."""
SECONDS = 1.0
"""How long each of them is."""


class Attempts:
    """Holds back the answers to wrong tokens, and never one to a right token.

    What keeps tokens from being guessed is their strength (``Tokens``), at whatever speed. So a right one needs no turn
    that strangers could use up, at its own address or elsewhere: it is checked first and let in at once. Wrong ones
    are answered slowly, and where too many of those answers are held back already, by 429.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._held = 0

    async def hold(self) -> bool:
        """Wait before a token is called wrong; False, at once, where too many wait already."""
        if self._held >= HELD:
            return False
        self._held += 1
        try:
            await self._sleep(SECONDS)
        finally:
            self._held -= 1
        return True
