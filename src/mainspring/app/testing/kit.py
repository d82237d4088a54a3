"""``app.testing()``: publish, let time pass, and look at what happened, in milliseconds and without a sleep."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, Self

from mainspring.app.background import at_once
from mainspring.app.consumed import registration_of
from mainspring.app.envelope import instant
from mainspring.app.options import closest, length, whole
from mainspring.app.testing.conduct import Conduct, Predicate
from mainspring.app.testing.expecting import Error, Expectation
from mainspring.app.testing.matching import of_topic, with_fields
from mainspring.app.testing.stage import House, Stage, in_memory, in_transaction
from mainspring.app.testing.sync import SyncTesting
from mainspring.app.testing.values import DeadLetter, Pending, Ran, Sent
from mainspring.model.errors import BadOption, Misuse
from mainspring.timing.clock import HandClock
from mainspring.timing.duration import Duration

_MOST = 1_000_000_000


class Testing:
    """A kit for one test: the app on storage of its own, with a clock that moves only when told to.

    ``with app.testing() as kit:`` works in blocking tests and in coroutines, and so does ``async with``. Inside, every
    call of the app goes to memory, or with ``tx`` to the test's own transaction; handlers run only when the kit says
    so. A message that is given up fails the test, with the handler's own traceback, unless it was expected.
    """

    __test__: ClassVar[bool] = False  # pytest would take it for a class of tests

    def __init__(
        self,
        house: House,
        *,
        tx: object = None,
        start: datetime | None = None,
        patience: Duration = "5s",
        limit: int = 10_000,
        committed: bool = False,
    ) -> None:
        self._house = house
        self._tx = tx
        self._committed = committed
        self._start = None if start is None else instant(start, "start")
        self._patience = length(patience, "patience", least=timedelta(milliseconds=1))
        self._limit = whole(limit, "limit", least=1, most=_MOST)
        self._entered: Conduct | None = None
        self._closing = contextlib.ExitStack()
        self.sync: SyncTesting = SyncTesting(lambda: self._conduct)
        """``drain``, ``advance`` and ``wait_until`` for tests that block."""

    def __repr__(self) -> str:
        """For people: what time it is, and what has happened."""
        if self._entered is None:
            return "<Testing, not entered>"
        book = self._stage.glance()
        counts = f"{len(book.sent)} published, {len(book.runs)} run, {len(book.pending)} pending, {len(book.dead)} dead"
        return f"<Testing at {self.now:%Y-%m-%d %H:%M:%S}: {counts}>"

    def __enter__(self) -> Self:
        """Take the app's place in the world."""
        stage = self._open()
        if stage.ground.blocking:
            with self._shut_on_error():
                at_once(stage.ready)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the app back as it was. Nothing is committed, and nothing rolled back."""
        self._closing.close()

    async def __aenter__(self) -> Self:
        """See ``__enter__``."""
        stage = self._open()
        with self._shut_on_error():
            await stage.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``__exit__``."""
        self._closing.close()

    # --- time ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """What time it is in this test."""
        return self._stage.clock.now()

    async def drain(self) -> list[Ran]:
        """Run everything that is due, and what becomes due by that, until nothing is; returns the runs."""
        __tracebackhide__ = True
        return await self._conduct.run(timedelta())

    async def advance(self, span: Duration) -> list[Ran]:
        """Let time pass: whatever comes due meanwhile runs at its own instant, in order; returns the runs.

        Delayed messages, retries and the occurrences of schedules, as a worker would run them.
        """
        __tracebackhide__ = True
        return await self._conduct.run(length(span, "advance"))

    async def wait_until(self, predicate: Predicate, *, within: Duration = "1d") -> list[Ran]:
        """Run and advance until the predicate holds, which is asked after every run; returns the runs.

        Fails with what ran and what is pending when it does not hold ``within`` that time of the kit's clock.
        """
        __tracebackhide__ = True
        return await self._conduct.wait_until(predicate, length(within, "within"))

    def elapse(self, span: Duration) -> None:
        """Let time pass without running anything.

        In a handler, or in the fake of what it calls, this is how long it took: past the time limit an async handler
        is cancelled here, and a plain function finds ``ctx.cancelled`` set.
        """
        self._stage.attempts.elapse(length(span, "elapse"))

    # --- what happened -------------------------------------------------------------------------------------

    def published(self, which: str | type | Any = None, /, **fields: Any) -> list[Sent]:
        """What was published: on a topic, a pattern or a type's topic, with these values in the payload.

        Occurrences of schedules are messages too: ``sent.schedule`` is the name of theirs.
        """
        kind = None if isinstance(which, str) else which
        return with_fields(of_topic(self._stage.sent(), which, self._house.catalogue), fields, kind)

    def delivered(self, consumer: str | Callable[..., Any] | type | None = None, /, **fields: Any) -> list[Ran]:
        """What was handled successfully: by a consumer or a group, with these values in the payload.

        Runs of a recurring handler are among them, with ``ran.schedule``.
        """
        __tracebackhide__ = True
        group = self._group(consumer)
        done = [ran for ran in self._stage.book.runs if ran.outcome == "done" and group in (None, ran.group)]
        return with_fields(done, fields)

    @property
    def runs(self) -> list[Ran]:
        """Every attempt, in the order they were made, whatever became of it."""
        return list(self._stage.book.runs)

    @property
    def pending(self) -> list[Pending]:
        """What waits for its time, in the order it will run."""
        return list(self._stage.glance().pending)

    @property
    def dead(self) -> list[DeadLetter]:
        """The dead letters there are now, oldest first."""
        return list(self._stage.glance().dead)

    def expect_dead(
        self, consumer: str | Callable[..., Any] | type | None = None, *, error: Error | None = None
    ) -> contextlib.AbstractContextManager[list[Ran]]:
        """Expect dead letters within the block: of a consumer or group, by a type of exception or a text in its error.

        Gives the list that they are put into. Others fail the test as ever, and so does a block in which none died.
        """
        __tracebackhide__ = True
        return self._conduct.expecting(Expectation(self._group(consumer), error))

    # --- behind --------------------------------------------------------------------------------------------

    @property
    def _conduct(self) -> Conduct:
        if self._entered is None:
            raise Misuse("the kit is used outside its block: write `with app.testing() as kit:` around the test")
        return self._entered

    @property
    def _stage(self) -> Stage:
        return self._conduct.stage

    def _open(self) -> Stage:
        if self._entered is not None:
            raise Misuse("this kit was entered already: call app.testing() for another")
        clock = HandClock(self._start or datetime.now(UTC))
        stage = (
            in_memory(self._house, clock, self._limit)
            if self._tx is None
            else in_transaction(self._house, clock, self._limit, self._tx, committed=self._committed)
        )
        self._entered = conduct = Conduct(stage, self._patience)
        self._closing.callback(setattr, self, "_entered", None)
        self._closing.callback(conduct.close)
        self._closing.callback(stage.leave)
        stage.enter()
        return stage

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
        groups = [each.group for each in self._house.consumers]
        if isinstance(consumer, str):
            if consumer not in groups:
                names = ", ".join(groups) or "none"
                raise BadOption(f"no consumer has group {consumer!r}.{closest(consumer, groups)} There are: {names}")
            return consumer
        found = registration_of(consumer)
        own = next((each for each in self._house.consumers if each is found or each.function is consumer), None)
        if own is None:
            raise BadOption(
                f"{consumer!r} is no consumer of this app: pass the function under @app.consumer, or a group"
            )
        return own.group
