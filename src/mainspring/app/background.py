"""A loop in a thread of its own, for blocking callers who have none."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.app.door import Door
from mainspring.model.errors import Misuse

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]
"""What is to be awaited on the loop."""

_LEAVING = 5.0
"""Seconds that the end of a program waits for databases to be closed: one that does not answer cannot keep it."""


class Background:
    """Runs coroutines for blocking callers, from any number of threads at once.

    The thread starts and the database opens with the first call. A forked child has neither: it starts its own. When
    the background is let go of, or the program ends, the thread closes the database and ends too.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._changed = threading.Condition()
        self._calls = 0
        self._closing = False
        self._over = False
        self._entering: asyncio.Task[None] | None = None
        self._thread: _LoopThread | None = None
        self._unheld: weakref.finalize[[], Background] | None = None
        _backgrounds.add(self)

    def run(self, work: Work[T], call: str, instead: str) -> T:
        """Await the work on the background loop and return its answer. On a loop, raise Misuse: write ``instead``."""
        if in_loop():
            raise Misuse(f"{call} would block the event loop it is called on: write {instead}")
        if (stand_in := self._door.stand_in) is not None:
            return stand_in.wait_for(work)
        with self._changed:
            self._changed.wait_for(self._welcome)
            future = asyncio.run_coroutine_threadsafe(self._inside(work), self._started().loop)
            self._calls += 1
        try:
            answer = future.result()
        except BaseException:
            future.cancel()  # an interrupt must not leave it running behind the caller's back
            raise
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()
        if isinstance(answer, _Left):
            raise answer.error
        return answer

    def close(self) -> None:
        """Close the database and end the thread, when the calls under way have ended. The next call starts anew."""
        if in_loop():
            raise Misuse("app.sync.close() would block the event loop it is called on: call it from blocking code")
        with self._changed:
            self._changed.wait_for(lambda: not self._closing)
            self._closing = True  # whoever calls now waits, and starts anew
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._calls == 0)
                thread = self._released()
            if thread is not None:
                try:
                    asyncio.run_coroutine_threadsafe(self._door.shut(), thread.loop).result()
                finally:
                    thread.stop()
                thread.join()
        finally:
            with self._changed:
                self._closing = False
                self._changed.notify_all()

    def end(self) -> None:
        """At the end of the program: let the thread close the database and end; does not wait for it."""
        with self._changed:
            self._over = True
            thread = self._released()
        if thread is not None:
            thread.stop()

    def forget(self) -> None:
        """After a fork: the thread stayed with the parent, and so did whoever held the lock."""
        self._changed = threading.Condition()
        self._calls = 0
        self._closing = self._over = False
        self._released()

    def _welcome(self) -> bool:
        # What a daemon begins when the program is over would be cut off anywhere: it waits until it is no more.
        return not self._closing and not (self._over and threading.current_thread().daemon)

    async def _inside(self, work: Work[T]) -> T | _Left:
        entering = self._entering
        if entering is None or (entering.done() and not self._door.is_open):
            # It belongs to no caller: one that is interrupted leaves the others waiting for the same.
            entering = self._entering = asyncio.create_task(self._door.enter(), name="mainspring-enter")
            entering.add_done_callback(_heard)
        if not entering.done():
            await asyncio.shield(entering)
        try:
            return await work()
        except (KeyboardInterrupt, SystemExit) as error:
            return _Left(error)  # raised here, it would end the loop, with the calls of all other threads

    def _started(self) -> _LoopThread:
        if self._thread is None or not self._thread.is_alive():
            self._thread = _LoopThread(self._door)
            self._thread.start()
            self._unheld = weakref.finalize(self, self._thread.stop)
            self._unheld.atexit = False  # the end of the program waits for all of them at once
        return self._thread

    def _released(self) -> _LoopThread | None:
        """The thread, which is nobody's from now on."""
        thread, self._thread, self._entering = self._thread, None, None
        if self._unheld is not None:
            self._unheld.detach()
            self._unheld = None
        return thread


class _Left:
    """What work raises to end the program that called for it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _LoopThread(threading.Thread):
    """Runs a loop until it is told to stop, and shuts the door behind it. A daemon: it keeps no program from ending."""

    def __init__(self, door: Door) -> None:
        super().__init__(name="mainspring-sync", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._door = door
        self._pid = os.getpid()
        _threads.add(self)

    def run(self) -> None:
        """Serve; in the thread."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            try:
                self.loop.run_until_complete(self._door.shut())
                with contextlib.suppress(RuntimeError):
                    self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            finally:
                self.loop.close()

    def stop(self) -> None:
        """Have it end, from any thread and at any moment: it may be the garbage collector that calls."""
        if self._pid == os.getpid():  # the loop of a parent is woken by the same socket
            with contextlib.suppress(RuntimeError):  # closed already
                self.loop.call_soon_threadsafe(self.loop.stop)


def at_once(work: Work[T]) -> T:
    """Drive what never waits, as on memory, without a loop."""
    __tracebackhide__ = True  # a failing test is shown where it called
    coroutine = _awaiting(work)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    coroutine.close()
    raise Misuse("this call waits for something, and there is no loop to wait on: await it in an async test")


async def _awaiting(work: Work[T]) -> T:
    __tracebackhide__ = True
    return await work()


def in_loop() -> bool:
    """Whether this thread is in an event loop just now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _heard(task: asyncio.Task[None]) -> None:
    # Who waited was told; where nobody waits any more, there is nothing to complain about.
    if not task.cancelled():
        task.exception()


_backgrounds: weakref.WeakSet[Background] = weakref.WeakSet()
_threads: weakref.WeakSet[_LoopThread] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_backgrounds):
        each.forget()


@atexit.register
def _end_all() -> None:
    for each in list(_backgrounds):
        each.end()
    until = time.monotonic() + _LEAVING
    for thread in list(_threads):
        thread.join(max(until - time.monotonic(), 0))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
