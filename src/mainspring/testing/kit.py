"""``app.testing()``: publish, let time pass, and inspect what happened, in milliseconds and without a sleep."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from mainspring.app.blocking import at_once, in_loop
from mainspring.app.consume.consumer import registration_of
from mainspring.app.message.envelope import instant
from mainspring.app.options import closest, length, whole
from mainspring.model.errors import BadOption, Misuse
from mainspring.testing import asserts
from mainspring.testing.asserts import Error, Expectation, of_topic, with_fields
from mainspring.testing.calls import loopless
from mainspring.testing.environment import Environment, Limits, in_memory, in_transaction
from mainspring.testing.records import DeadLetter, Pending, Ran, Sent
from mainspring.testing.services import AppParts, Enough
from mainspring.timing.clock import HandClock
from mainspring.timing.duration import Duration

T = TypeVar("T")
Predicate = Callable[[], object] | Callable[[], Awaitable[object]]
"""A function or a coroutine function; its result is taken as a boolean."""
_MOST = 1_000_000_000


class Testing:
    """A kit for one test: the app on storage of its own, with a clock that moves only when the test advances it.

    ``with app.testing() as kit:`` works in blocking tests and in coroutines, and so does ``async with``. Inside, every
    call of the app goes to memory, or with ``tx`` to the test's own transaction; handlers run only in ``drain``,
    ``advance`` and ``wait_until``. A message that is given up fails the test, with the handler's own traceback, unless
    it was expected.
    """

    __test__: ClassVar[bool] = False  # pytest would take it for a class of tests

    def __init__(
        self,
        app: AppParts,
        *,
        tx: object = None,
        start: datetime | None = None,
        patience: Duration = "5s",
        limit: int = 10_000,
        committed: bool = False,
    ) -> None:
        self._app = app
        self._tx = tx
        self._committed = committed
        self._start = None if start is None else instant(start, "start")
        self._limits = Limits(
            length(patience, "patience", least=timedelta(milliseconds=1)), whole(limit, "limit", least=1, most=_MOST)
        )
        self._entered: Driver | None = None
        self._closing = contextlib.ExitStack()
        self.sync: SyncTesting = SyncTesting(lambda: self._driver)
        """``drain``, ``advance`` and ``wait_until`` for tests that block."""

    def __repr__(self) -> str:
        """Show the time, and counts of what has happened."""
        if self._entered is None:
            return "<Testing, not entered>"
        seen = self._environment.current()
        counts = f"{len(seen.sent)} published, {len(seen.runs)} run, {len(seen.pending)} pending, {len(seen.dead)} dead"
        return f"<Testing at {self.now:%Y-%m-%d %H:%M:%S}: {counts}>"

    def __enter__(self) -> Self:
        """Replace the app's database and clock."""
        environment = self._open()
        if environment.database.blocking:
            with self._shut_on_error():
                at_once(environment.ready)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the app. Nothing is committed, and nothing rolled back."""
        self._closing.close()

    async def __aenter__(self) -> Self:
        """See ``__enter__``."""
        environment = self._open()
        with self._shut_on_error():
            await environment.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``__exit__``."""
        self._closing.close()

    # --- time ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The time in this test."""
        return self._environment.clock.now()

    async def drain(self) -> list[Ran]:
        """Run everything that is due, and what becomes due by that, until nothing is; returns the runs."""
        __tracebackhide__ = True
        return await self._driver.run(timedelta())

    async def advance(self, span: Duration) -> list[Ran]:
        """Let time pass: what comes due runs at its own instant, in order; returns the runs.

        Delayed messages, retries and the occurrences of schedules, as a worker would run them.
        """
        __tracebackhide__ = True
        return await self._driver.run(length(span, "advance"))

    async def wait_until(self, predicate: Predicate, *, within: Duration = "1d") -> list[Ran]:
        """Run and advance until the predicate holds, which is evaluated after every run; returns the runs.

        Fails with what ran and what is pending when it does not hold ``within`` that time of the kit's clock.
        """
        __tracebackhide__ = True
        return await self._driver.wait_until(predicate, length(within, "within"))

    def elapse(self, span: Duration) -> None:
        """Let time pass without running anything.

        In a handler, or in the fake of what it calls, this is how long it took: past the time limit an async handler
        is cancelled here, and a plain function finds ``ctx.cancelled`` set.
        """
        self._environment.services.elapse(length(span, "elapse"))

    # --- what happened -------------------------------------------------------------------------------------

    def published(self, which: str | type | Any = None, /, **fields: Any) -> list[Sent]:
        """What was published: on a topic, a pattern or a type's topic, with these values in the payload.

        Occurrences of schedules are messages too: ``sent.schedule`` is the name of theirs.
        """
        kind = None if isinstance(which, str) else which
        return with_fields(of_topic(self._environment.sent(), which, self._app.catalogue), fields, kind)

    def delivered(self, consumer: str | Callable[..., Any] | type | None = None, /, **fields: Any) -> list[Ran]:
        """What was handled successfully: by a consumer or a group, with these values in the payload.

        Runs of a recurring handler are among them, with ``ran.schedule``.
        """
        __tracebackhide__ = True
        group = self._group(consumer)
        done = [ran for ran in self._environment.records.runs if ran.outcome == "done" and group in (None, ran.group)]
        return with_fields(done, fields)

    @property
    def runs(self) -> list[Ran]:
        """Every attempt, in the order they were made, with any outcome."""
        return list(self._environment.records.runs)

    @property
    def pending(self) -> list[Pending]:
        """What waits for its time, in the order it will run."""
        return list(self._environment.current().pending)

    @property
    def dead(self) -> list[DeadLetter]:
        """The dead letters there are now, oldest first."""
        return list(self._environment.current().dead)

    def expect_dead(
        self, consumer: str | Callable[..., Any] | type | None = None, *, error: Error | None = None
    ) -> contextlib.AbstractContextManager[list[Ran]]:
        """Expect dead letters within the block: of a consumer or group, by a type of exception or a text in its error.

        Gives the list that they are put into. Others fail the test as ever, and so does a block in which none died.
        """
        __tracebackhide__ = True
        return self._driver.expecting(Expectation(self._group(consumer), error))

    # --- internals ------------------------------------------------------------------------------------------

    @property
    def _driver(self) -> Driver:
        if self._entered is None:
            raise Misuse("the kit is used outside its block: write `with app.testing() as kit:` around the test")
        return self._entered

    @property
    def _environment(self) -> Environment:
        return self._driver.environment

    def _open(self) -> Environment:
        if self._entered is not None:
            raise Misuse("this kit was entered already: call app.testing() for another")
        clock = HandClock(self._start or datetime.now(UTC))
        environment = (
            in_memory(self._app, clock, self._limits)
            if self._tx is None
            else in_transaction(self._app, clock, self._limits, self._tx, committed=self._committed)
        )
        self._entered = driver = Driver(environment)
        self._closing.callback(setattr, self, "_entered", None)
        self._closing.callback(driver.close)
        self._closing.callback(environment.restore)
        environment.install()
        return environment

    @contextlib.contextmanager
    def _shut_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._closing.close()
            raise

    def _group(self, consumer: Any) -> str | None:
        __tracebackhide__ = True
        if consumer is None:
            return None
        groups = [each.group for each in self._app.consumers]
        if isinstance(consumer, str):
            if consumer not in groups:
                names = ", ".join(groups) or "none"
                raise BadOption(f"no consumer has group {consumer!r}.{closest(consumer, groups)} There are: {names}")
            return consumer
        found = registration_of(consumer)
        own = next((each for each in self._app.consumers if each is found or each.function is consumer), None)
        if own is None:
            raise BadOption(
                f"{consumer!r} is no consumer of this app: pass the function under @app.consumer, or a group"
            )
        return own.group


