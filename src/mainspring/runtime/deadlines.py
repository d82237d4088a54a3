"""Waits with a deadline: invariant 11 for everything a stopping worker waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until(seconds: float, wait: Coroutine[Any, Any, None]) -> bool:
    """Wait at most this long. Returns False if it was not done, and was cancelled. Raises what it raises."""
    task = asyncio.create_task(wait)
    done, _ = await asyncio.wait([task], timeout=seconds)
    if done:
        task.result()
        return True
    task.cancel()
    await asyncio.wait([task])
    return False


async def within(seconds: float, wait: Coroutine[Any, Any, None], hurry: asyncio.Event) -> None:
    """Wait at most this long, or until ``hurry`` is set."""
    waiting = asyncio.create_task(wait)
    hurried = asyncio.create_task(hurry.wait())
    await asyncio.wait([waiting, hurried], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in (waiting, hurried):
        each.cancel()
    await asyncio.wait([waiting, hurried])
