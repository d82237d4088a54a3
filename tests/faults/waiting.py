"""Waiting for what a test expects, with a deadline and never by a fixed sleep."""

import asyncio
import time
from collections.abc import Callable

PATIENCE = 90.0
"""Seconds to wait for what must come: on however busy a machine it comes sooner, and waiting costs nothing then."""
_STEP = 0.02


class TooLateError(AssertionError):
    """What was waited for did not come in time."""


async def until(what: str, happened: Callable[[], object], seconds: float = PATIENCE, step: float = _STEP) -> float:
    """Wait until ``happened()`` is true; answers how many seconds it took."""
    began = time.monotonic()
    while not happened():
        if time.monotonic() - began > seconds:
            raise TooLateError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(step)
    return time.monotonic() - began
