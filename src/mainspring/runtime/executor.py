"""Runs deliveries: long-lived coroutines that pull from a queue, one queue per consumer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, cast

from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import described, text_of
from mainspring.model.verdict import Cancel, Release, Verdict
from mainspring.runtime import verdicts
from mainspring.runtime.breaker_guard import BreakerGuard
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.crew import Crew, in_own_context, is_spent
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.offload import Threads, offload
from mainspring.runtime.overruns import Overrun, Overruns
from mainspring.runtime.reports import RateLimitedLog, facts, report_failure
from mainspring.runtime.settler import Settles
from mainspring.runtime.verdicts import is_closing
from mainspring.telemetry.bus import Bus
from mainspring.timing.clock import CallsLater, Timer, Timers
from mainspring.timing.duration import spell

STOP_TIMEOUT = "timeout"
STOP_LOST = "lost"
STOP_CANCELLED = "cancelled"
STOP_SHUTDOWN = "shutdown"

_TURNS_BEFORE_YIELD = 100
"""Messages that a coroutine serves without a wait before it yields. With 50, verdicts gather in smaller batches."""
_LATELY = 60.0
"""Seconds for which a version counts as waited for: such a message is claimed again within 40."""
_UNLOCKING = timedelta(seconds=1)
"""How long after its release a delivery runs again whose transaction met a locked row."""


class Cancels(Protocol):
    """The task that a run is in."""

    def cancel(self) -> object:
        """Cancel it."""
        ...


class LoopTimers:
    """The timers of the running event loop."""

    monotonic: Callable[[], float] = staticmethod(time.monotonic)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back after ``delay`` seconds, on the running loop."""
        return asyncio.get_running_loop().call_later(delay, callback, *args)


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What all executors of a worker share."""

    settler: Settles
    in_hand: ClaimsInHand
    threads: Threads
    freed: Callable[[str], None]
    """Called with the group of a slot that is free again."""
    deaths: int
    """How many processes a message may kill before it is buried undecoded."""
    failures: RateLimitedLog
    bus: Bus
    timers: Timers = field(default_factory=LoopTimers)
    stepped: bool = False
    """Whether there are no coroutines, and the caller serves the queues by ``step``."""


class Executor:
    """The executor of one consumer: at most ``concurrency`` runs at a time.

    Coroutines pull from the queue and are woken one by one, each waking the next only if there is more to do: a
    handler that never waits is served by a single coroutine, without a task or a wake-up per message.
    """

    def __init__(self, handler: Handler, shared: ExecutorContext) -> None:
        self.handler: Handler = handler
        self.group: str = handler.group
        self.slots: int = handler.concurrency
        self._settler = shared.settler
        self._in_hand = shared.in_hand
        self._freed = shared.freed
        self._deaths = shared.deaths
        self._failures = failures = shared.failures
        self._timers = timers = shared.timers
        self._now = timers.monotonic
        self._queue: deque[Run] = deque()
        self._overruns = Overruns(handler, failures, timers)
        self._crew = Crew(handler.group, 0 if shared.stepped else handler.concurrency, self._work, failures)
        self._running: set[Run] = set()
        self.unsettled: int = 0
        """Verdicts on their way to the database."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._offload = offload(handler, shared.threads, self._overrun)
        self.guard: BreakerGuard | None = (
            None
            if handler.breaker is None
            else BreakerGuard(handler.group, handler.breaker, shared.freed, failures, shared.bus, timers)
        )
        self._limit = self._seconds(handler.timeout)
        self._newer: dict[str, float] = {}

    @property
    def begun(self) -> int:
        """How many deliveries wait here or run."""
        return len(self._queue) + len(self._running)

    @property
    def free(self) -> int:
        """How many more deliveries may be fetched for it.

        A verdict on its way to the database occupies no slot, but the number in hand never exceeds twice the
        concurrency: that bounds the duplicates when the process is killed (invariant 4).
        """
        slots = self.slots
        begun = len(self._queue) + len(self._running)
        free = min(slots - begun, 2 * slots - begun - self.unsettled)
        if self.guard is None:
            return free
        # A run that hangs since before the pause must not prevent the probe.
        counted = len(self._queue) + sum(self.guard.judges(run.started) for run in self._running)
        return min(free, self.guard.slots(slots) - counted)

    def put(self, runs: list[Run]) -> None:
        """Queue deliveries to be run."""
        self._queue.extend(runs)
        self._quiet.clear()
        if self.guard is not None and self.guard.paused_for is not None:
            self.release_waiting()  # claimed while the breaker opened
        else:
            self._crew.wake_one()

    def settled(self) -> None:
        """Count a verdict that the database has confirmed."""
        self.unsettled -= 1
        self._freed(self.group)

    def run_waiting(self) -> None:
        """Run what waits for more to come, as a batch does: here nothing waits."""

    def release_waiting(self) -> None:
        """Release what has not started: no attempt is counted (Q6)."""
        while self._queue:
            self._settle(self._queue.popleft(), Release())
        self._settle_quiet()

    async def quiet(self) -> None:
        """Wait until nothing runs."""
        await self._quiet.wait()

    def running(self) -> list[Run]:
        """Return the current runs."""
        return list(self._running)

    def interrupt(self, run: Run, reason: str) -> None:
        """Ask a run to stop: a coroutine is cancelled, a process killed, a thread only signalled.

        It is signalled once, and again only after time to clean up. The shutdown of the worker does not wait for that.
        """
        if run.stop_reason is not None and reason != STOP_SHUTDOWN:
            return
        run.ask_to_stop(reason)
        if run.task is not None:
            self._overruns.watch(run)
            if not self.handler.threaded:
                run.cancel()

    def overrunning(self) -> list[Overrun]:
        """Return the runs that were asked to stop and are still running."""
        return self._overruns.named(self.running())

    def close(self) -> None:
        """Cancel all coroutines."""
        self._crew.close()
        if self._offload is not None:
            self._offload.close()

    async def ended(self) -> None:
        """End the processes of a ``cpu=True`` consumer, and the connections of a transactional one."""
        if self._offload is not None:
            await self._offload.ended()
        if self.handler.ended is not None:
            await self.handler.ended()

    async def step(self, task: Cancels) -> bool:
        """Serve the next of the queue in the caller's task, which ``task`` cancels. Returns False if none is ready."""
        if not self._queue:
            return False
        run = self._queue.popleft()
        self._running.add(run)
        try:
            await self._serve(run, task, self._timers)
        except BaseException as error:  # noqa: BLE001 - as in a coroutine of its own
            self._unforeseen([run], error)
        return True

    async def _work(self) -> None:
        queue, loop = self._queue, asyncio.get_running_loop()
        task = cast("asyncio.Task[None]", asyncio.current_task())
        served = 0
        self._crew.awake()
        while True:
            while not queue:
                await self._crew.rest(loop)
                served = 0
            run = queue.popleft()
            self._running.add(run)
            if queue:
                self._crew.wake_one()
            try:
                await self._serve(run, task, loop)
            except BaseException as error:  # noqa: BLE001 - no run is left behind, whatever the error
                self._unforeseen([run], error)
            if is_spent(task, run.cancels):
                return
            served += 1
            if served % _TURNS_BEFORE_YIELD == 0:
                await asyncio.sleep(0)  # a handler that never waits must not starve the loop

    def _unforeseen(self, runs: Sequence[Run], error: BaseException) -> None:
        """Fail the attempts that are not judged yet, after an internal error. Ctrl-C releases them, and is raised."""
        if is_closing(error) or (self._crew.closed and issubclass(type(error), asyncio.CancelledError)):
            raise error
        interrupted = is_interrupt(error)
        if not interrupted:
            self._failures.log(logging.ERROR, "%s: %s", self.group, described(error), trace=error)
        for run in runs:
            self._running.discard(run)
            if run.settled is not None:
                self._in_hand.drop(run.delivery.claim)
            elif not run.judged:
                self._settle(run, Release() if interrupted else self._failed(run, error))
        self._freed(self.group)
        self._settle_quiet()
        if interrupted:
            raise error

    async def _serve(self, run: Run, task: Cancels, timers: CallsLater) -> None:
        """Record the start, run, normalise, report."""
        run.started = started = self._now()
        if run.stop_reason is not None:
            verdict = self._after_stop(run, None)  # asked to stop before it started
        else:
            verdict = verdicts.without_running(run.delivery, self._deaths) or await self._attempt(run, task, timers)
        self._running.discard(run)
        if self.guard is not None and self.guard.judge(verdict, run.started):
            self.release_waiting()
        if run.settled is not None:
            self._settler.written(self, run.settled)
        elif verdict is None:
            self._in_hand.let_go(run)  # lost: its new holder decides
        else:
            self._settle(run, verdict, self._now() - started)
        self._freed(self.group)
        self._settle_quiet()

    async def _attempt(self, run: Run, task: Cancels, timers: CallsLater) -> Verdict | None:
        run.task, run.ran = task, True
        limit = self._limit if run.delivery.schedule is None else self._limit_of(run)
        if limit is None:
            timer = None
        else:
            run.deadline = self._now() + limit
            timer = timers.call_later(limit, self._overrun, run)
        try:
            return await self._perform(run)
        finally:
            run.task = None
            if timer is not None:
                timer.cancel()

    def _limit_of(self, run: Run) -> float | None:
        return self._seconds(self.handler.timeout_of(run.delivery))

    def _seconds(self, timeout: timedelta | None) -> float | None:
        # In a process, the time starts when it is ready.
        return None if timeout is None or self.handler.program else timeout.total_seconds()

    async def _perform(self, run: Run) -> Verdict | None:
        try:
            perform, around = partial(self._call, run), self.handler.around
            result = await in_own_context(perform if around is None else partial(around, run, perform))
            if run.settled is not None:
                return run.settled.verdict  # committed with it, whatever was requested since
            if run.unawaited:
                await asyncio.sleep(0)  # tasks that the handler has created begin
                run.refuse_unawaited()
            if run.stop_reason is None:
                return verdicts.of_result(result)
            return self._after_stop(run, verdicts.of_result(result))
        except asyncio.CancelledError as error:
            if self._crew.closed:
                raise
            return self._broken(run, verdicts.uncalled_for(error))
        except BaseException as error:
            if is_closing(error) or is_interrupt(error):
                raise
            return self._broken(run, error)  # anything a handler raises counts as its result

    def _call(self, run: Run) -> Awaitable[object]:
        """Call the handler; middleware wraps this."""
        if self._offload is not None:
            return self._offload.perform(run)
        return cast("Awaitable[object]", self.handler.call(run.delivery, run))

    def _overrun(self, run: Run) -> None:
        self.interrupt(run, STOP_TIMEOUT)
        if self.handler.threaded:
            self._failures.log(
                logging.WARNING,
                "%s: message %s exceeded its timeout of %gs in a thread, which cannot be stopped; its claim is kept",
                self.group,
                run.delivery.message_id,
                (self.handler.timeout_of(run.delivery) or timedelta()).total_seconds(),
            )

    def _after_stop(self, run: Run, verdict: Verdict | None) -> Verdict | None:
        """Return the verdict on a run that was asked to stop; ``verdict`` is its own, if it returned one."""
        match run.stop_reason:
            case "timeout":
                return self._failed(run, verdicts.overdue(self.handler.timeout_of(run.delivery)))
            case "lost":
                return None
            case "cancelled":
                return verdict or Cancel(verdicts.CANCELLED_WHILE_RUNNING)
            case _:
                # An error while the worker stops is no failure: release it, no attempt counted.
                return verdict or Release()

    def _broken(self, run: Run, error: BaseException) -> Verdict | None:
        """Return the verdict on a run that ended in an error, its own or that of being stopped."""
        if run.settled is not None:
            # Its transaction and its verdict are committed: it cannot fail any more.
            self._failures.log(
                logging.WARNING, "%s: message %s was committed, but an error followed the commit: %s",
                self.group, run.delivery.message_id, text_of(error),
            )  # fmt: skip
            return run.settled.verdict
        if run.stop_reason is not None:
            return self._after_stop(run, None)
        if isinstance(error, verdicts.NotSettled):
            self._failures.log(
                logging.WARNING,
                "%s: the transaction of message %s was rolled back, and it runs again, no attempt counted: %s",
                self.group, run.delivery.message_id, text_of(error),
            )  # fmt: skip
            return Release(_UNLOCKING)
        return self._failed(run, error)

    def _failed(self, run: Run, error: BaseException) -> Verdict:
        elapsed = timedelta(seconds=self._now() - (run.started or 0.0))
        return self._judged_error(run, error, elapsed)

    def _judged_error(self, run: Run, error: BaseException, elapsed: timedelta) -> Verdict:
        """Judge an error, and log the failure; a version that only newer code can read is logged once."""
        handler = self.handler
        verdict = verdicts.of_error(error, run.delivery, handler.retry_of(run.delivery), elapsed, handler.newer_wait)
        if isinstance(verdict, Release):
            text = text_of(error)
            if text not in self._newer:
                self._failures.log(
                    logging.WARNING, "%s: message %s waits for a worker with newer code, for up to %s: %s",
                    self.group, run.delivery.message_id, spell(handler.newer_wait), text, facts=facts(run.delivery),
                )  # fmt: skip
            self._newer[text] = self._now()
        else:
            report_failure(self._failures, run.delivery, verdict)
        return verdict

    def awaiting_newer(self) -> list[str]:
        """Return which versions messages here have lately waited for: each as its error."""
        return [text for text, at in self._newer.items() if self._now() - at < _LATELY]

    def _settle(self, run: Run, verdict: Verdict, took: float = 0.0) -> None:
        self._settler.put(self, self.handler.settlement(run.delivery, verdict, timedelta(seconds=took)))
        self.unsettled, run.judged = self.unsettled + 1, True

    def _settle_quiet(self) -> None:
        if not self._queue and not self._running:
            self._quiet.set()
