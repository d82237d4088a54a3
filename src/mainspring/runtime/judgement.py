"""From what a handler did to a verdict: one frozen value, whatever happened."""

from __future__ import annotations

import random
from collections.abc import Collection
from datetime import datetime, timedelta

from mainspring.model.errors import ProcessDied, Unreadable
from mainspring.model.message import Delivery
from mainspring.model.schedule import NEXT_HEADER, SCHEDULE_HEADER, START_HEADER
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Failure, FailureKind, Retry, Snooze, Verdict
from mainspring.runtime.tracebacks import formatted
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import duration

CANCELLED_WHILE_RUNNING = "cancelled while running"
_ERROR_LIMIT = 2_000
_TRACEBACK_LIMIT = 16_000


class TimedOut(TimeoutError):
    """The handler ran past its timeout. ``retry_on`` and ``give_up_on`` know it as TimeoutError."""


class Reported(Exception):
    """What a handler raised in another process: its failure in words, and the names of its class and all above it."""

    def __init__(self, failure: Failure, kinds: Collection[str]) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.kinds = kinds


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
    """What a handler's return value means. Anything but a verdict is simply success."""
    match result:
        case Done(None) | Cancel(None):
            return result
        case Done(output):
            return Done(_storable(output))
        case Cancel(reason):
            return Cancel(_storable(reason))
        case Snooze(delay, reason):
            return Snooze(duration(delay, of="Snooze"), _storable(reason))
        case type() if result in (Done, Cancel):
            return of_result(result())  # `return Cancel` can only mean one thing
        case type() if result is Snooze:
            raise TypeError("the handler returned Snooze itself: say for how long, return Snooze('5m')")
        case _:
            return DONE


def of_error(error: BaseException, delivery: Delivery, policy: RetryPolicy, elapsed: timedelta) -> Verdict:
    """Whether a failure is tried again, and when. ``elapsed`` is how long this run took.

    What cannot be read is tried again like anything else: a newer worker may be able to (invariant 10).
    """
    if isinstance(error, Reported):
        failure, forgiven = error.failure, _forgives(policy, error.kinds)
    else:
        failure, forgiven = failure_of(error), policy.forgives(error)
    if not forgiven:
        return Bury(failure)
    start = _start(delivery)
    delay = policy.next_delay(
        delivery.attempt,
        since_due=max(timedelta(), delivery.claimed_at - start) + elapsed,
        original_delay=max(timedelta(), delivery.scheduled_for - delivery.published_at),
        chance=random.random(),
        window=_window(delivery, start),
    )
    return Bury(failure) if delay is None else Retry(delay, failure)


def _start(delivery: Delivery) -> datetime:
    """When it could first run. An occurrence may be late: by an outage, by its jitter, behind an earlier run."""
    if delivery.headers is None or SCHEDULE_HEADER not in delivery.headers:
        return delivery.scheduled_for
    start = max(delivery.scheduled_for, delivery.published_at, _told(delivery, START_HEADER) or delivery.scheduled_for)
    # Later attempts are due when they are to be tried again, and nothing says any more how long the first had waited.
    return max(start, delivery.due_at) if delivery.attempt == 1 else start


def _window(delivery: Delivery, start: datetime) -> timedelta | None:
    """How long after its start the next occurrence of its schedule comes; None where it has come, or never will."""
    following = _told(delivery, NEXT_HEADER)
    return None if following is None or following <= start else following - start


def _told(delivery: Delivery, header: str) -> datetime | None:
    """An instant that travels with the message; None for what is none: anybody may publish with any headers."""
    try:
        told = datetime.fromisoformat((delivery.headers or {})[header])
    except (KeyError, ValueError):
        return None
    return told if told.tzinfo is not None else None


def failure_of(error: BaseException) -> Failure:
    """An error in words that are safe to store."""
    return Failure(_kind(error), _say(error), _trace(error))


def said(error: str) -> Failure:
    """A failure that is only told, cut to what is kept."""
    return Failure("error", _shortened(error, _ERROR_LIMIT))


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


def _say(error: BaseException) -> str:
    text = str(error)
    name = type(error).__qualname__
    return _shortened(f"{name}: {text}" if text else name, _ERROR_LIMIT)


def _trace(error: BaseException) -> str | None:
    if isinstance(error, TimedOut | Unreadable | ProcessDied):
        return None  # it says all: the traceback would show only our own code
    return _shortened(formatted(error), _TRACEBACK_LIMIT)


def _storable(text: object) -> str | None:
    # A lone surrogate, as os.fsdecode makes them, has no UTF-8 and no database takes it.
    return None if text is None else str(text).encode("utf-8", "backslashreplace").decode()


def _shortened(text: str, limit: int) -> str:
    text = _storable(text) or ""
    if len(text) <= limit:
        return text
    # The end of a traceback names the culprit, its beginning the way there: keep both.
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - limit} characters left out …\n{text[-half:]}"
