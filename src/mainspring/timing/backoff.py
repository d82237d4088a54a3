"""Retry policies: pure functions from failures to the time of the next attempt."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ParamSpec

from mainspring.timing.duration import Duration, duration
from mainspring.vocabulary import option_advice

_FLOOR = timedelta(seconds=1)
Exceptions = tuple[type[BaseException], ...]
OneOrMore = type[BaseException] | Exceptions
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to retry after a failure, and when to give up.

    ``wait`` maps (failed attempt, original delay) to a delay, or None if there is no further attempt.
    Build policies with ``exponential``, ``intervals``, ``proportional``; ``NO_RETRY`` gives up at once.
    """

    name: str
    wait: Callable[[int, timedelta], timedelta | None]
    jitter: float = 0.0
    budget: timedelta | None = None
    retry_on: Exceptions = ()
    give_up_on: Exceptions = ()
    until_next: bool = False
    """Whether an occurrence of a schedule is given up when the next one is due."""

    def next_delay(
        self,
        attempt: int,
        *,
        since_due: timedelta,
        original_delay: timedelta,
        chance: float,
        window: timedelta | None = None,
    ) -> timedelta | None:
        """Return how long to wait after failed ``attempt`` (from 1), or None to give up.

        ``since_due`` is the time since the delivery was first due; ``chance`` in [0, 1) spreads the delay, so that a
        thousand simultaneous failures do not return simultaneously. ``window`` is the time from one occurrence of a
        schedule to the next.
        """
        delay = self.wait(attempt, original_delay)
        if delay is None:
            return None
        if self.jitter:
            delay *= 1 + self.jitter * (2 * chance - 1)
        if self.budget is not None and since_due + delay > self.budget:
            return None
        if self.until_next and window is not None and since_due + delay > window:
            return None
        return delay

    def forgives(self, error: BaseException) -> bool:
        """Return whether this kind of error is worth another attempt at all."""
        if self.give_up_on and isinstance(error, self.give_up_on):
            return False
        return not self.retry_on or isinstance(error, self.retry_on)

    def limited(self, budget: Duration) -> RetryPolicy:
        """Return the same policy with a total ``budget`` counted from the first due time."""
        return replace(self, budget=duration(budget, of="budget"))


def _explained(make: Callable[P, RetryPolicy]) -> Callable[P, RetryPolicy]:
    """Let an unknown option raise an error that names the one to write."""
    known = [name for name in make.__annotations__ if name not in ("waits", "return")]

    @functools.wraps(make)
    def explained(*args: P.args, **options: P.kwargs) -> RetryPolicy:
        for name in options:
            if name not in known:
                advice = option_advice(name, known) or f"it accepts {', '.join(known)}"
                raise TypeError(f"{make.__name__}(…) has no option {name!r}: {advice}")
        return make(*args, **options)

    return explained


@_explained
def exponential(
    first: Duration = "1s",
    *,
    factor: float = 2.0,
    cap: Duration = "10m",
    attempts: int = 15,
    jitter: float = 0.1,
    budget: Duration | None = None,
    retry_on: OneOrMore = (),
    give_up_on: OneOrMore = (),
) -> RetryPolicy:
    """Wait ``first``, then ``factor`` times as long each time, at most ``cap``; give up after ``attempts``."""
    start, ceiling = duration(first, of="first"), duration(cap, of="cap")
    if factor < 1:
        raise ValueError(f"factor={factor!r} is below 1: retries would come ever faster")
    _check_attempts(attempts)
    steady = factor == 1 or not start or start >= ceiling
    capped_from = 0 if steady else math.log(ceiling / start, factor) + 1
    last = min(start, ceiling) if steady else ceiling

    def wait(attempt: int, _: timedelta) -> timedelta | None:
        if attempt >= attempts:
            return None
        # From there on the result is the cap, and the power would overflow.
        return last if attempt > capped_from else min(ceiling, start * factor ** (attempt - 1))

    return _policy("exponential", wait, jitter, budget, retry_on, give_up_on)


@_explained
def intervals(
    *waits: Duration | float,
    jitter: float = 0.0,
    budget: Duration | None = None,
    retry_on: OneOrMore = (),
    give_up_on: OneOrMore = (),
) -> RetryPolicy:
    """Wait exactly these times, one after another; plain numbers are seconds. One more attempt than waits."""
    delays = tuple(
        timedelta(seconds=each) if isinstance(each, int | float) else duration(each, of="interval") for each in waits
    )
    if any(each < timedelta() for each in delays):
        raise ValueError("intervals() got a negative wait")

    def wait(attempt: int, _: timedelta) -> timedelta | None:
        return delays[attempt - 1] if attempt <= len(delays) else None

    return _policy("intervals", wait, jitter, budget, retry_on, give_up_on)


@_explained
def proportional(
    share: float = 0.1,
    *,
    cap: Duration = "60m",
    attempts: int = 15,
    jitter: float = 0.0,
    budget: Duration | None = None,
    retry_on: OneOrMore = (),
    give_up_on: OneOrMore = (),
) -> RetryPolicy:
    """Wait ``share`` of the original delay times the attempt, at least a second, at most ``cap``."""
    ceiling = duration(cap, of="cap")
    if share <= 0:
        raise ValueError(f"share={share!r} must be above 0")
    _check_attempts(attempts)

    def wait(attempt: int, original_delay: timedelta) -> timedelta | None:
        return None if attempt >= attempts else min(ceiling, max(_FLOOR, original_delay * share * attempt))

    return _policy("proportional", wait, jitter, budget, retry_on, give_up_on)


def _policy(
    name: str,
    wait: Callable[[int, timedelta], timedelta | None],
    jitter: float,
    budget: Duration | None,
    retry_on: OneOrMore,
    give_up_on: OneOrMore,
) -> RetryPolicy:
    if not 0 <= jitter <= 1:
        raise ValueError(f"jitter={jitter!r} is a share between 0 and 1")
    limit = None if budget is None else duration(budget, of="budget")
    return RetryPolicy(name, wait, jitter, limit, _kinds(retry_on, "retry_on"), _kinds(give_up_on, "give_up_on"))


def _kinds(kinds: OneOrMore, option: str) -> Exceptions:
    several = kinds if isinstance(kinds, tuple) else (kinds,)
    for kind in several:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"{option} takes exception types, not {kind!r}")
    return several


def _check_attempts(attempts: int) -> None:
    if attempts < 1:
        raise ValueError(f"attempts={attempts!r}: the first attempt counts, so at least 1")


NO_RETRY = RetryPolicy("none", lambda _attempt, _delay: None)
MESSAGES = exponential("1s", cap="10m", attempts=15)
OUTBOX = exponential("1s", cap="60s", attempts=5, jitter=0.0)
DEFERRED = proportional(0.1, cap="60m")
RECURRING = replace(intervals(5, 10, 20, 30, 60, budget="2m"), name="recurring", until_next=True)

PRESETS = {"messages": MESSAGES, "outbox": OUTBOX, "recurring": RECURRING, "deferred": DEFERRED, "none": NO_RETRY}
"""Policies by name, for ``retry="outbox"``."""
