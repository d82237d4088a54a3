"""Threads for plain handlers.

They are daemons: a thread cannot be killed, and one that never returns must not keep the process from ending, as
the threads of ``concurrent.futures`` would.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from mainspring.model.interrupts import is_interrupt
from mainspring.model.wording import repr_of


class _Call(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Threads:
    """Up to ``limit`` threads, started on demand."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def call(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run ``function`` in a thread; the result arrives on the calling loop."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if self._busy >= len(self._threads) and len(self._threads) < self._limit:
            thread = threading.Thread(
                target=self._work, name=f"mainspring-handler-{len(self._threads) + 1}", daemon=True
            )
            thread.start()  # raises if the system has no more threads: nothing is counted then
            self._threads.append(thread)
        self._busy += 1
        answer.add_done_callback(self._freed)
        self._calls.put(_Call(function, args, contextvars.copy_context(), loop, answer))
        return answer

    def close(self) -> None:
        """Let the threads end after their current calls."""
        for _ in self._threads:
            self._calls.put(None)
        self._threads.clear()

    def _freed(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = call.context.run(call.function, *call.args)
            except BaseException as raised:  # noqa: BLE001 - whatever it raises is the handler's result
                error = raised
            try:
                call.loop.call_soon_threadsafe(_answer, call.answer, result, error)
            except RuntimeError:
                return  # the loop is closed: nothing waits for the result any more
            del call, result, error


def _answer(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
        return
    # A future rejects StopIteration, and the handler's own must not look like the runtime's.
    if not issubclass(type(error), StopIteration):
        try:
            future.set_exception(error)
        except BaseException as refused:  # the error cannot be inspected, but the call has ended
            if is_interrupt(refused):
                raise
        else:
            return
    future.set_exception(RuntimeError(f"the handler raised {repr_of(error)}"))
