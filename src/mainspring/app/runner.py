"""Workers of this process: waking them, and ``app.run()``, which is one as a script, ended by signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

_logger = logging.getLogger("mainspring.app")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.1
"""Seconds within which a repeated signal is the same one."""


def wake(workers: Iterable[Worker]) -> None:
    """Let them look whether something is due."""
    for worker in workers:
        worker.wake()


@contextlib.asynccontextmanager
async def at_work(worker: Worker, workers: list[Worker]) -> AsyncIterator[Worker]:
    """Start a worker, have it among those of this process, and stop it at the end of the block."""
    workers.append(worker)
    try:
        await worker.start()
        yield worker
    finally:
        try:
            await worker.stop()
        except asyncio.CancelledError:
            # The caller does not wait any longer: what runs is handed back rather than left to lapse.
            await worker.stop_now()
            raise
        finally:
            workers.remove(worker)


def run(worker: AbstractAsyncContextManager[Worker], line: int | None = None) -> bool:
    """Work until told to stop: the first SIGTERM or SIGINT lets handlers finish, the second does not.

    ``line`` leads to a parent process: when that is gone, it counts as told. False: nobody said so, the worker gave up
    by itself.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(worker, line))


async def serve(worker: AbstractAsyncContextManager[Worker], line: int | None = None) -> bool:
    """The same on a loop that runs already."""
    async with worker as working:
        with _stopped_by_signals(working, line) as asked:
            await working.finished()
            return bool(asked)


@contextlib.contextmanager
def _stopped_by_signals(worker: Worker, line: int | None) -> Iterator[list[asyncio.Task[None]]]:
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

    def left_alone(line: int) -> None:
        loop.remove_reader(line)
        if not asked:  # a parent that ends while we are stopping wants no more haste
            _logger.info("the parent process is gone: stopping when handlers have finished")
            asked.append(asyncio.ensure_future(worker.stop()))

    installed = []
    for number in _SIGNALS:
        # Only the main thread of a POSIX process hears signals here; elsewhere the caller stops the worker.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, told, number)
            installed.append(number)
    if line is not None:
        loop.add_reader(line, left_alone, line)  # nothing is ever said on it but its end
    try:
        yield asked
    finally:
        if line is not None:
            loop.remove_reader(line)
        for number in installed:
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
