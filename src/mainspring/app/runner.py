"""``app.run()``: a worker as a script, ended by signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

_logger = logging.getLogger("mainspring.app")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.1
"""Seconds within which a repeated signal is the same one."""


def run(worker: AbstractAsyncContextManager[Worker]) -> bool:
    """Work until told to stop: the first SIGTERM or SIGINT lets handlers finish, the second does not.

    False: nobody said so, the worker gave up by itself.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(worker))


async def serve(worker: AbstractAsyncContextManager[Worker]) -> bool:
    """The same on a loop that runs already."""
    async with worker as working:
        with _stopped_by_signals(working) as asked:
            await working.finished()
            return bool(asked)


@contextlib.contextmanager
def _stopped_by_signals(worker: Worker) -> Iterator[list[asyncio.Task[None]]]:
    loop = asyncio.get_running_loop()
    asked: list[asyncio.Task[None]] = []
    last = -_SAME_SIGNAL

    def told(number: signal.Signals) -> None:
        nonlocal last
        # A supervisor that signals the process and then its group means it once.
        before, last = last, loop.time()
        if last - before < _SAME_SIGNAL:
            return
        again = bool(asked)
        _logger.info("%s: %s", number.name, "stopping at once" if again else "stopping when handlers have finished")
        asked.append(asyncio.ensure_future(worker.stop_now() if again else worker.stop()))

    installed = []
    for number in _SIGNALS:
        # Only the main thread of a POSIX process hears signals here; elsewhere the caller stops the worker.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, told, number)
            installed.append(number)
    try:
        yield asked
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
