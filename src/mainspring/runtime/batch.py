"""Batches: several deliveries gathered for one call of their handler, each judged separately."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import repeat
from math import inf
from typing import Any, cast

from mainspring.model.errors import ClaimLost, Unreadable
from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import described, plain, text_of
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Snooze, Verdict
from mainspring.runtime import verdicts
from mainspring.runtime.crew import in_own_context, is_spent
from mainspring.runtime.executor import STOP_SHUTDOWN, Cancels, Executor, ExecutorContext
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.reports import report_failure
from mainspring.runtime.verdicts import is_closing, is_stopped, refuse_unawaited
from mainspring.timing.clock import CallsLater, Timer

_OUTCOMES = (Done, Snooze, Cancel, Retry, Bury)
_ACCEPTED = "None, Done(…), Snooze(…), Cancel(…), Retry(…), Bury(…) or an exception"
_MOST_SHOWN = 100

Answer = tuple[Run, object]
"""A message's run and what its handler returned for it: an outcome, or the exception it failed with."""


class BatchRolledBack(ClaimLost):
    """Raised when a lost claim rolled back the transaction of the whole batch: no message in it is at fault."""


class Batch(Run):
    """One call of a batch consumer: a run that contains ``runs``, each with its own claim, attempt and verdict.

    ``taken`` are the runs whose messages could be decoded, in the order in which the handler gets them; ``unread``
    holds the errors of the others. The call is asked to stop when all of its messages are.
    """

    __slots__ = ("runs", "taken", "unread")

    def __init__(self, runs: Sequence[Run], handler: Handler) -> None:
        super().__init__(runs[0].delivery, handler, held_until=inf, owner=runs[0].owner)
        self.runs: Sequence[Run] = runs
        self.taken: Sequence[Run] = runs
        self.unread: dict[Run, Exception] = {}
        self.started: float | None = runs[0].started
        self._share_unawaited()

    def read(self, decode: Callable[[bytes, str], Any]) -> list[Any]:
        """Decode the messages. One that cannot be decoded is left out, and fails no other (invariant 10)."""
        messages: list[Any] = []
        taken: list[Run] = []
        self.unread = {}
        for run in self.runs:
            try:
                messages.append(decode(run.delivery.payload, run.delivery.content_type))
            except Exception as error:  # noqa: BLE001 - a user's codec or upcaster may raise anything
                self.unread[run] = error
            except BaseException as error:  # a codec may panic, too
                if is_stopped(error):
                    raise
                self.unread[run] = Unreadable(f"the payload could not be read: {described(error)}")
            else:
                taken.append(run)
        self.taken = taken
        return messages

    def limit(self, deadline: float) -> None:
        """Set the deadline of the whole batch."""
        self.deadline: float | None = deadline
        for run in self.runs:
            run.deadline = deadline

    def lend(self, handle: object, since: float | None) -> None:
        """Record the transaction that the batch runs in, and since when it is open; None when it is closed."""
        super().lend(handle, since)
        for run in self.runs:
            # Only the first has the time: the warning about long transactions is logged once per batch.
            run.lend(handle, since if run is self.runs[0] else None)
        self._share_unawaited()

    def _share_unawaited(self) -> None:
        """Have the calls of all contexts in one set: the handler is one."""
        noted = self.note_unawaited()
        for run in self.runs:
            run.unawaited = noted

    def report(self, progress: object) -> None:
        """Record the progress of the whole batch."""
        super().report(progress)
        for run in self.runs:
            run.progress = self.progress

    def ask_to_stop(self, reason: str) -> None:
        """Ask the handler to stop the whole batch."""
        super().ask_to_stop(reason)
        for run in self.runs:
            run.ask_to_stop(reason)

    def cancel(self) -> None:
        """Cancel the task that the batch runs in."""
        super().cancel()
        for run in self.runs:
            run.cancels = self.cancels

    def answered(self, result: object) -> list[Answer]:
        """Map the handler's result to each message; raises TypeError for an invalid result."""
        return [*self.unread.items(), *zip(self.taken, outcomes(result, len(self.taken)), strict=True)]

    def failed(self, error: BaseException) -> list[Answer]:
        """Map the handler's error to each message that it had."""
        return [(run, self.unread.get(run, error)) for run in self.runs]


def outcomes(result: object, count: int) -> Sequence[object]:
    """Return an outcome for each of ``count`` messages: the one returned for all, or those of a list."""
    if result is None or _is_outcome(result):
        return [result] * count
    if not isinstance(result, list | tuple):
        refuse_unawaited(result, "the handler of a batch")
        raise TypeError(
            f"the handler of a batch returned {_shown(result)}: return nothing when all is done, or a list with an "
            f"outcome per message: {_ACCEPTED}"
        )
    if len(result) != count:
        raise TypeError(
            f"the handler of a batch returned a list of {len(result)} for {count} messages: return an outcome for each "
            f"of them, in their order: {_ACCEPTED}"
        )
    for place, each in enumerate(result):
        if each is not None and not _is_outcome(each) and not isinstance(each, BaseException):
            refuse_unawaited(each, f"the handler of a batch, for message [{place}],")
            raise TypeError(f"the handler of a batch returned {_shown(each)} at [{place}]: an outcome is {_ACCEPTED}")
    return result


