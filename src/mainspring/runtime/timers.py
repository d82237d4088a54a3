"""The monotonic time and the timers of executors: the event loop's, or those of a test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Prevent the call."""
        ...


class CallsLater(Protocol):
    """Calls back after some time, as an event loop does."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back after ``delay`` seconds."""
        ...


class Timers(CallsLater, Protocol):
    """Measures time, and calls back after some."""

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        ...


class LoopTimers:
    """The timers of the running event loop."""

    monotonic: Callable[[], float] = staticmethod(time.monotonic)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back after ``delay`` seconds, on the running loop."""
        return asyncio.get_running_loop().call_later(delay, callback, *args)


LOOP_TIMERS = LoopTimers()
