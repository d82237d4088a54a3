"""The coroutines of one consumer: started on demand, woken one by one, replaced when one ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import described
from mainspring.runtime.reports import RateLimitedLog

_PAUSE = 0.1
"""Seconds until an ended coroutine is replaced: an error that ends all of them must not keep the loop busy."""


class Crew:
    """Up to ``size`` coroutines, each running ``work`` until the crew is closed (invariant 24)."""

    def __init__(
        self, group: str, size: int, work: Callable[[], Coroutine[Any, Any, None]], log: RateLimitedLog
    ) -> None:
        self._group = group
        self._size = size
        self._work = work
        self._log = log
        self._idle: list[asyncio.Future[None]] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._is_waking = False
        self.closed: bool = False
        """Whether the coroutines have to end."""

    def wake_one(self) -> None:
        """Wake an idle coroutine, or start another; not while one is about to run, since that wakes the next."""
        if self._is_waking or self.closed:
            return
        while self._idle:
            if not (waiter := self._idle.pop()).done():  # else its coroutine was cancelled there, and waits elsewhere
                self._is_waking = True
                waiter.set_result(None)
                return
        if len(self._workers) < self._size:
            self._is_waking = True
            worker = asyncio.create_task(self._work(), name=f"mainspring-{self._group}")
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def awake(self) -> None:
        """Note that a coroutine runs: the next may be woken."""
        self._is_waking = False

    async def rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait to be woken."""
        self._idle.append(waiter := loop.create_future())
        try:
            await waiter
        finally:
            self._is_waking = False

    def close(self) -> None:
        """Cancel all coroutines."""
        self.closed = True
        for worker in self._workers:
            worker.cancel()

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._is_waking = False  # it may have been cancelled before it ran
        if self.closed:
            return
        error = None if worker.cancelled() else worker.exception()
        if error is None and not worker.cancelled():
            self.wake_one()
        else:
            asyncio.get_running_loop().call_later(_PAUSE, self._replace, error)

    def _replace(self, error: BaseException | None) -> None:
        if self.closed:
            return
        if error is None or not is_interrupt(error):
            why = "it was cancelled" if error is None else described(error)
            self._log.log(logging.ERROR, "%s: a handler coroutine ended, replaced: %s", self._group, why, trace=error)
        self.wake_one()


def is_spent(task: asyncio.Task[None], cancels: int) -> bool:
    """Return whether the coroutine in ``task`` has to end after a run that the runtime cancelled this many times.

    A task keeps its count of cancellations, which would affect the next message. Raises CancelledError if the task was
    cancelled by the handler, or by the end of the loop.
    """
    asked = task.cancelling()
    if asked > cancels:
        raise asyncio.CancelledError
    return asked > 0
