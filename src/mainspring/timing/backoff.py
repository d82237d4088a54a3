"""Retry policies: pure functions from failures to the time of the next attempt, and how they are written as data."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ParamSpec

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
    arguments: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """What ``wait`` was made of, as data; None for a function of the user's own."""

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

    made_of = {"kind": "exponential", "first": start.total_seconds(), "factor": factor, "cap": ceiling.total_seconds()}
    return _policy("exponential", {**made_of, "attempts": attempts}, wait, jitter, budget, retry_on, give_up_on)


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

    made_of = {"kind": "intervals", "waits": [each.total_seconds() for each in delays]}
    return _policy("intervals", made_of, wait, jitter, budget, retry_on, give_up_on)


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

    made_of = {"kind": "proportional", "share": share, "cap": ceiling.total_seconds(), "attempts": attempts}
    return _policy("proportional", made_of, wait, jitter, budget, retry_on, give_up_on)


def _policy(
    name: str,
    arguments: Mapping[str, Any],
    wait: Callable[[int, timedelta], timedelta | None],
    jitter: float,
    budget: Duration | None,
    retry_on: OneOrMore,
    give_up_on: OneOrMore,
) -> RetryPolicy:
    if not 0 <= jitter <= 1:
        raise ValueError(f"jitter={jitter!r} is a share between 0 and 1")
    limit = None if budget is None else duration(budget, of="budget")
    kinds = _kinds(retry_on, "retry_on"), _kinds(give_up_on, "give_up_on")
    return RetryPolicy(name, wait, jitter, limit, *kinds, arguments=arguments)


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
# Without a budget: the five waits bound it, and the time that a run takes must not use them up.
RECURRING = replace(intervals(5, 10, 20, 30, 60), name="recurring", until_next=True)

PRESETS = {"messages": MESSAGES, "outbox": OUTBOX, "recurring": RECURRING, "deferred": DEFERRED, "none": NO_RETRY}
"""Policies by name, for ``retry="outbox"``."""

Spec = str | Mapping[str, Any]
"""A policy as data: a preset's name, waits as in "5s, 1m", or ``{"kind": "exponential", "attempts": 5}``."""

_KINDS: dict[str, Callable[..., RetryPolicy]] = {
    "exponential": exponential,
    "intervals": intervals,
    "proportional": proportional,
}
_LENGTHS = ("first", "cap", "budget")


def write_policy(policy: RetryPolicy) -> Spec:
    """Return the policy as JSON values. Raises ValueError for one that only code can make."""
    named = next((name for name, preset in PRESETS.items() if preset is policy), None)
    if named is not None:
        return named
    if policy.retry_on or policy.give_up_on:
        raise ValueError("retry_on= and give_up_on= name exception types, which only the code of a consumer has")
    if policy.arguments is None:
        raise ValueError(f"the policy {policy.name!r} waits as a function decides, which cannot be stored")
    spec: dict[str, Any] = {**policy.arguments, "jitter": policy.jitter}
    if policy.budget is not None:
        spec["budget"] = policy.budget.total_seconds()
    if policy.until_next:
        spec["until_next"] = True
    return spec


def read_policy(spec: object) -> RetryPolicy:
    """Return the policy that was written so. Numbers are seconds. Raises ValueError with what is accepted."""
    if isinstance(spec, str):
        return PRESETS[spec] if spec in PRESETS else _listed(spec)
    if not isinstance(spec, Mapping):
        raise ValueError(f"{spec!r} is no retry policy: {_ACCEPTED}")  # noqa: TRY004 - as for every other spec
    arguments = dict(spec)
    kind, until_next = arguments.pop("kind", None), arguments.pop("until_next", False)
    if kind not in _KINDS or {"retry_on", "give_up_on"} & arguments.keys():
        raise ValueError(f"{dict(spec)!r} is no retry policy that can be stored: {_ACCEPTED}")
    try:
        waits = [_length(each) for each in arguments.pop("waits", ())]
        for name in _LENGTHS:
            if arguments.get(name) is not None:
                arguments[name] = _length(arguments[name])
        made = _KINDS[kind](*waits, **arguments)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{dict(spec)!r} is no retry policy: {error}") from None
    return replace(made, until_next=True) if until_next is True else made


_ACCEPTED = (
    f"write one of {', '.join(map(repr, PRESETS))}, waits as in '5s, 1m, 10m', or a table as in "
    "{kind = 'exponential', first = '1s', attempts = 5}"
)


def _listed(text: str) -> RetryPolicy:
    try:
        return intervals(*(duration(each.strip(), of="retry") for each in text.split(",")))
    except ValueError:
        raise ValueError(f"{text!r} is no retry policy: {_ACCEPTED}") from None


def _length(value: object) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return duration(value, of="retry")  # type: ignore[arg-type]  # it rejects what is none
