"""Turns the result or error of a handler into a verdict: one frozen value in every case."""

from __future__ import annotations

import os
import random
import re
import traceback
from asyncio import CancelledError
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from itertools import dropwhile
from pathlib import Path

from mainspring.model.errors import NewerVersion, ProcessDied, StorageUnavailable, Unreadable
from mainspring.model.interrupts import is_interrupt
from mainspring.model.message import Delivery
from mainspring.model.schedule import NEXT_HEADER, START_HEADER
from mainspring.model.text import LONGEST, LONGEST_STACK, described, joined, repr_of, shortened, storable
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Failure, FailureKind, Release, Retry, Snooze, Verdict
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import duration, spell

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_AROUND = str(Path(__file__).parents[2]) + os.sep


def formatted(error: BaseException, limit: int) -> str | None:
    """Return the traceback as text, cut to the limit; None for an error that cannot be inspected.

    Frames of the library that lead to the handler are left out; its other frames have no absolute path.
    """
    try:
        trace = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        for each in _chained(trace):
            each.stack = _from_the_user_on(each.stack)
        return joined(trace.format(), limit)
    except BaseException as failed:  # its notes and causes are the user's own objects
        if is_interrupt(failed):
            raise
        return None


def _chained(trace: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [trace]
    while waiting:
        each = waiting.pop()
        yield each
        inner = (each.__cause__, each.__context__, *(each.exceptions or ()))
        waiting += [other for other in inner if other is not None]


def _from_the_user_on(stack: traceback.StackSummary) -> traceback.StackSummary:
    # If all frames are the library's, so is the fault: show all.
    frames = list(dropwhile(_is_ours, stack)) or list(stack)
    for frame in filter(_is_ours, frames):
        _ = frame.line  # read from the file while its path is known
        frame.filename = frame.filename.removeprefix(_AROUND)
    return traceback.StackSummary.from_list(frames)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE)


_NO_EXCEPTION = "exceptions must derive from BaseException"
_RAISED = re.compile(r"\braise\b.*\b(Done|Snooze|Retry|Bury|Cancel)\b")
CANCELLED_WHILE_RUNNING = "cancelled while running"
_SHOWN = 100
"""The number of characters shown of a wrong return value."""
_LONGEST_DELAY = timedelta(days=36_500)
"""Databases count little further; a policy returns None for no further attempt."""
NEWER_WAIT = timedelta(days=1)
"""How long a message of a newer version waits for a worker that can read it, by default."""
_SOONEST, _LATEST = timedelta(seconds=1), timedelta(seconds=30)
"""When it is claimed again until then: at first after about a second, later after half a minute."""


class TimedOut(TimeoutError):
    """Raised when a handler exceeds its timeout. ``retry_on`` and ``give_up_on`` see it as TimeoutError."""


class Reported(Exception):
    """What a handler raised in another process: the failure as text, and the names of its class and base classes."""

    def __init__(self, failure: Failure, kinds: Collection[str]) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.kinds = kinds


class ReturnedFailure(Exception):
    """Raised for a Retry or Bury that a handler returned, so that it is judged as a failure."""

    def __init__(self, outcome: Retry | Bury) -> None:
        super().__init__(outcome.failure.error)
        self.outcome = outcome


class NotSettled(StorageUnavailable):
    """Raised when a handler's transaction is rolled back since its verdict cannot be written: no failed attempt.

    A row is locked, or a right is missing.
    """


def is_closing(error: BaseException) -> bool:
    """Return whether the coroutine that catches this is being closed; a callee may raise GeneratorExit, too."""
    if type(error) is not GeneratorExit:
        return False  # before any access to an object that may be the user's
    trace = error.__traceback__
    return trace is None or trace.tb_next is None


def is_stopped(error: BaseException) -> bool:
    """Return whether this error stops the code that catches it from outside: by cancel, close or interrupt."""
    return issubclass(type(error), CancelledError) or is_closing(error) or is_interrupt(error)


def without_running(delivery: Delivery, deaths: int) -> Verdict | None:
    """Return the verdict on a delivery whose handler need not be called, else None. At ``deaths`` it is buried."""
    if delivery.deaths >= deaths:
        return poisonous(delivery)
    if delivery.cancel_asked:
        return Cancel(CANCELLED_WHILE_RUNNING)
    if delivery.expired:
        return Cancel("expired before it could run")
    return None


