"""One call of a batch consumer in a test: everything that is due for it, up to its size, judged one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from mainspring.app.registration import Registration
from mainspring.app.testing.attempts import DEATHS, Attempts
from mainspring.app.testing.calling import Calls
from mainspring.app.testing.values import Ran
from mainspring.model.interrupts import is_interrupt
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.model.verdict import Release, Settlement, Verdict
from mainspring.model.views import DeliveryView
from mainspring.runtime import judgement
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.outcome_reports import report_outcome

Judged = tuple[Verdict, BaseException | None]


class BatchAttempts(Attempts):
    """Makes attempts at messages, one at a time, or at as many as a batch consumer takes."""

    async def make_all(
        self, view: DeliveryView, most: int, consumer: Registration, handler: Handler, calls: Calls
    ) -> list[Ran]:
        """Run this delivery with others of its group that are due, ``most`` in all; none when it is no longer there."""
        __tracebackhide__ = True
        if not await self._still_ready(view):
            return []
        claimed = await self._claim(ClaimRequest(view.group, most, ALL_LEVELS), handler)
        return await self._serve_all(claimed, consumer, handler, calls) if claimed else []

    async def _serve_all(
        self, claimed: Sequence[Delivery], consumer: Registration, handler: Handler, calls: Calls
    ) -> list[Ran]:
        __tracebackhide__ = True
        began, began_at = self._clock.monotonic(), self._clock.now()
        judged: dict[Run, Judged] = {}
        wanted: list[Run] = []
        for delivery in claimed:
            run = Run(delivery, handler, held_until=float("inf"))
            verdict = judgement.without_running(delivery, DEATHS)
            if verdict is None:
                run.started = began
                wanted.append(run)
            else:
                judged[run] = verdict, None
        if wanted:
            try:
                judged |= await self._attempt_all(Batch(wanted, handler), consumer, calls)
            except BaseException:
                # The test itself has ended here; whoever looks on finds it as it was.
                await self._settle({run: handler.settlement(run.delivery, Release(), timedelta()) for run in wanted})
                raise
        took = timedelta(seconds=self._clock.monotonic() - began)
        await self.ending(began_at)
        settled = {run: handler.settlement(run.delivery, verdict, took) for run, (verdict, _) in judged.items()}
        await self._settle(settled)
        if self._bus:
            await calls.tell(self._bus, partial(self._tell_all, settled))
        return [
            self._book.note_run(consumer, run.delivery, verdict, took, error, run.progress)
            for run, (verdict, error) in judged.items()
        ]

    def _tell_all(self, settled: dict[Run, Settlement]) -> None:
        for run, settlement in settled.items():
            report_outcome(self._bus, run.delivery, settlement)

    async def _settle(self, settled: dict[Run, Settlement]) -> None:
        await self._storage.mailbox.settle(sorted(settled.values(), key=lambda each: each.claim), self._owner)

    async def _attempt_all(self, batch: Batch, consumer: Registration, calls: Calls) -> dict[Run, Judged]:
        __tracebackhide__ = True
        batch.lend(self._lent(consumer), None)
        if batch.handler.timeout is not None:
            batch.limit(self._clock.monotonic() + batch.handler.timeout.total_seconds())
        self.running: Run | None = batch
        try:
            answers = await self._performed(batch, calls, batch.answered)
        finally:
            self.running = None
        if isinstance(answers, BaseException):
            answers = batch.failed(answers)
        return {run: self._judged(run, answer) for run, answer in answers}

    def _judged(self, run: Run, answer: object) -> Judged:
        if isinstance(answer, asyncio.CancelledError):
            answer = judgement.uncalled_for(answer)
        if not isinstance(answer, BaseException):
            try:
                return judgement.of_result(answer), None
            except BaseException as error:  # as where a handler returns it for its only message
                if is_interrupt(error):
                    raise
                answer = error
        return self._failed(run, answer), answer
