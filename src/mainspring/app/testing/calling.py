"""How a test's handlers are called: awaited where they are, in a thread, or with no loop at all."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mainspring.model.errors import StuckHandler
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.threads import Threads
from mainspring.telemetry.bus import Bus

T = TypeVar("T")

_THREADS = 32
_PACKAGE = str(Path(__file__).parents[2])


class Calls(Protocol):
    """One way to call handlers and predicates."""

    async def call(self, handler: Handler, run: Run) -> object:
        """Run the handler, middleware and all; returns what it returned and raises what it raised."""
        ...

    async def ask(self, question: Callable[[], Awaitable[T] | T]) -> T:
        """Call what may be a coroutine function, and wait for its answer."""
        ...

    async def tell(self, bus: Bus, emit: Callable[[], None]) -> None:
        """Emit events, and wait for the async hooks that hear of them."""
        ...


class InTask:
    """For ``await kit.…``: coroutines are awaited in the test's own task, plain functions run in a thread.

    With ``here`` plain functions are called in this very thread, because the test's connection belongs to it; there is
    no loop to be seen for as long as they run, as in the thread they have in production.
    """

    def __init__(self, patience: timedelta, *, here: bool) -> None:
        self._patience = patience.total_seconds()
        self._here = here
        self._threads = Threads(_THREADS)

    async def call(self, handler: Handler, run: Run) -> object:
        """See ``Calls.call``."""
        return await around(handler, run, partial(self._perform, handler, run))

    async def ask(self, question: Callable[[], Awaitable[T] | T]) -> T:
        """See ``Calls.ask``."""
        answer = question()
        return await answer if isinstance(answer, Awaitable) else answer

    async def tell(self, bus: Bus, emit: Callable[[], None]) -> None:
        """See ``Calls.tell``."""
        emit()
        await bus.settled()

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    async def _perform(self, handler: Handler, run: Run) -> object:
        if not is_plain(handler):
            return await guarded(handler, run, self._patience)
        if self._here:
            with loopless():
                return handler.call(run.delivery, run)
        return await self._in_thread(handler, run)

    async def _in_thread(self, handler: Handler, run: Run) -> object:
        ident: list[int] = []

        def work() -> object:
            ident.append(threading.get_ident())
            return handler.call(run.delivery, run)

        answer = self._threads.call(work)
        done, _ = await asyncio.wait([answer], timeout=self._patience)
        if not done:
            run.ask_to_stop("shutdown")
            raise StuckHandler(handler.group, self._patience, _where(ident))
        return answer.result()


class Blocking:
    """For ``kit.sync.…``: plain functions are called in this thread, coroutines run on a loop of the kit's."""

    def __init__(self, patience: timedelta) -> None:
        self._patience = patience.total_seconds()
        self._runner: asyncio.Runner | None = None

    async def call(self, handler: Handler, run: Run) -> object:
        """See ``Calls.call``."""
        if is_plain(handler) and handler.around is None:
            return handler.call(run.delivery, run)
        return self._run(around(handler, run, partial(self._perform, handler, run)))

    async def ask(self, question: Callable[[], Awaitable[T] | T]) -> T:
        """See ``Calls.ask``."""
        answer = question()
        return self._run(answer) if isinstance(answer, Awaitable) else answer

    async def tell(self, bus: Bus, emit: Callable[[], None]) -> None:
        """See ``Calls.tell``. Hooks are called on a loop, as a worker calls them."""

        async def told() -> None:
            emit()
            await bus.settled()

        self._run(told())

    def close(self) -> None:
        """End the loop."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def _perform(self, handler: Handler, run: Run) -> object:
        if is_plain(handler):
            with loopless():
                return handler.call(run.delivery, run)
        return await guarded(handler, run, self._patience)

    def _run(self, answer: Awaitable[T]) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_awaited(answer))


def is_plain(handler: Handler) -> bool:
    """Whether calling it gives its result at once. What runs in a process in production does not need one here."""
    return handler.threaded or handler.program is not None


async def around(handler: Handler, run: Run, perform: Callable[[], Awaitable[object]]) -> object:
    """The handler with its middleware around it."""
    if handler.around is None:
        return await perform()
    return await handler.around(run, perform)


async def guarded(handler: Handler, run: Run, patience: float) -> object:
    """Await the handler, by the real clock only so long: its own timeout is counted by the hand-turned one."""
    guard = asyncio.timeout(patience)
    try:
        async with guard:
            answer: Any = handler.call(run.delivery, run)
            return await answer
    except TimeoutError as error:
        if guard.expired():
            raise StuckHandler(handler.group, patience) from error
        raise


@contextlib.contextmanager
def loopless() -> Iterator[None]:
    """Let this thread look as one without a loop."""
    loop = _get_running_loop()
    _set_running_loop(None)
    try:
        yield
    finally:
        _set_running_loop(loop)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


def _where(ident: list[int]) -> str:
    """Where the thread stands, as far as the user's own code goes."""
    frame = sys._current_frames().get(ident[0]) if ident else None  # noqa: SLF001 - there is no other way to look
    stack = [] if frame is None else traceback.extract_stack(frame)
    own = [each for each in stack if not each.filename.startswith(_PACKAGE) and "threading" not in each.filename]
    return "".join(traceback.format_list(own)).rstrip()