class Driver:
    """Lets time pass in an environment: in the test's task with await, in its thread on a loop of the kit's without."""

    def __init__(self, environment: Environment) -> None:
        self.environment: Environment = environment
        self._runner: asyncio.Runner | None = None
        self._expected: list[Expectation] = []

    def close(self) -> None:
        """End the loop."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def run(self, span: timedelta, enough: Enough | None = None, *, blocking: bool = False) -> list[Ran]:
        """Let time pass. Plain functions run in this thread where it is ``blocking``."""
        __tracebackhide__ = True
        environment = self.environment
        environment.calls.threads.here = blocking or environment.database.belongs_to_thread
        try:
            return await environment.services.run(environment.clock.now() + span, self._died, enough)
        finally:
            if not environment.database.blocking:
                await environment.refresh()

    async def wait_until(self, predicate: Predicate, within: timedelta, *, blocking: bool = False) -> list[Ran]:
        """Let time pass until the predicate holds."""
        __tracebackhide__ = True
        environment, held = self.environment, False
        first = len(environment.records.runs)

        async def holds() -> bool:
            nonlocal held
            with loopless() if blocking else contextlib.nullcontext():
                answer = predicate()
            held = bool(await answer if isinstance(answer, Awaitable) else answer)
            return held

        runs = await self.run(within, holds, blocking=blocking)
        if not held and not await holds():
            records = environment.current()
            raise asserts.never(predicate, within, environment.clock.now(), records, records.runs[first:])
        return runs

    def blocked(self, work: Callable[[], Coroutine[Any, Any, T]], call: str) -> T:
        """Run this on a loop of the kit's, for a caller that has none."""
        __tracebackhide__ = True
        if in_loop():
            raise Misuse(f"kit.sync.{call} would block the event loop it is called on: write `await kit.{call}`")
        if not self.environment.database.blocking:
            raise Misuse(
                f"kit.sync.{call} cannot wait for the transaction of this test, which is asyncio's: write `await "
                f"kit.{call}`, or give app.testing(tx=…) a blocking session"
            )
        if self._runner is None:
            self._runner = asyncio.Runner()
        outcome = self._runner.run(_outcome(work), context=copy_context())
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def expecting(self, expectation: Expectation) -> AbstractContextManager[list[Ran]]:
        """Take these dead letters as expected; raises Unmet when none came."""
        return _Expecting(expectation, self._expected, self.environment)

    def _died(self, ran: Ran) -> None:
        __tracebackhide__ = True
        if not any(expectation.takes(ran) for expectation in reversed(self._expected)):
            raise asserts.dead_letter(ran)


