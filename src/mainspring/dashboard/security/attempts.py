"""Throttling of responses to wrong tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

HELD = 16
"""The maximum number of delayed responses at a time, for all senders."""
SECONDS = 1.0
"""The delay of each."""


class Attempts:
    """Delays the responses to wrong tokens, and never one to a right token.

    The strength of tokens (``Tokens``) prevents guessing, at any speed. So a right token needs no slot that unknown
    senders could exhaust, at its own address or elsewhere: it is checked first and admitted at once. Responses to wrong
    ones are delayed, and rejected with 429 if too many are delayed already.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._held = 0

    async def hold(self) -> bool:
        """Wait before a token is rejected; return False at once if too many are waiting."""
        if self._held >= HELD:
            return False
        self._held += 1
        try:
            await self._sleep(SECONDS)
        finally:
            self._held -= 1
        return True
