"""One attempt in a test: claimed, called, judged and settled as a worker does it, by the hand-turned clock."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from mainspring.app.registration import Registration
from mainspring.app.storages import lent_in_place
from mainspring.app.testing.book import ALL, Book, in_order
from mainspring.app.testing.calling import Calls, is_plain
from mainspring.app.testing.own import Own
from mainspring.app.testing.values import Ran
from mainspring.model.browsing import Filter
from mainspring.model.errors import StuckHandler
from mainspring.model.holder import TOKEN_BYTES, holder
from mainspring.model.interrupts import is_interrupt
from mainspring.model.message import ClaimRequest, Delivery, Scan
from mainspring.model.verdict import Release, Verdict
from mainspring.model.views import DeliveryView
from mainspring.runtime import judgement
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.outcome_reports import report_outcome
from mainspring.runtime.own_context import is_closing
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.timing.clock import HandClock

T = TypeVar("T")

OWNER = "testing"
HOLD = timedelta(days=36_500)
"""Nobody else is there to take over, however far the clock is turned."""
DEATHS = 3
_PACKAGE = str(Path(__file__).parents[2])


Ending = Callable[[datetime], Awaitable[None]]
"""Hears that a run which began then has ended, and is not settled yet."""


async def _nothing(_since: datetime) -> None:
    """Nobody is to hear of it."""


class Savepoint(Protocol):
    """What a handler's effects are undone to when it fails."""

    def __call__(self) -> AbstractAsyncContextManager[object]:
        """One savepoint: gone back to if the block raises."""
        ...


