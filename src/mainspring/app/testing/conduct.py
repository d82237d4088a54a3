"""How a test lets time pass, awaited or not, and what it does about dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import TypeVar

from mainspring.app.background import at_once, in_loop
from mainspring.app.testing import telling
from mainspring.app.testing.calling import Blocking, Calls, InTask
from mainspring.app.testing.course import Enough
from mainspring.app.testing.expecting import Expectation
from mainspring.app.testing.stage import Stage
from mainspring.app.testing.values import Ran
from mainspring.model.errors import Misuse

T = TypeVar("T")
Predicate = Callable[[], object] | Callable[[], Awaitable[object]]
"""A function or a coroutine function, asked for the truth of its answer."""


class Conduct:
    """Lets time pass on a stage: in the test's task for who awaits, in its thread for who blocks."""

    def __init__(self, stage: Stage, patience: timedelta) -> None:
        self.stage: Stage = stage
        self._in_task = InTask(patience, here=stage.ground.here)
        self._in_thread = Blocking(patience)
        self._expected: list[Expectation] = []

    def close(self) -> None:
        """End the threads and the loop."""
        self._in_task.close()
        self._in_thread.close()

    async def run(self, span: timedelta) -> list[Ran]:
        """Let time pass."""
        __tracebackhide__ = True
        return await self._run(span, self._in_task)

    async def wait_until(self, predicate: Predicate, within: timedelta) -> list[Ran]:
        """Let time pass until the predicate holds."""
        __tracebackhide__ = True
        return await self._wait_until(predicate, within, self._in_task)

    def run_blocking(self, span: timedelta, call: str) -> list[Ran]:
        """Let time pass, without a loop."""
        __tracebackhide__ = True
        return self._blocked(lambda: self._run(span, self._in_thread), call)

    def wait_until_blocking(self, predicate: Predicate, within: timedelta) -> list[Ran]:
        """Let time pass until the predicate holds, without a loop."""
        __tracebackhide__ = True
        return self._blocked(lambda: self._wait_until(predicate, within, self._in_thread), "wait_until(…)")

    def expecting(self, expectation: Expectation) -> AbstractContextManager[list[Ran]]:
        """Take these dead letters as expected; raises Unmet when none came."""
        return _Expecting(expectation, self._expected, self.stage)

    async def _run(self, span: timedelta, calls: Calls, enough: Enough | None = None) -> list[Ran]:
        __tracebackhide__ = True
        try:
            return await self.stage.course.run(self.stage.clock.now() + span, calls, self._died, enough)
        finally:
            if not self.stage.ground.blocking:
                await self.stage.look()

    async def _wait_until(self, predicate: Predicate, within: timedelta, calls: Calls) -> list[Ran]:
        __tracebackhide__ = True
        first, held = len(self.stage.book.runs), False

        async def holds() -> bool:
            nonlocal held
            held = bool(await calls.ask(predicate))
            return held

        runs = await self._run(within, calls, holds)
        if not held and not await holds():
            book = self.stage.glance()
            raise telling.never(predicate, within, self.stage.clock.now(), book, book.runs[first:])
        return runs

    def _died(self, ran: Ran) -> None:
        __tracebackhide__ = True
        if not any(expectation.takes(ran) for expectation in reversed(self._expected)):
            raise telling.dead_letter(ran)

    def _blocked(self, work: Callable[[], Awaitable[T]], call: str) -> T:
        __tracebackhide__ = True
        if in_loop():
            raise Misuse(f"kit.sync.{call} would block the event loop it is called on: write `await kit.{call}`")
        if not self.stage.ground.blocking:
            raise Misuse(
                f"kit.sync.{call} cannot wait for the transaction of this test, which is asyncio's: write `await "
                f"kit.{call}`, or give app.testing(tx=…) a blocking session"
            )
        return at_once(work)


class _Expecting(AbstractContextManager[list[Ran]]):
    """The block in which dead letters are expected.

    A class, since the frames of a generator and of contextlib would stand in the traceback of a test.
    """

    def __init__(self, expectation: Expectation, expected: list[Expectation], stage: Stage) -> None:
        self._expectation = expectation
        self._expected = expected
        self._stage = stage
        self._first = 0

    def __enter__(self) -> list[Ran]:
        self._first = len(self._stage.book.runs)
        self._expected.append(self._expectation)
        return self._expectation.seen

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._expected.remove(self._expectation)
        if kind is None and not self._expectation.seen:
            raise telling.nothing_died(str(self._expectation), self._stage.glance(), self._first)
