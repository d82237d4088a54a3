"""One lifecycle for every loop of a worker: turn, sleep as long as the turn returned, turn again."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from mainspring.model.errors import BrokerUnavailable, NotGranted, StorageUnavailable
from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import described
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.verdicts import is_closing
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

FOREVER = math.inf
_FIRST_PAUSE = 0.05
_PATIENCE = 1.0
"""Seconds to wait for a thread to end. It is a daemon: an unresponsive database cannot keep the process alive."""


@dataclass(frozen=True, slots=True)
class LoopReport:
    """The state of one loop."""

    turns: int
    idle_for: float
    """Seconds since its last turn ended."""
    failures: int
    """Consecutive failed turns."""
    error: str | None
    failed: int = 0
    """Turns failed since it started."""
    ended: bool = False
    """Whether it has ended without being stopped: it must be restarted."""


class Alarm:
    """A sleep that any code on the loop may end. One sleeper at a time."""

    __slots__ = ("_set", "_waiter")

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """End the sleep, or the next one before it begins."""
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def is_set(self) -> bool:
        """Whether the next sleep ends at once."""
        return self._set

    async def sleep(self, seconds: float) -> bool:
        """Sleep until set or until the time is up. Returns True if it was set."""
        if not self._set and seconds > 0:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = None if seconds == FOREVER else loop.call_later(seconds, _finish, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        rung, self._set = self._set, False
        return rung


class Service:
    """A loop that runs until it is stopped: a failed turn is logged and retried with a back-off."""

    longest_pause: float = 5.0
    """The maximum of seconds between attempts while turns fail."""
    first_after: float = 0.0
    """Seconds after the start until the first turn, if nothing wakes it before."""
    repeat_after: float = 0.0
    """Seconds after which an expected failure that goes on, for the same reason, is logged again."""

    def __init__(self, name: str, log: RateLimitedLog, clock: Clock) -> None:
        self.name: str = name
        self._log = log
        self._clock = clock
        self._alarm = Alarm()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._turns = 0
        self._failures = 0
        self._failed_turns = 0
        self._error: str | None = None
        self._ended_early = False
        self._last = clock.monotonic()
        self._quiet_until = 0.0

    async def turn(self) -> float:
        """Do one bounded piece of work. Returns how many seconds to sleep before the next."""
        raise AssertionError(f"{type(self).__name__} has no turn")

    def start(self) -> None:
        """Start the loop, on the running event loop."""
        self._task = asyncio.create_task(self._loop(), name=f"mainspring-{self.name}")
        self._task.add_done_callback(self._task_ended)

    def wake(self) -> None:
        """End the current sleep."""
        self._alarm.set()

    def end_soon(self) -> None:
        """End after the current turn, without waiting for that."""
        self._stopping = True
        self._alarm.set()

    async def stop(self) -> None:
        """Finish the current turn and end. Idempotent."""
        self.end_soon()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """End at once, even within a turn."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    def report(self) -> LoopReport:
        """Return the state of this loop."""
        idle_for = self._clock.monotonic() - self._last
        return LoopReport(self._turns, idle_for, self._failures, self._error, self._failed_turns, self._ended_early)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if self._stopping:
            return
        error = None if task.cancelled() else task.exception()
        self._ended_early = True
        self._failed(RuntimeError("its loop has ended: restart the worker") if error is None else error)

    async def _loop(self) -> None:
        if self.first_after > 0:
            await self._alarm.sleep(self.first_after)
        while not self._stopping:
            try:
                pause = await self.turn()
            except BaseException as error:  # a loop ends only when it is stopped (invariant 11)
                if _ends(error):
                    raise
                pause = self._failed(error)
                await self._alarm_or(pause)
                continue
            finally:
                self._turns += 1
                self._last = self._clock.monotonic()
            if self._failures:
                self._log.recovered(self.name)
                self._failures, self._error = 0, None
            if pause > 0 and not self._stopping:
                await self._alarm.sleep(pause)

    async def _alarm_or(self, pause: float) -> None:
        # A publisher's wake-ups must not shorten a back-off, or an outage would be hammered.
        until = self._clock.monotonic() + pause
        while not self._stopping and (left := until - self._clock.monotonic()) > 0:
            await self._alarm.sleep(left)

    def _failed(self, error: BaseException) -> float:
        self._failures += 1
        self._failed_turns += 1
        known, self._error = self._error, described(error)
        expected = isinstance(error, StorageUnavailable | BrokerUnavailable | NotGranted)
        now = self._clock.monotonic()
        if not expected or known != self._error or now >= self._quiet_until:
            self._quiet_until = now + self.repeat_after
            self._log.failure(self.name, error, expected=expected)
        return backoff(self._failures, self.longest_pause)


def _ends(error: BaseException) -> bool:
    """Return whether the loop itself is ended: cancelled, closed, interrupted, or by sys.exit in the main thread."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())  # else it comes from within the turn, and ends only that
    if isinstance(error, SystemExit):
        return threading.current_thread() is threading.main_thread()
    return is_closing(error) or is_interrupt(error)


def backoff(failures: int, longest: float = 5.0) -> float:
    """Return jittered, doubling seconds to wait after this many failures in a row."""
    pause: float = min(longest, _FIRST_PAUSE * 2.0 ** min(failures, 16))
    return pause * random.uniform(0.5, 1.0)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class ThreadService(Service):
    """Turns in its own thread from ``start`` to ``stop``; both may be called from any loop.

    It has connections of its own, because driver objects never cross loops (invariant 8).
    """

    def __init__(self, name: str, storage: Storage, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__(name, log, clock)
        self._shared = storage
        self._storage = storage.sibling()
        self._open: asyncio.AbstractEventLoop | None = None
        """The loop on which it is open."""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._over = False
        self._on_end: Callable[[], None] | None = None

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
        self._on_end = lambda: call_on(loop, ended.set)
        self.wake()
        if not self._over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), _PATIENCE)

    async def opened(self) -> Storage:
        """Return the storage, opened on the running loop."""
        if self._open is not (loop := asyncio.get_running_loop()):
            if self._open is not None:
                self._storage = self._shared.sibling()  # its loop has ended, and its connections with it
            await self._storage.open()
            self._open = loop
        return self._storage

    async def finish(self) -> None:
        """Close the storage on its own loop, after the last turn."""
        if self._open is not None:
            await self._storage.close()

    def _main(self) -> None:
        try:
            self._turn_in_thread()
        finally:
            self._over = True
            if self._on_end is not None:
                self._on_end()

    def _turn_in_thread(self) -> None:
        """Run an event loop in this thread, and another if that ends by itself."""
        while True:
            try:
                asyncio.run(self._serve())
            except BaseException as error:  # noqa: BLE001 - the end of a thread would go unnoticed
                pause = self._failed(error)
            else:
                return
            if self._stopping:
                return
            time.sleep(pause)

    async def _serve(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        await self._loop()
        await self.finish()


def call_on(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: object) -> None:
    """Call back on this loop, from any thread. If it closes just now, there is nothing left to notify."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *args)
