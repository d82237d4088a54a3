"""Checks of the application's own: registered functions, run beside the built-in checks and each within its timeout."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast, get_args

from mainspring.app.blocking import in_loop
from mainspring.app.names import check_group
from mainspring.app.options import length
from mainspring.model.errors import BadOption, BadSignature, Conflict
from mainspring.model.health import Check, HealthLimits, Status
from mainspring.model.interrupts import is_interrupt
from mainspring.model.redaction import redacted
from mainspring.model.text import described, repr_of
from mainspring.timing.duration import Duration, spell

Result = bool | Status | Check | None
"""None and True are healthy, False is unhealthy."""
CheckFunction = Callable[[], Result | Awaitable[Result]]
BUILT_IN = frozenset(
    {
        "storage", "rights", "schema", "deliveries", "backlog", "overdue", "lapsed", "dead", "workers", "groups",
        "claiming", "inbox", "schedules", "clock", "worker", "breaker", "overrunning", "subscriptions", "leases",
    }
)  # fmt: skip
"""The names of the built-in checks, and of the readings that they are made from."""
_LONGEST_VALUE = 100
LONGEST = timedelta(seconds=8)
"""The longest timeout: the result of all is due within ten seconds."""


@dataclass(slots=True)
class CustomCheck:
    """A registered function."""

    name: str
    function: CheckFunction
    timeout: timedelta
    tags: tuple[str, ...]
    running: list[Callable[[], bool]] = field(default_factory=list)
    """For each call that did not end within its timeout: whether it still runs."""


class CustomChecks:
    """The registered checks of one app, and the limits of the built-in ones, for all of its faces."""

    def __init__(self) -> None:
        self.limits: HealthLimits = HealthLimits()
        self._checks: dict[str, CustomCheck] = {}

    def add(self, name: str, function: object, timeout: Duration, tags: Iterable[str]) -> None:
        """Register a function. Raises BadOption, BadSignature or Conflict."""
        named, limit, tagged = checked(name, timeout, tags)
        if named in self._checks:
            raise Conflict(f"there are two health checks named {named!r}: give one of them another name")
        self._checks[named] = CustomCheck(named, _function(named, function), limit, tagged)

    def chosen(self, tags: Collection[str] | None) -> list[CustomCheck]:
        """Return the checks with one of these tags; None: all."""
        return [each for each in self._checks.values() if tags is None or not set(tags).isdisjoint(each.tags)]


def checked(name: object, timeout: Duration, tags: Iterable[str]) -> tuple[str, timedelta, tuple[str, ...]]:
    """Return the arguments of a registration, as read."""
    try:
        named = check_group(name)
    except BadOption as error:
        raise BadOption(str(error).replace("group", "health check", 1)) from None
    if " " in named:
        raise BadOption(f"health check {named!r} has a space in its name: write a word, as in 'stripe-api'")
    if named in BUILT_IN:
        raise Conflict(f"{named!r} is the name of a built-in health check: choose another")
    limit = length(timeout, "timeout", least=timedelta(milliseconds=1), most=LONGEST)
    return named, limit, read_tags(tags)


def read_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as read; raises BadOption."""
    if isinstance(tags, str):
        raise BadOption(f"tags={tags!r} is one word: write a list, as in [{tags!r}]")
    found = tuple(dict.fromkeys(tags))
    for each in found:
        if not isinstance(each, str) or not each or each != each.strip():
            raise BadOption(f"tags={list(found)!r} must be words, as in ['ready']")
    return found


def _function(name: str, function: object) -> CheckFunction:
    if not callable(function):
        raise BadSignature(f"health check {name!r} must be a function without parameters, not {repr_of(function)}")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise BadSignature(f"health check {name!r} is called without arguments: {error}") from None
    except ValueError:  # written in C, without a signature
        pass
    return cast("CheckFunction", function)