def _is_outcome(value: object) -> bool:
    # `return Cancel` is unambiguous; `return Snooze` lacks a delay, which is reported where the outcome is read.
    return isinstance(value, _OUTCOMES) or (isinstance(value, type) and value in _OUTCOMES)


def _shown(value: object) -> str:
    text = plain(value, repr)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


_SLACK = 0.001
"""Seconds by which a timer may fire early."""

Judged = tuple[Run, Verdict | None]


class BatchExecutor(Executor):
    """The executor of one batch consumer: at most ``concurrency`` batches at a time.

    A batch is taken when it is full, when its first message has waited for *linger*, or when no shared slot is free.
    Slots are counted in messages, so the number in hand is bounded as for any other consumer. Deliveries that need not
    run or cannot be read are judged individually, and a suspect runs alone (invariant 15).
    """

    def __init__(self, handler: Handler, shared: ExecutorContext) -> None:
        super().__init__(handler, shared)
        assert handler.batching is not None, "others are run one by one"
        self._size = handler.batching.size
        self._linger = handler.batching.linger
        self.slots: int = handler.concurrency * self._size
        self._stopping = False
        self._arrived: deque[float] = deque()
        """When each delivery in the queue arrived; minus infinity if it lingers no longer."""
        self._linger_timer: Timer | None = None
        self._batches: dict[Run, Batch] = {}
        self._reported: tuple[BaseException, verdicts.Reported] | None = None

    def put(self, runs: list[Run]) -> None:
        """Queue deliveries to be run."""
        now = self._now()
        for run in runs:
            # A suspect runs alone, so it does not wait for a batch to fill: the next one is reaped once it has run a
            # while.
            (self._queue.appendleft if run.delivery.suspect else self._queue.append)(run)
            (self._arrived.appendleft if run.delivery.suspect else self._arrived.append)(now)
        self._quiet.clear()
        if self.guard is not None and self.guard.paused_for is not None:
            self._hand_back()  # claimed while the breaker opened
        else:
            self._wake_ready()

    def run_waiting(self) -> None:
        """Run what waits for its batch to fill, even if a slot is free again by the time a coroutine takes it."""
        self._arrived = deque(repeat(-inf, len(self._queue)))
        self._wake_ready()

    def release_waiting(self) -> None:
        """Release what has not started, because the worker stops: from now on nothing waits for a batch to fill."""
        self._stopping = True
        self._hand_back()

    def _hand_back(self) -> None:
        self._arrived.clear()
        self._cancel_timer()
        super().release_waiting()

    def running(self) -> list[Run]:
        """Return the batches that are running."""
        return list(dict.fromkeys(self._batches.values()))

    def interrupt(self, run: Run, reason: str) -> None:
        """Ask a batch, or one of its messages, to stop: the handler is stopped only when all of them are."""
        batch = self._batches.get(run)
        if batch is None:
            super().interrupt(run, reason)  # a batch itself, or a run that has not started
            return
        run.ask_to_stop(reason)
        if reason == STOP_SHUTDOWN or all(each.stop_reason is not None for each in batch.runs):
            super().interrupt(batch, reason)

    def close(self) -> None:
        """Cancel all coroutines."""
        self._cancel_timer()
        super().close()

    def _wake_ready(self) -> None:
        """Wake a coroutine for what is ready; set a timer for the rest."""
        if not self._queue:
            return
        left = self._left()
        if left <= _SLACK:
            self._crew.wake_one()
        elif self._linger_timer is None:
            self._linger_timer = self._timers.call_later(left, self._lingered)

    def _lingered(self) -> None:
        self._linger_timer = None
        self._wake_ready()  # the delivery it was set for may be gone, and the next in the queue younger

    def _cancel_timer(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _left(self) -> float:
        """Return the seconds until the first delivery of the queue has lingered long enough."""
        if self._stopping or len(self._queue) >= self._size or self._queue[0].delivery.suspect:
            return 0.0
        return self._arrived[0] + self._linger - self._now()

    def _take(self) -> list[Run]:
        taken = [self._next()]
        if not taken[0].delivery.suspect:
            while self._queue and len(taken) < self._size and not self._queue[0].delivery.suspect:
                taken.append(self._next())
        self._running.update(taken)
        return taken

    def _next(self) -> Run:
        self._arrived.popleft()
        return self._queue.popleft()

    async def step(self, task: Cancels) -> bool:
        """Serve the next batch in the caller's task. See ``Executor.step``."""
        if not self._queue or self._left() > _SLACK:
            return False
        runs = self._take()
        try:
            await self._serve_all(runs, task, self._timers)
        except BaseException as error:  # noqa: BLE001 - as in a coroutine of its own
            self._unforeseen(runs, error)
        return True

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._crew.awake()
        while True:
            while not self._queue or self._left() > _SLACK:
                await self._crew.rest(loop)
            runs = self._take()
            self._wake_ready()
            try:
                await self._serve_all(runs, task, loop)
            except BaseException as error:  # noqa: BLE001 - as for any other consumer
                self._unforeseen(runs, error)
            if is_spent(task, max(run.cancels for run in runs)):
                return
            await asyncio.sleep(0)  # a handler that never waits must not starve the loop

    async def _serve_all(self, runs: Sequence[Run], task: Cancels, timers: CallsLater) -> None:
        """Judge what need not run, run the rest as one batch, settle each."""
        started = self._now()
        unrun: list[Judged] = []
        wanted: list[Run] = []
        for run in runs:
            run.started = started
            if run.stop_reason is not None:
                unrun.append((run, self._after_stop(run, None)))  # asked to stop before it started
            elif (verdict := verdicts.without_running(run.delivery, self._deaths)) is not None:
                unrun.append((run, verdict))
            else:
                wanted.append(run)
        self._conclude(unrun, started)
        if wanted:
            self._conclude(await self._attempt_all(Batch(wanted, self.handler), task, timers), started)

    def _conclude(self, judged: Sequence[Judged], started: float) -> None:
        took, tripped = self._now() - started, False
        for run, verdict in judged:
            self._running.discard(run)
            if self.guard is not None and self.guard.judge(verdict, run.started):
                tripped = True
            if run.settled is not None:
                self._settler.written(self, run.settled)
            elif verdict is None:
                self._in_hand.let_go(run)  # lost: its new holder decides
            else:
                self._settle(run, verdict, took)
        if tripped:
            self._hand_back()
        self._freed(self.group)
        self._settle_quiet()

    async def _attempt_all(self, batch: Batch, task: Cancels, timers: CallsLater) -> Sequence[Judged]:
        batch.task, timer = task, None
        for run in batch.runs:
            run.ran = True
        self._batches.update(zip(batch.runs, repeat(batch), strict=False))
        limit = self._limit
        if any(run.delivery.schedule is not None for run in batch.runs):
            # The longest of them: no message is stopped before its own time.
            limits = [self._limit_of(run) for run in batch.runs]
            limit = None if None in limits else max(each for each in limits if each is not None)
        if limit is not None:
            batch.limit(self._now() + limit)
            timer = timers.call_later(limit, self._overrun, batch)
        try:
            answers = await self._perform_all(batch)
        finally:
            batch.task = None
            if timer is not None:
                timer.cancel()
            for run in batch.runs:
                del self._batches[run]
        judged = [(run, self._judged(run, answer)) for run, answer in answers]
        self._reported = None
        return judged

    async def _perform_all(self, batch: Batch) -> Sequence[Answer]:
        try:
            perform, around = partial(self._call, batch), self.handler.around
            result = await in_own_context(perform if around is None else partial(around, batch, perform))
            if batch.unawaited:
                await asyncio.sleep(0)  # tasks that the handler has created begin
                batch.refuse_unawaited()
            return batch.answered(result)
        except asyncio.CancelledError as error:
            if self._crew.closed:
                raise
            return batch.failed(verdicts.uncalled_for(error))
        except BaseException as error:
            if is_closing(error) or is_interrupt(error):
                raise
            if batch.runs[0].settled is not None:
                self._failures.log(
                    logging.WARNING, "%s: a batch was committed, but an error followed the commit: %s",
                    self.group, text_of(error),
                )  # fmt: skip
            return batch.failed(error)  # anything a handler raises counts as its result

    def _judged(self, run: Run, answer: object) -> Verdict | None:
        """Return the verdict on one message of a batch, given the handler's outcome for it."""
        if run.settled is not None:
            report_failure(self._failures, run.delivery, run.settled.verdict)
            return run.settled.verdict  # committed with it, whatever was requested since
        if isinstance(answer, BatchRolledBack):
            return Release() if run.stop_reason is None else self._after_stop(run, None)
        if isinstance(answer, asyncio.CancelledError):
            return self._broken(run, verdicts.uncalled_for(answer))
        if isinstance(answer, BaseException):
            return self._broken(run, answer)
        try:
            verdict = verdicts.of_result(answer)
        except BaseException as error:  # as when a handler returns it for a single message
            if is_interrupt(error):
                raise
            return self._broken(run, error)
        return verdict if run.stop_reason is None else self._after_stop(run, verdict)

    def _failed(self, run: Run, error: BaseException) -> Verdict:
        policy, elapsed = self.handler.retry_of(run.delivery), timedelta(seconds=self._now() - (run.started or 0.0))
        shared: BaseException = error
        is_shared = not isinstance(error, verdicts.ReturnedFailure) and not verdicts.is_newer(error)
        if is_shared and not policy.retry_on and not policy.give_up_on:
            # Format the traceback of one error once, not once per message.
            if self._reported is None or self._reported[0] is not error:
                self._reported = error, verdicts.Reported(verdicts.failure_of(error), ())
            shared = self._reported[1]
        return self._judged_error(run, shared, elapsed)


def executor_of(handler: Handler, shared: ExecutorContext) -> Executor:
    """Return an executor for this consumer, of batches if it takes them."""
    return (Executor if handler.batching is None else BatchExecutor)(handler, shared)