class Attempts:
    """Makes attempts, one at a time."""

    def __init__(
        self,
        storage: Storage,
        book: Book,
        clock: HandClock,
        bus: Bus,
        savepoint: Savepoint,
        tx: object = None,
        own: Own | None = None,
    ) -> None:
        self._storage = storage
        self._own = own
        self._book = book
        self._clock = clock
        self._bus = bus
        self._savepoint = savepoint
        self._tx = tx
        self._owner = holder(OWNER, secrets.token_hex(TOKEN_BYTES))
        self._again: dict[str, datetime] = {}
        self.running: Run | None = None
        """What runs now."""
        self.ending: Ending = _nothing

    async def make(self, view: DeliveryView, consumer: Registration, handler: Handler, calls: Calls) -> Ran | None:
        """Run this delivery, unless it is no longer there to be run."""
        __tracebackhide__ = True
        if not await self._still_ready(view):
            return None
        for delivery in await self._claim(ClaimRequest(view.group, 1, (Scan(view.priority, None),)), handler):
            return await self._serve(delivery, consumer, handler, calls)
        return None  # its group is paused, or its limits let none go

    def next_in(self) -> timedelta | None:
        """How long until a rate lets more go; None: none is waited for."""
        waits = (at - self._clock.now() for at in self._again.values())
        return min((wait for wait in waits if wait > timedelta()), default=None)

    async def _claim(self, want: ClaimRequest, handler: Handler) -> Sequence[Delivery]:
        if self._own is None:
            return await self._claim_any(want, handler)
        levels = {scan.priority for scan in want.scans}
        ready = (await self._storage.ledger.browse(Filter(state="ready", group=want.group, limit=ALL, scan=ALL))).rows
        ours = sorted((view for view in await self._own.of(ready) if view.priority in levels), key=in_order)
        if handler.limits is None:
            return await self._take(want.group, ours[: want.limit])
        # Limits choose by themselves: what they choose that is not ours is handed back.
        claimed = await self._claim_any(want._replace(limit=want.limit + len(ready) - len(ours)), handler)
        chosen = [each for each in claimed if each.id in {view.seq for view in ours}][: want.limit]
        back = [handler.settlement(each, Release(), timedelta()) for each in claimed if each not in chosen]
        await self._storage.mailbox.settle(sorted(back, key=lambda each: each.claim), self._owner)
        return chosen

    async def _take(self, group: str, views: Sequence[DeliveryView]) -> Sequence[Delivery]:
        if await self._storage.mailbox.upcoming([group], HOLD) is None:
            return []  # it is paused
        taken = [await self._storage.mailbox.take(view.message_id, view.group, self._owner, HOLD) for view in views]
        return [each for each in taken if each is not None]

    async def _claim_any(self, want: ClaimRequest, handler: Handler) -> Sequence[Delivery]:
        if handler.limits is None:
            return await self._storage.mailbox.claim([want], self._owner, HOLD)
        ration = await self._storage.mailbox.claim_limited(want, handler.limits, None, self._owner, HOLD)
        self._again.pop(want.group, None)
        if ration.again_in is not None:
            self._again[want.group] = self._clock.now() + ration.again_in
        return ration.deliveries

    def elapse(self, span: timedelta) -> None:
        """Let time pass for what runs: past its time limit it is told to stop, and a coroutine is cancelled."""
        self._clock.advance(span)
        run = self.running
        if run is None or run.deadline is None or self._clock.monotonic() < run.deadline:
            return
        run.ask_to_stop("timeout")
        if not is_plain(run.handler):
            raise asyncio.CancelledError

    async def _still_ready(self, view: DeliveryView) -> bool:
        # A handler that ran before it at this very instant may have cancelled it.
        found = await self._storage.ledger.find(view.message_id)
        return found is not None and any(
            each.seq == view.seq and each.state == "ready" and each.group == view.group for each in found.deliveries
        )

    async def _serve(self, delivery: Delivery, consumer: Registration, handler: Handler, calls: Calls) -> Ran:
        __tracebackhide__ = True
        run = Run(delivery, handler, held_until=float("inf"))
        run.tx = self._lent(consumer)
        began, began_at = self._clock.monotonic(), self._clock.now()
        exception: BaseException | None = None
        verdict = judgement.without_running(delivery, DEATHS)
        if verdict is None:
            run.started = began
            run.deadline = None if handler.timeout is None else began + handler.timeout.total_seconds()
            self.running = run
            try:
                verdict, exception = await self._attempt(run, calls)
            except BaseException:
                # The test itself has ended here; whoever looks on finds it as it was.
                await self._storage.mailbox.settle([handler.settlement(delivery, Release(), timedelta())], self._owner)
                raise
            finally:
                self.running = None
        took = timedelta(seconds=self._clock.monotonic() - began)
        await self.ending(began_at)
        settlement = handler.settlement(delivery, verdict, took)
        await self._storage.mailbox.settle([settlement], self._owner)
        if self._bus:
            await calls.tell(self._bus, lambda: report_outcome(self._bus, delivery, settlement))
        return self._book.note_run(consumer, delivery, verdict, took, exception, run.progress)

    def _lent(self, consumer: Registration) -> object:
        source = consumer.transactional
        if source is None or self._tx is None:
            return None
        return lent_in_place(self._tx) if source.is_ours and not consumer.threaded else self._tx

    async def _attempt(self, run: Run, calls: Calls) -> tuple[Verdict, BaseException | None]:
        __tracebackhide__ = True
        answer = await self._performed(run, calls, judgement.of_result)
        if isinstance(answer, BaseException):
            return self._failed(run, answer), answer
        return answer, None

    async def _performed(self, run: Run, calls: Calls, read: Callable[[object], T]) -> T | BaseException:
        """What the handler's answer means, or what it raised, after its savepoint has seen it; or that it was late."""
        __tracebackhide__ = True
        answer = await self._answered(run, calls, read)
        if run.stop_reason == "timeout" or (run.deadline is not None and self._clock.monotonic() >= run.deadline):
            assert run.handler.timeout is not None, "only a timeout can have passed"
            late: BaseException = judgement.overdue(run.handler.timeout)
            late.__cause__ = answer if isinstance(answer, Exception) else None
            return late
        return answer

    async def _answered(self, run: Run, calls: Calls, read: Callable[[object], T]) -> T | BaseException:
        __tracebackhide__ = True
        sent, undoes = len(self._book.sent), None
        task, asked = _task(), _asked(_task())
        try:
            async with self._savepoint() as undoes:
                return read(await calls.call(run.handler, run))
        except asyncio.CancelledError as error:
            if _asked(task) > asked:
                raise  # somebody stops the test
            raised: BaseException = error if run.stop_reason else judgement.uncalled_for(error)
        except BaseException as error:
            if isinstance(error, StuckHandler) or is_closing(error) or _ends_the_test(error):
                raise
            raised = error  # whatever a handler raises is its answer
        if undoes is not None:
            del self._book.sent[sent:]
        return raised.with_traceback(_from_handler(raised.__traceback__))

    def _failed(self, run: Run, error: BaseException) -> Verdict:
        elapsed = timedelta(seconds=self._clock.monotonic() - (run.started or 0.0))
        return judgement.of_error(error, run.delivery, run.handler.retry, elapsed)


def _task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _asked(task: asyncio.Task[object] | None) -> int:
    return 0 if task is None else task.cancelling()


def _ends_the_test(error: BaseException) -> bool:
    """Whether no handler of a worker could raise it: what pytest raises to fail or skip, and Ctrl-C."""
    return is_interrupt(error) or type(error).__module__.partition(".")[0] == "_pytest"


def _from_handler(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the user's own code on; all of it where there is none of that."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first or trace