class _Raised(NamedTuple):
    """What was raised on the loop: raised again outside, so that no frame of asyncio is in the traceback."""

    error: Exception


async def _outcome(work: Callable[[], Coroutine[Any, Any, T]]) -> T | _Raised:
    __tracebackhide__ = True
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - raised by the caller
        return _Raised(error)


class _Expecting(AbstractContextManager[list[Ran]]):
    """The block in which dead letters are expected.

    A class, since the frames of a generator and of contextlib would be in the traceback of a test.
    """

    def __init__(self, expectation: Expectation, expected: list[Expectation], environment: Environment) -> None:
        self._expectation = expectation
        self._expected = expected
        self._environment = environment
        self._first = 0

    def __enter__(self) -> list[Ran]:
        self._first = len(self._environment.records.runs)
        self._expected.append(self._expectation)
        return self._expectation.seen

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._expected.remove(self._expectation)
        if kind is None and not self._expectation.seen:
            raise asserts.nothing_died(str(self._expectation), self._environment.current(), self._first)


class SyncTesting:
    """Time for tests that block: plain functions run in the test's own thread, coroutines on a loop of the kit's."""

    def __init__(self, driver: Callable[[], Driver]) -> None:
        self._driver = driver

    def drain(self) -> list[Ran]:
        """Run everything that is due. See ``Testing.drain``."""
        __tracebackhide__ = True
        driver = self._driver()
        return driver.blocked(lambda: driver.run(timedelta(), blocking=True), "drain()")

    def advance(self, span: Duration) -> list[Ran]:
        """Let time pass. See ``Testing.advance``."""
        __tracebackhide__ = True
        driver, by = self._driver(), length(span, "advance")
        return driver.blocked(lambda: driver.run(by, blocking=True), "advance(…)")

    def wait_until(self, predicate: Predicate, *, within: Duration = "1d") -> list[Ran]:
        """Run and advance until the predicate holds. See ``Testing.wait_until``."""
        __tracebackhide__ = True
        driver, limit = self._driver(), length(within, "within")
        return driver.blocked(lambda: driver.wait_until(predicate, limit, blocking=True), "wait_until(…)")
