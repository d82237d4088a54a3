"""A service in a thread and event loop of its own: code that blocks another loop cannot stop it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.service import Service
from mainspring.timing.clock import Clock

_PATIENCE = 1.0
"""Seconds to wait for the thread to end. It is a daemon: an unresponsive database cannot keep the process alive."""


class ThreadService(Service):
    """Turns in its own thread from ``start`` to ``stop``; both may be called from any loop."""

    def __init__(self, name: str, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__(name, log, clock)
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._over = False
        self._told: Callable[[], None] | None = None

    def start(self) -> None:
        """Start the thread. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name=f"mainspring-{self.name}", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """End the current sleep. Safe from any thread."""
        if (loop := self._own_loop) is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(super().wake)

    async def stop(self) -> None:
        """End the thread. Returns within a second even if the database does not respond."""
        self._stopping = True
        if self._thread is None:
            return
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        self._told = lambda: _call(loop, ended.set)
        self.wake()
        if not self._over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), _PATIENCE)

    async def finish(self) -> None:
        """Clean up on its own loop, after the last turn."""

    def _main(self) -> None:
        try:
            self._turn_in_thread(self._serve)
        finally:
            self._over = True
            if self._told is not None:
                self._told()

    async def _serve(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        await self._loop()
        await self.finish()


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    # If the loop closes just now, there is nothing left to notify.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)
