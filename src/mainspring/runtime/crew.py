"""The coroutines of one consumer: started on demand, woken one by one, replaced when one ends; and calls on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any, TypeVar

from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import described
from mainspring.runtime.reports import RateLimitedLog

T = TypeVar("T")

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
    requested = task.cancelling()
    if requested > cancels:
        raise asyncio.CancelledError
    return requested > 0


@coroutine
def in_own_context(call: Callable[[], Awaitable[T]]) -> Generator[Any, Any, T]:
    """Call and await it in a copy of the context, so that the variables it sets do not reach the next call.

    It stays on the awaiting task, step by step. A task of its own would have the same effect, at several times the cost
    per message and a turn of the loop.
    """
    run = copy_context().run
    steps: Any = run(call).__await__()
    sent, error = None, None
    while True:
        try:
            waited = run(steps.send, sent) if error is None else run(steps.throw, error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            error = None  # its traceback holds this frame
        try:
            sent = yield waited
        except GeneratorExit:
            run(steps.close)
            raise
        except BaseException as thrown:  # noqa: BLE001 - thrown into the call outside of this block
            error = thrown
