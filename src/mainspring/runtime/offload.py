"""Runs off the worker's loop: in a thread, which can only be signalled, or in a process, which can be killed."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import repr_of
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.processes import Processes


class _Call(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Threads:
    """Up to ``limit`` threads, started on demand.

    Each is busy until its function has returned, also if the caller has given up.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._lock = threading.Lock()

    def call(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run ``function`` in a thread, unless its caller gives up before; the result arrives on the calling loop."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            if self._busy >= len(self._threads) and len(self._threads) < self._limit:
                thread = threading.Thread(
                    target=self._work, name=f"mainspring-handler-{len(self._threads) + 1}", daemon=True
                )
                thread.start()  # raises if the system has no more threads: nothing is counted then
                self._threads.append(thread)
            self._busy += 1
        self._calls.put(_Call(function, args, contextvars.copy_context(), loop, answer))
        return answer

    def close(self) -> None:
        """Let the threads end after their current calls."""
        for _ in self._threads:
            self._calls.put(None)
        self._threads.clear()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                if not call.answer.done():
                    result = call.context.run(call.function, *call.args)
            except BaseException as raised:  # noqa: BLE001 - whatever it raises is the handler's result
                error = raised
            with self._lock:
                self._busy -= 1
            try:
                call.loop.call_soon_threadsafe(resolve, call.answer, result, error)
            except RuntimeError:
                return  # the loop is closed: nothing waits for the result any more
            del call, result, error


def resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Set the result of a call, or its error, unless the future is done."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
        return
    # A future rejects StopIteration, and the handler's own must not look like the runtime's.
    if not issubclass(type(error), StopIteration):
        try:
            future.set_exception(error)
        except BaseException as failed:  # the error cannot be inspected, but the call has ended
            if is_interrupt(failed):
                raise
        else:
            return
    future.set_exception(RuntimeError(f"the handler raised {repr_of(error)}"))


class Offload(Protocol):
    """Where a consumer's plain function runs."""

    async def perform(self, run: Run) -> object:
        """Run it and return the handler's result; raises what it raised."""
        ...

    def close(self) -> None:
        """Stop waiting for runs."""
        ...

    async def ended(self) -> None:
        """End what was started, and wait until it has ended."""
        ...


def offload(handler: Handler, threads: Threads, overrun: Callable[[Run], None]) -> Offload | None:
    """Return where this handler runs; None for the loop. ``overrun`` is called when a process exceeds its timeout."""
    if handler.program is not None:
        return Processes(handler, handler.program, overrun)
    return InThread(handler, threads) if handler.threaded else None


class InThread:
    """Runs in a thread, which cannot be killed: it is signalled, and its claim is kept until it returns."""

    def __init__(self, handler: Handler, threads: Threads) -> None:
        self._handler = handler
        self._threads = threads
        self._closing = False

    async def perform(self, run: Run) -> object:
        """Run it in a thread, to its end."""
        answer = self._threads.call(self._handler.call, run.delivery, run)
        while not answer.done():
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError:
                if self._closing or run.stop_reason is None:
                    raise
        return answer.result()

    def close(self) -> None:
        """Stop waiting for the threads."""
        self._closing = True

    async def ended(self) -> None:
        """Do nothing: the threads are shared."""
