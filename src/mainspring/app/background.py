"""A loop in a thread of its own, for blocking callers who have none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.app.door import Door
from mainspring.model.errors import Misuse

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]
"""What is to be awaited on the loop."""


class Background:
    """Runs coroutines for blocking callers, from any number of threads at once.

    The thread starts and the database opens with the first call. A forked child has neither: it starts its own. The
    thread is a daemon and every call waits for its answer, so a process may simply end.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._changed = threading.Condition()
        self._calls = 0
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        _forgetful.add(self)

    def run(self, work: Work[T], call: str, twin: str | None = None) -> T:
        """Await the work on the background loop and return its answer; a coroutine is told to await ``twin``."""
        if in_loop():
            blocking, awaited = (f"app.sync.{call}", f"app.{call}") if twin is None else (call, twin)
            raise Misuse(f"{blocking} would block the event loop it is called on: write `await {awaited}`")
        if (stand_in := self._door.stand_in) is not None:
            return stand_in.wait_for(work)
        with self._changed:
            self._changed.wait_for(lambda: not self._closing)
            future = asyncio.run_coroutine_threadsafe(self._inside(work), self._started())
            self._calls += 1
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupt must not leave it running behind the caller's back
            raise
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Close the database and end the thread, when the calls under way have ended. The next call starts anew."""
        if in_loop():
            raise Misuse("app.sync.close() would block the event loop it is called on: call it from blocking code")
        with self._changed:
            self._changed.wait_for(lambda: not self._closing)
            self._closing = True  # whoever calls now waits, and starts anew
            self._changed.wait_for(lambda: self._calls == 0)
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        try:
            if loop is not None and thread is not None:
                asyncio.run_coroutine_threadsafe(self._door.shut(), loop).result()
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
        finally:
            with self._changed:
                self._closing = False
                self._changed.notify_all()

    def forget(self) -> None:
        """After a fork: the thread stayed with the parent, and so did whoever held the lock."""
        self._changed = threading.Condition()
        self._calls = 0
        self._closing = False
        self._loop = self._thread = None

    async def _inside(self, work: Work[T]) -> T:
        if not self._door.is_open:
            await self._door.enter()
        return await work()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="mainspring-sync", daemon=True)
            self._thread.start()
            weakref.finalize(self, _dismiss, self._loop).atexit = False
        return self._loop


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


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        with contextlib.suppress(RuntimeError):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _dismiss(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.suppress(RuntimeError):  # closed already
        loop.call_soon_threadsafe(loop.stop)


_forgetful: weakref.WeakSet[Background] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_forgetful):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