def overdue(limit: timedelta | None) -> TimedOut:
    """Return the error of a handler that was stopped at its timeout; None: at that of another message of its batch."""
    shown = "" if limit is None else f" of {limit.total_seconds():g} s"
    return TimedOut(f"it ran past its timeout{shown}")


def uncalled_for(error: BaseException) -> RuntimeError:
    """Return the error of a handler that lets CancelledError out although it was not cancelled."""
    lone = RuntimeError("the handler raised CancelledError, but was not cancelled")
    lone.__cause__ = error
    return lone


def of_result(result: object) -> Verdict:
    """Convert a handler's return value. Anything but a verdict is success, unless it is still to be awaited.

    Raises TypeError for obvious mistakes, and ReturnedFailure for Retry and Bury, which depend on the policy. Verdicts
    are rebuilt: a subclass could return other values later.
    """
    if result is None:  # most handlers return nothing
        return DONE
    match result:
        case Done(output):
            return DONE if output is None else Done(_storable(output))
        case Cancel(reason):
            return Cancel(_storable(reason))
        case Snooze(delay, reason):
            return Snooze(duration(delay, of="Snooze"), _storable(reason))
        case Retry(delay, failure):
            after = None if delay is None else duration(delay, of="Retry")
            raise ReturnedFailure(Retry(after, reported(str(failure.error))))
        case Bury(failure):
            raise ReturnedFailure(Bury(reported(str(failure.error))))
        case type() if result in (Done, Cancel, Retry, Bury):
            return of_result(result())  # `return Cancel` is unambiguous
        case type() if result is Snooze:
            raise TypeError("the handler returned the class Snooze: pass a delay, return Snooze('5m')")
        case _:
            refuse_unawaited(result, "the handler")
            return DONE


def refuse_unawaited(result: object, whose: str) -> None:
    """Raise TypeError for an unawaited awaitable or generator: it has not run, so it is not done (invariant 25)."""
    if not isawaitable(result) and not isgenerator(result) and not isasyncgen(result):
        return
    # It never will: an open coroutine would warn, and a task would run beside the next attempt.
    end = getattr(result, "close" if iscoroutine(result) else "cancel", None)
    if callable(end):
        end()
    raise TypeError(
        f"{whose} returned {repr_of(result, _SHOWN)}, which was not awaited, so it did not run: write `return await "
        "…` in an `async def`; above an `async def`, a decorator needs functools.wraps"
    )


def of_error(
    error: BaseException,
    delivery: Delivery,
    policy: RetryPolicy,
    elapsed: timedelta,
    newer_wait: timedelta = NEWER_WAIT,
) -> Verdict:
    """Decide whether and when a failure is retried. ``elapsed`` is how long this run took.

    A message of a newer version is released, up to ``newer_wait`` after it was due: no attempt is counted. Any other
    unreadable message is retried like one that fails: a fixed worker may be able to read it (invariant 10).
    """
    if isinstance(error, ReturnedFailure):
        failure = error.outcome.failure
    else:
        failure = error.failure if isinstance(error, Reported) else failure_of(error)
    if is_newer(error):
        return _awaiting(failure, delivery, elapsed, newer_wait)
    try:
        delay = _delay(error, delivery, policy, elapsed)
    except BaseException as broken:  # a policy's function is the user's and may raise anything
        if is_interrupt(broken):
            raise
        reason = f"{failure.error}; its retry policy {policy.name!r} failed too, so it is not retried: "
        return Bury(Failure(failure.kind, shortened(reason + described(broken), LONGEST), failure.traceback))
    return Bury(failure) if delay is None else Retry(delay, failure)


def is_newer(error: object) -> bool:
    """Return whether only newer code can read the message."""
    if isinstance(error, Reported):
        return kind_name(NewerVersion) in error.kinds
    return isinstance(error, NewerVersion)


def _awaiting(failure: Failure, delivery: Delivery, elapsed: timedelta, limit: timedelta) -> Verdict:
    """Release it for a worker with newer code; bury it where none has taken it in time."""
    waited = max(timedelta(), delivery.claimed_at - max(delivery.scheduled_for, delivery.published_at)) + elapsed
    if waited < limit:
        return Release(min(max(waited / 10, _SOONEST), _LATEST) * (0.75 + random.random() / 2))
    return Bury(Failure(failure.kind, f"{failure.error}; none has taken it within {spell(limit)}, its newer_wait"))