async def run(checks: Sequence[CustomCheck]) -> list[Check]:
    """Run them concurrently. Never raises for what is broken: the result names it."""
    if not in_loop():  # as in a blocking test: nothing may wait
        return [_result(each, await _awaited(each.function)) for each in checks]
    running = [asyncio.ensure_future(_timed(each)) for each in checks]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for each in running:
            each.cancel()


async def _timed(check: CustomCheck) -> Check:
    check.running[:] = [each for each in check.running if each()]
    limit = f"no result within {spell(check.timeout)}"
    if check.running:
        # One more call of a function that hangs would leave one more thread behind, with every probe.
        return _made(check, "unhealthy", f"{limit}, and an earlier call still runs")
    begun = time.monotonic()
    call = _Call(check.function)
    try:
        await asyncio.wait([call.outcome], timeout=check.timeout.total_seconds())
    finally:
        if not call.outcome.done():
            call.abandon()
            check.running.append(call.is_running)
    seconds = time.monotonic() - begun
    found = _made(check, "unhealthy", limit) if call.is_running() else _result(check, call.outcome.result())
    return replace(found, seconds=seconds)


class _Call:
    """One call: of a coroutine function on this loop, of a plain one in a thread of its own, which may never end."""

    def __init__(self, function: CheckFunction) -> None:
        self._thread: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[_Outcome]
        if _is_async(function):
            self.outcome = asyncio.ensure_future(_awaited(function))
        else:
            self.outcome = self._loop.create_future()
            self._thread = threading.Thread(target=self._work, args=[function], name="mainspring-health", daemon=True)
            self._thread.start()

    def abandon(self) -> None:
        """Ask it to end. A thread cannot be asked."""
        if self._thread is None:
            self.outcome.cancel()

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        if self.outcome.done():
            return False
        return not self._loop.is_closed() if self._thread is None else self._thread.is_alive()

    def _work(self, function: CheckFunction) -> None:
        outcome = _called(function)
        try:
            self._loop.call_soon_threadsafe(_resolve, self.outcome, outcome)
        except RuntimeError:
            return  # the loop is closed: nothing waits for the result any more


def _is_async(function: Callable[[], object]) -> bool:
    # Of an object, its class is asked.
    return any(map(inspect.iscoroutinefunction, (function, vars(type(function)).get("__call__"))))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a function returned, or raised."""

    result: object = None
    error: BaseException | None = None


def _resolve(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _called(function: CheckFunction) -> _Outcome:
    try:
        return _Outcome(function())
    except BaseException as error:
        if is_interrupt(error):
            raise
        return _Outcome(error=error)


async def _awaited(function: CheckFunction) -> _Outcome:
    called = _called(function)
    if not inspect.isawaitable(called.result):
        return called
    try:
        return _Outcome(await called.result)
    except BaseException as error:
        task = asyncio.current_task() if in_loop() else None
        if is_interrupt(error) or (
            isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        ):
            raise
        return _Outcome(error=error)


def _result(check: CustomCheck, outcome: _Outcome) -> Check:
    if outcome.error is not None:
        return _made(check, "unhealthy", redacted(described(outcome.error)))
    match outcome.result:
        case None | True:
            return _made(check, "healthy", "ok")
        case False:
            return _made(check, "unhealthy", "it returned False")
        case Check() as found:
            return replace(found, name=check.name, tags=check.tags)
        case str() as status if status in get_args(Status):
            return _made(check, cast("Status", status), "" if status == "healthy" else f"it returned {status!r}")
        case other:
            if inspect.iscoroutine(other):
                other.close()
            allowed = "None, True, False, 'healthy', 'degraded', 'unhealthy' or a Check"
            return _made(check, "unhealthy", f"it returned {repr_of(other, _LONGEST_VALUE)}: return {allowed}")


def _made(check: CustomCheck, status: Status, summary: str) -> Check:
    return Check(check.name, status, summary, tags=check.tags)
