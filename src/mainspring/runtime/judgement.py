"""From what a handler did to a verdict: one frozen value, whatever happened."""

from __future__ import annotations

import random
from collections.abc import Collection
from datetime import datetime, timedelta
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator

from mainspring.model.errors import ProcessDied, StorageUnavailable, Unreadable
from mainspring.model.interrupts import is_interrupt
from mainspring.model.message import Delivery
from mainspring.model.schedule import NEXT_HEADER, START_HEADER
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Failure, FailureKind, Retry, Snooze, Verdict
from mainspring.model.wording import LONGEST, LONGEST_STACK, described, repr_of, shortened, storable
from mainspring.runtime.tracebacks import formatted
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import duration

CANCELLED_WHILE_RUNNING = "cancelled while running"
_SHOWN = 100
"""Characters of what a handler returned by mistake."""
_LONGEST_DELAY = timedelta(days=36_500)
"""No database counts much further; who wants no further attempt says so by None."""


class TimedOut(TimeoutError):
    """The handler ran past its timeout. ``retry_on`` and ``give_up_on`` know it as TimeoutError."""


class Reported(Exception):
    """What a handler raised in another process: its failure in words, and the names of its class and all above it."""

    def __init__(self, failure: Failure, kinds: Collection[str]) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.kinds = kinds


class RowLocked(StorageUnavailable):
    """A handler's transaction is undone, since another has locked what it had to write: its attempt has not failed."""


def without_running(delivery: Delivery, deaths: int) -> Verdict | None:
    """What becomes of a delivery whose handler need not be called; None: call it. ``deaths`` are too many."""
    if delivery.deaths >= deaths:
        return poisonous(delivery)
    if delivery.cancel_asked:
        return Cancel(CANCELLED_WHILE_RUNNING)
    if delivery.expired:
        return Cancel("expired before it could run")
    return None


def overdue(limit: timedelta) -> TimedOut:
    """The error of a handler that was stopped at its time limit."""
    return TimedOut(f"it ran past its timeout of {limit.total_seconds():g} s")


def uncalled_for(error: BaseException) -> RuntimeError:
    """The error of a handler that lets CancelledError out although nobody has cancelled it."""
    lone = RuntimeError("the handler raised CancelledError, but nobody had cancelled it")
    lone.__cause__ = error
    return lone


def of_result(result: object) -> Verdict:
    """What a handler's return value means. Anything but a verdict is simply success, if there is nothing to await.

    Raises TypeError for what can only be a mistake. A verdict is one of ours: a subclass could answer otherwise later.
    """
    match result:
        case Done(output):
            return DONE if output is None else Done(_storable(output))
        case Cancel(reason):
            return Cancel(_storable(reason))
        case Snooze(delay, reason):
            return Snooze(duration(delay, of="Snooze"), _storable(reason))
        case type() if result in (Done, Cancel):
            return of_result(result())  # `return Cancel` can only mean one thing
        case type() if result is Snooze:
            raise TypeError("the handler returned Snooze itself: say for how long, return Snooze('5m')")
        case _:
            if result is not None:
                refuse_unawaited(result, "the handler")
            return DONE


def refuse_unawaited(result: object, whose: str) -> None:
    """Raise TypeError for what is still to be awaited or gone through: it has not run, and never counts as done.

    That is invariant 25.
    """
    if not isawaitable(result) and not isgenerator(result) and not isasyncgen(result):
        return
    # It never will: left as it is, a coroutine would warn of that, and a task go on beside the next attempt.
    end = getattr(result, "close" if iscoroutine(result) else "cancel", None)
    if callable(end):
        end()
    raise TypeError(
        f"{whose} returned {repr_of(result, _SHOWN)}, which was not awaited, so that it did not run: write `return "
        "await …` in an `async def`; above an `async def`, a decorator needs functools.wraps"
    )


def of_error(error: BaseException, delivery: Delivery, policy: RetryPolicy, elapsed: timedelta) -> Verdict:
    """Whether a failure is tried again, and when. ``elapsed`` is how long this run took.

    What cannot be read is tried again like anything else: a newer worker may be able to (invariant 10).
    """
    failure = error.failure if isinstance(error, Reported) else failure_of(error)
    try:
        delay = _delay(error, delivery, policy, elapsed)
    except BaseException as broken:  # a policy's function is the user's, and so is whatever it raises
        if is_interrupt(broken):
            raise
        said = f"{failure.error}; its retry policy {policy.name!r} failed too, so it is not tried again: "
        told = shortened(said + described(broken), LONGEST)
        return Bury(Failure(failure.kind, told, failure.traceback))
    return Bury(failure) if delay is None else Retry(delay, failure)


def _delay(error: BaseException, delivery: Delivery, policy: RetryPolicy, elapsed: timedelta) -> timedelta | None:
    """How long to wait before the next attempt; None: there is none."""
    forgiven = _forgives(policy, error.kinds) if isinstance(error, Reported) else policy.forgives(error)
    if not forgiven:
        return None
    start = _start(delivery)
    delay = policy.next_delay(
        delivery.attempt,
        since_due=max(timedelta(), delivery.claimed_at - start) + elapsed,
        original_delay=max(timedelta(), delivery.scheduled_for - delivery.published_at),
        chance=random.random(),
        window=_window(delivery, start),
    )
    return None if delay is None else min(max(delay, timedelta()), _LONGEST_DELAY)


def _start(delivery: Delivery) -> datetime:
    """When it could first run. An occurrence may be late: by an outage, by its jitter, behind an earlier run."""
    if delivery.schedule is None:
        return delivery.scheduled_for
    start = max(delivery.scheduled_for, delivery.published_at, _told(delivery, START_HEADER) or delivery.scheduled_for)
    # Later attempts are due when they are to be tried again, and nothing says any more how long the first had waited.
    return max(start, delivery.due_at) if delivery.attempt == 1 else start


def _window(delivery: Delivery, start: datetime) -> timedelta | None:
    """How long after its start the next occurrence of its schedule comes; None where it has come, or never will."""
    following = _told(delivery, NEXT_HEADER)
    return None if following is None or following <= start else following - start


def _told(delivery: Delivery, header: str) -> datetime | None:
    """An instant that travels with an occurrence; None for what is none."""
    if delivery.schedule is None:
        return None
    try:
        told = datetime.fromisoformat((delivery.headers or {})[header])
    except (KeyError, ValueError):
        return None
    return told if told.tzinfo is not None else None


def failure_of(error: BaseException) -> Failure:
    """An error in words that are safe to store."""
    return Failure(_kind(error), described(error), _trace(error))


def said(error: str) -> Failure:
    """A failure that is only told, cut to what is kept."""
    return Failure("error", shortened(error, LONGEST))


def kind_name(kind: type[BaseException]) -> str:
    """A type of exception as it is named between processes: its module and qualified name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def poisonous(delivery: Delivery) -> Verdict:
    """Bury what has killed its processes, without decoding it."""
    return Bury(
        Failure(
            "poison",
            f"{delivery.deaths} worker processes died while holding it; its payload was not read again",
        )
    )


def _forgives(policy: RetryPolicy, kinds: Collection[str]) -> bool:
    """As ``policy.forgives``, for an error of which only the names of its class and of all above it came here."""
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
        return None  # it says all: the traceback would show only our own code
    return formatted(error, LONGEST_STACK)


def _storable(text: object) -> str | None:
    return None if text is None else storable(str(text))
