"""Runs off the worker's loop: in a thread, which can only be signalled, or in a process, which can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mainspring.runtime.handler import Handler, Program, Run
from mainspring.runtime.processes import Processes
from mainspring.runtime.threads import Threads

Overrun = Callable[[Run], None]


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


def offload(handler: Handler, threads: Threads, overrun: Overrun) -> Offload | None:
    """Return where this handler runs; None for the loop."""
    if handler.program is not None:
        limit = None if handler.timeout is None else handler.timeout.total_seconds()
        return InProcess(handler.program, limit, overrun)
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


class InProcess:
    """Runs in a process, which is killed when the run is cancelled."""

    def __init__(self, program: Program, limit: float | None, overrun: Overrun) -> None:
        self._processes = Processes(program)
        self._limit = limit
        self._overrun = overrun

    async def perform(self, run: Run) -> object:
        """Run it in a process, within the limit."""
        loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()

        def begin() -> float | None:
            # Not earlier: starting a process and importing libraries is not the handler's time.
            if self._limit is not None:
                for timer in timers:  # of a process that died while idle
                    timer.cancel()
                timers.append(loop.call_later(self._limit, self._overrun, run))
            return self._limit

        try:
            return await self._processes.run(run.delivery, begin, run.report)
        finally:
            for timer in timers:
                timer.cancel()

    def close(self) -> None:
        """Do nothing: every wait for a process can be cancelled."""

    async def ended(self) -> None:
        """Ask idle processes to end, and kill the others."""
        await self._processes.close()