def _delay(error: BaseException, delivery: Delivery, policy: RetryPolicy, elapsed: timedelta) -> timedelta | None:
    """Return how long to wait before the next attempt; None if there is none."""
    outcome = error.outcome if isinstance(error, ReturnedFailure) else None
    if isinstance(outcome, Bury):
        return None
    forgiven = _forgives(policy, error.kinds) if isinstance(error, Reported) else policy.forgives(error)
    if outcome is None and not forgiven:
        return None
    start = _start(delivery)
    delay = policy.next_delay(
        delivery.attempt,
        since_due=max(timedelta(), delivery.claimed_at - start) + elapsed,
        original_delay=max(timedelta(), delivery.scheduled_for - delivery.published_at),
        chance=random.random(),
        window=_window(delivery, start),
    )
    if delay is not None and outcome is not None and outcome.delay is not None:
        delay = outcome.delay
    return None if delay is None else min(max(delay, timedelta()), _LONGEST_DELAY)


def _start(delivery: Delivery) -> datetime:
    """Return when it could first run. An occurrence may be late: by an outage, its jitter, or an earlier run."""
    if delivery.schedule is None:
        return delivery.scheduled_for
    start = max(
        delivery.scheduled_for, delivery.published_at, _instant(delivery, START_HEADER) or delivery.scheduled_for
    )
    # Later attempts are due at their retry time, and how long the first had waited is not stored.
    return max(start, delivery.due_at) if delivery.attempt == 1 else start


def _window(delivery: Delivery, start: datetime) -> timedelta | None:
    """Return how long after its start the next occurrence is due; None if that has passed, or there is none."""
    following = _instant(delivery, NEXT_HEADER)
    return None if following is None or following <= start else following - start


def _instant(delivery: Delivery, header: str) -> datetime | None:
    """Return an instant from the headers of an occurrence; None if missing or malformed."""
    if delivery.schedule is None:
        return None
    try:
        instant = datetime.fromisoformat((delivery.headers or {})[header])
    except (KeyError, ValueError):
        return None
    return instant if instant.tzinfo is not None else None


def failure_of(error: BaseException) -> Failure:
    """Convert an error into a failure that is safe to store."""
    return Failure(_kind(error), described(error) + _hint(error), _trace(error))


def _hint(error: BaseException) -> str:
    """Return what to write, for an outcome that the handler raised: it is a value, so Python raises a TypeError."""
    if type(error) is not TypeError or str(error) != _NO_EXCEPTION:
        return ""
    last = traceback.extract_tb(error.__traceback__, limit=-1)
    raised = _RAISED.search(last[0].line or "") if last else None
    return "" if raised is None else f": an outcome is returned, not raised, so write `return {raised[1]}(…)`"


def reported(error: str) -> Failure:
    """Convert a text into a failure, cut to the stored length."""
    return Failure("error", shortened(storable(error), LONGEST))


def kind_name(kind: type[BaseException]) -> str:
    """Return the name of an exception type as it is sent between processes: module and qualified name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def poisonous(delivery: Delivery) -> Verdict:
    """Bury a delivery that has killed its processes, without decoding it."""
    return Bury(
        Failure(
            "poison",
            f"{delivery.deaths} worker processes died while holding it; its payload was not decoded again",
        )
    )


def _forgives(policy: RetryPolicy, kinds: Collection[str]) -> bool:
    """Do the same as ``policy.forgives``, for an error known only by the names of its class and base classes."""
    if any(kind_name(each) in kinds for each in policy.give_up_on):
        return False
    return not policy.retry_on or any(kind_name(each) in kinds for each in policy.retry_on)


def _kind(error: BaseException) -> FailureKind:
    match error:
        case TimedOut():
            return "timeout"
        case Unreadable():
            return "unreadable"
        case _:
            return "error"


def _trace(error: BaseException) -> str | None:
    if isinstance(error, TimedOut | Unreadable | ProcessDied):
        return None  # the message is enough: the traceback would show only the runtime's code
    return formatted(error, LONGEST_STACK)


def _storable(text: object) -> str | None:
    return None if text is None else storable(str(text))
