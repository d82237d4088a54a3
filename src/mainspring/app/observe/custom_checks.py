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

import msgspec

from mainspring.app.blocking import in_loop
from mainspring.app.names import check_group
from mainspring.app.options import closest, length
from mainspring.model.errors import BadOption, BadSignature, Conflict
from mainspring.model.health import ORDER, BuiltIn, Check, HealthLimits, Status
from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import described, repr_of, text_of
from mainspring.timing.duration import Duration, spell

READY = "ready"
"""The tag of the built-in checks, and of those that decide whether this process receives traffic."""
LIVE = "live"
"""The tag of checks that decide whether this process is to be restarted; no built-in one has it."""
Result = bool | Status | Check | None
"""None and True are healthy, False is unhealthy."""
CheckFunction = Callable[[], Result | Awaitable[Result]]
BUILT_IN: frozenset[str] = frozenset(get_args(BuiltIn))
"""The names of the built-in checks, and of the readings that they are made from."""
_LONGEST_VALUE = 100
FRESH = 5.0
"""Seconds for which metrics reuse a result."""
PATIENCE = 2.0
"""Seconds that metrics wait for a check: a scrape has about ten for everything."""
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
    last: Check | None = None
    """The result of the latest call."""
    last_at: float = float("-inf")
    refreshing: asyncio.Task[Check] | None = None
    """The call for those that do not wait for its end."""


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
        """Return the checks with one of these tags; None: all. Raises BadOption for a tag that no check has."""
        known = {READY, LIVE, *(tag for each in self._checks.values() for tag in each.tags)}
        for tag in () if tags is None else tags:
            if tag not in known:
                tagged = ", ".join(map(repr, sorted(known)))
                raise BadOption(
                    f"tags has {tag!r}, and no health check here does.{closest(tag, known)} Known: {tagged}"
                )
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
        return [_result(each, await _awaited(_called(each.function))) for each in checks]
    running = [asyncio.ensure_future(_timed(each)) for each in checks]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for each in running:
            each.cancel()


async def recent(checks: Sequence[CustomCheck]) -> list[Check]:
    """Return results of the last seconds; run what has none, but wait for a moment only.

    A check that takes longer is reported with the result before, if there is one: its call continues for the next time.
    """
    if not in_loop():
        return await run(checks)
    since = time.monotonic() - FRESH
    calls = [_refreshed(each) for each in checks if each.last_at < since]
    if calls:
        await asyncio.wait(calls, timeout=PATIENCE)
    return [each.last for each in checks if each.last is not None]


def _refreshed(check: CustomCheck) -> asyncio.Task[Check]:
    """Return the call of this loop that runs already, or a new one."""
    task = check.refreshing
    if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
        task = check.refreshing = asyncio.ensure_future(_timed(check))
    return task


async def _timed(check: CustomCheck) -> Check:
    check.last = found = await _called_in_time(check)
    check.last_at = time.monotonic()
    return found


async def _called_in_time(check: CustomCheck) -> Check:
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
        if not (ended := call.outcome.done()):
            call.outcome.cancel()  # a thread cannot be asked to end
            check.running.append(call.is_running)
    seconds = time.monotonic() - begun
    found = _result(check, call.outcome.result()) if ended else _made(check, "unhealthy", limit)
    return replace(found, seconds=seconds)


class _Call:
    """One call: of a plain function in a thread of its own, which may never end; what is awaited, on this loop."""

    def __init__(self, function: CheckFunction) -> None:
        self._thread: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Task[_Outcome] = asyncio.ensure_future(self._run(function))

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        if self._thread is not None and self._thread.is_alive():
            return True
        return not self.outcome.done() and not self._loop.is_closed()

    async def _run(self, function: CheckFunction) -> _Outcome:
        if _is_async(function):
            return await _awaited(_called(function))
        returned: asyncio.Future[_Outcome] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._work, args=[function, returned], name="mainspring-health", daemon=True
        )
        self._thread.start()
        return await _awaited(await returned)

    def _work(self, function: CheckFunction, returned: asyncio.Future[_Outcome]) -> None:
        outcome = _called(function)
        try:
            self._loop.call_soon_threadsafe(_resolve, returned, outcome)
        except RuntimeError:  # the loop is closed: nothing waits for the result any more
            _close(outcome.result)


def _is_async(function: Callable[[], object]) -> bool:
    # Of an object, its class is asked.
    return any(map(inspect.iscoroutinefunction, (function, vars(type(function)).get("__call__"))))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a function returned, or raised."""

    result: object = None
    error: BaseException | None = None


def _resolve(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if future.done():
        _close(outcome.result)
    else:
        future.set_result(outcome)


def _close(result: object) -> None:
    """Let go of a coroutine that nothing awaits, without Python's warning."""
    if inspect.iscoroutine(result):
        result.close()


def _called(function: CheckFunction) -> _Outcome:
    try:
        return _Outcome(function())
    except BaseException as error:
        if is_interrupt(error):
            raise
        return _Outcome(error=error)


async def _awaited(called: _Outcome) -> _Outcome:
    """Return the outcome of a call; if it returned an awaitable, as a decorator may, of that."""
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
        return _made(check, "unhealthy", described(outcome.error))
    match outcome.result:
        case None | True:
            return _made(check, "healthy", "ok")
        case False:
            return _made(check, "unhealthy", "it returned False")
        case Check() as found:
            return _own(check, found)
        case str() as status if status in ORDER:
            return _made(check, status, "" if status == "healthy" else f"it returned {status!r}")
        case other:
            _close(other)
            allowed = "None, True, False, 'healthy', 'degraded', 'unhealthy' or a Check"
            return _made(check, "unhealthy", f"it returned {repr_of(other, _LONGEST_VALUE)}: return {allowed}")


def _own(check: CustomCheck, found: Check) -> Check:
    """Return the result that a function made itself, if it is one that can be shown."""
    status, data = found.status, found.data
    summary: object = found.summary
    if not isinstance(status, str) or status not in ORDER:
        return _wrong(check, f"status={repr_of(status, _LONGEST_VALUE)}: write 'healthy', 'degraded' or 'unhealthy'")
    if not isinstance(summary, str):
        return _wrong(check, f"summary={repr_of(summary, _LONGEST_VALUE)}: write text")
    try:
        values = msgspec.json.decode(msgspec.json.encode(data))
    except Exception as error:  # noqa: BLE001 - a value's own methods may raise anything
        return _wrong(check, f"data that is not JSON ({described(error)}): write text, numbers, lists and dicts")
    if not isinstance(values, dict):
        return _wrong(check, f"data={repr_of(data, _LONGEST_VALUE)}: write a dict")
    return Check(check.name, status, text_of(summary), values, tags=check.tags)


def _wrong(check: CustomCheck, what: str) -> Check:
    return _made(check, "unhealthy", f"it returned a Check with {what}")


def _made(check: CustomCheck, status: Status, summary: str) -> Check:
    return Check(check.name, status, summary, tags=check.tags)
