"""A thread that serves, and says when it has ended."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future


class Serving(threading.Thread):
    """A daemon whose end can be awaited without another thread: at the end of a program none can be started."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._over: Future[None] = Future()
        self._over.set_running_or_notify_cancel()  # who waits no longer does not cancel it

    def run(self) -> None:
        """Serve; in the thread."""
        try:
            self.serve()
        finally:
            self._over.set_result(None)

    def serve(self) -> None:
        """What the thread does."""
        raise AssertionError(f"{type(self).__name__} serves nothing")

    async def ended(self) -> None:
        """Wait until it has ended."""
        await asyncio.wrap_future(self._over)
        self.join()  # it has nothing left to do
