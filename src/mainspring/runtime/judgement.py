"""From what a handler did to a verdict: one frozen value, whatever happened."""

from __future__ import annotations

import random
import traceback
from datetime import timedelta

from mainspring.model.errors import Unreadable
from mainspring.model.message import Delivery
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Failure, FailureKind, Retry, Snooze, Verdict
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import duration

_ERROR_LIMIT = 2_000
_TRACEBACK_LIMIT = 16_000


class TimedOut(TimeoutError):
    """The handler ran past its timeout. ``retry_on`` and ``give_up_on`` know it as TimeoutError."""


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
    failure = Failure(_kind(error), _say(error), _trace(error))
    if not policy.forgives(error):
        return Bury(failure)
    delay = policy.next_delay(
        delivery.attempt,
        since_due=max(timedelta(), delivery.claimed_at - delivery.scheduled_for) + elapsed,
        original_delay=max(timedelta(), delivery.scheduled_for - delivery.published_at),
        chance=random.random(),
    )
    return Bury(failure) if delay is None else Retry(delay, failure)


def poisonous(delivery: Delivery) -> Verdict:
    """Bury what has killed its processes, without decoding it."""
    return Bury(
        Failure(
            "poison",
            f"{delivery.deaths} worker processes died while holding it; its payload was not read again",
        )
    )


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
    if isinstance(error, TimedOut | Unreadable):
        return None
    return _shortened("".join(traceback.format_exception(error)), _TRACEBACK_LIMIT)


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
