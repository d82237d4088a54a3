"""``app.testing()``: publish, let time pass, and inspect what happened, in milliseconds and without a sleep."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from mainspring.app.blocking import at_once
from mainspring.app.broker.intake import Intake
from mainspring.app.consume.consumer import registration_of
from mainspring.app.message.envelope import instant
from mainspring.app.options import closest, length, whole
from mainspring.brokers.contract import Broker
from mainspring.model.errors import BadOption, Misuse
from mainspring.testing.asserts import Error, Expectation, of_topic, with_fields
from mainspring.testing.environment import Environment, Limits, Predicate, in_memory, in_transaction
from mainspring.testing.records import DeadLetter, Pending, Ran, Sent
from mainspring.testing.relays import Relayed, address_of, intake_of, received
from mainspring.testing.services import AppParts
from mainspring.timing.clock import HandClock
from mainspring.timing.duration import Duration

T = TypeVar("T")
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
        self._entered: Environment | None = None
        self._received = 0
        self._closing = contextlib.ExitStack()
        self.sync: SyncTesting = SyncTesting(lambda: self._environment)
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
        return await self._environment.run(timedelta())

    async def advance(self, span: Duration) -> list[Ran]:
        """Let time pass: what comes due runs at its own instant, in order; returns the runs.

        Delayed messages, retries and the occurrences of schedules, as a worker would run them.
        """
        __tracebackhide__ = True
        return await self._environment.run(length(span, "advance"))

    async def wait_until(self, predicate: Predicate, *, within: Duration = "1d") -> list[Ran]:
        """Run and advance until the predicate holds, which is evaluated after every run; returns the runs.

        Fails with what ran and what is pending when it does not hold ``within`` that time of the kit's clock.
        """
        __tracebackhide__ = True
        return await self._environment.wait_until(predicate, length(within, "within"))

    def elapse(self, span: Duration) -> None:
        """Let time pass without running anything.

        In a handler, or in the fake of what it calls, this is how long it took: past the time limit an async handler
        is cancelled here, and a plain function finds ``ctx.cancelled`` set.
        """
        self._environment.services.elapse(length(span, "elapse"))

    # --- brokers -------------------------------------------------------------------------------------------

    async def receive(
        self,
        source: Broker | str | Callable[..., Any],
        payload: object,
        *,
        id: str | None = None,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        content_type: str = "application/json",
        address: str | None = None,
    ) -> bool:
        """Hand in a message as if a broker had delivered it: to a source, or the source of a consumer.

        ``payload`` is JSON, or bytes as they are. ``id``, ``type`` and ``key`` are its CloudEvents attributes, and
        ``address`` is which queue, topic or stream of a source that reads several has brought it. Returns False for a
        repeat of one that was received. It is handled when time passes.
        """
        __tracebackhide__ = True
        intake = self._intake(source)
        self._received += 1
        where = address_of(intake, address, type)
        made = received(payload, id, type, headers, key, content_type, where, intake.reader.broker, self._received)
        return await self._environment.receive(intake, made)

    def sent(self, which: str | Any = None, /, **fields: Any) -> list[Relayed]:
        """What routes have sent to brokers: of a topic, pattern or type, with these values in the payload."""
        return with_fields(of_topic(self._environment.records.relayed, which, self._app.catalogue, "sent"), fields)

    def _intake(self, source: Any) -> Intake:
        group = self._group(source) if callable(source) else source if isinstance(source, str) else None
        return intake_of(self._app.consumers, source, group)

    # --- what happened -------------------------------------------------------------------------------------

    def published(self, which: str | type | Any = None, /, **fields: Any) -> list[Sent]:
        """What was published: on a topic, a pattern or a type's topic, with these values in the payload.

        Occurrences of schedules are messages too: ``sent.schedule`` is the name of theirs.
        """
        kind = None if isinstance(which, str) else which
        return with_fields(of_topic(self._environment.sent(), which, self._app.catalogue, "published"), fields, kind)

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
        return self._environment.expecting(Expectation(self._group(consumer), error))

    # --- internals ------------------------------------------------------------------------------------------

    @property
    def _environment(self) -> Environment:
        if self._entered is None:
            raise Misuse("the kit is used outside its block: write `with app.testing() as kit:` around the test")
        return self._entered

    def _open(self) -> Environment:
        if self._entered is not None:
            raise Misuse("this kit was entered already: call app.testing() for another")
        clock = HandClock(self._start or datetime.now(UTC))
        environment = (
            in_memory(self._app, clock, self._limits)
            if self._tx is None
            else in_transaction(self._app, clock, self._limits, self._tx, committed=self._committed)
        )
        self._entered = environment
        self._closing.callback(setattr, self, "_entered", None)
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


class SyncTesting:
    """Time for tests that block: plain functions run in the test's own thread, coroutines on a loop of the kit's."""

    def __init__(self, environment: Callable[[], Environment]) -> None:
        self._environment = environment

    def drain(self) -> list[Ran]:
        """Run everything that is due. See ``Testing.drain``."""
        __tracebackhide__ = True
        environment = self._environment()
        return environment.blocked(lambda: environment.run(timedelta(), blocking=True), "drain()")

    def advance(self, span: Duration) -> list[Ran]:
        """Let time pass. See ``Testing.advance``."""
        __tracebackhide__ = True
        environment, by = self._environment(), length(span, "advance")
        return environment.blocked(lambda: environment.run(by, blocking=True), "advance(…)")

    def wait_until(self, predicate: Predicate, *, within: Duration = "1d") -> list[Ran]:
        """Run and advance until the predicate holds. See ``Testing.wait_until``."""
        __tracebackhide__ = True
        environment, limit = self._environment(), length(within, "within")
        return environment.blocked(lambda: environment.wait_until(predicate, limit, blocking=True), "wait_until(…)")
