"""Spans around attempts, for apps with tracing."""

from __future__ import annotations

import asyncio
from collections import Counter

from opentelemetry.trace import Span

from mainspring.app.consume.context import BatchContext, Context
from mainspring.app.consume.middleware import Middleware, Next
from mainspring.model.verdict import Bury, Verdict
from mainspring.runtime import verdicts
from mainspring.runtime.batch import Batch, BatchRolledBack
from mainspring.runtime.executor import STOP_CANCELLED, STOP_LOST, STOP_SHUTDOWN, STOP_TIMEOUT
from mainspring.runtime.handler import Run
from mainspring.telemetry import spans
from mainspring.telemetry.spans import Spans

_MOST_ERRORS = 10
"""How many failures of one batch are recorded as exceptions."""
_ENDS = {STOP_LOST: "lost", STOP_CANCELLED: "cancelled", STOP_SHUTDOWN: "released"}
"""The outcomes of runs that were stopped."""


class Traced(Middleware):
    """A span around every attempt, and every call of a batch consumer; the handler runs in it.

    A route has a span for each message that it sends: they have traces of their own, and one request to the broker.
    """

    def __init__(self, made: Spans) -> None:
        self._made = made

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        run = ctx._run  # noqa: SLF001 - no handler needs to know why it was stopped
        with self._made.processing(run.delivery) as span:
            try:
                result = await call_next()
                verdict = verdicts.of_result(result)
            except BaseException as error:
                _broken(span, run, error)
                raise
            if run.settled is not None:
                spans.judged(span, run.settled.verdict)  # committed with it, whatever was requested
            elif run.stop_reason in {STOP_LOST, STOP_TIMEOUT}:
                _stopped(span, run, run.stop_reason)
            else:
                spans.judged(span, verdict)
            return result

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        batch = ctx._batch  # noqa: SLF001 - as above
        if batch.handler.link is not None:
            return await self._sending(batch, batch.handler.link.broker.kind, call_next)
        with self._made.processing_batch([run.delivery for run in batch.runs]) as span:
            try:
                result = await call_next()
                answers = batch.answered(result)
            except BaseException as error:
                if batch.runs[0].settled is not None:
                    spans.recorded(span, error)  # raised after the commit, it undoes nothing
                else:
                    _broken(span, batch, error)
                spans.counted(span, Counter(_outcome(*each) for each in batch.failed(error)))
                raise
            ended = [(run, answer, _outcome(run, answer)) for run, answer in answers]
            outcomes = Counter(outcome for _, _, outcome in ended)
            failed = [(run, answer) for run, answer, outcome in ended if outcome == "failed"]
            for run, answer in failed[:_MOST_ERRORS]:
                if isinstance(answer, BaseException):
                    spans.failed(span, answer, str(run.delivery.message_id))
            if batch.stop_reason == STOP_TIMEOUT and batch.runs[0].settled is None:
                _stopped(span, batch, STOP_TIMEOUT)
            elif failed:
                spans.failed_some(span, len(failed), len(answers))
            spans.counted(span, outcomes)
            return result

    async def _sending(self, batch: Batch, system: str, call_next: Next) -> object:
        with self._made.sending([run.delivery for run in batch.runs], system) as opened:
            try:
                result = await call_next()
                answers = batch.answered(result)
            except BaseException as error:
                for span, run in zip(opened, batch.runs, strict=True):
                    _broken(span, run, error)
                raise
            for span, (_, answer) in zip(opened, answers, strict=True):
                # What the broker did with it, whatever becomes of the claim.
                if isinstance(answer, Bury):
                    spans.judged(span, answer)
                    spans.failed_elsewhere(span, answer.failure, answer.failure.kind)
                else:
                    spans.judged(span, verdicts.of_result(answer))
            return result


def _outcome(run: Run, answer: object) -> str:
    """Return the outcome of one run, as its executor judges it."""
    if run.settled is not None:
        return spans.outcome(run.settled.verdict)
    if run.stop_reason == STOP_TIMEOUT:
        return "failed"
    if run.stop_reason == STOP_LOST:
        return "lost"
    if isinstance(answer, BatchRolledBack):
        return _ENDS.get(run.stop_reason or STOP_SHUTDOWN, "released")
    verdict = None if isinstance(answer, BaseException) else _verdict(answer)
    if verdict is not None:
        return spans.outcome(verdict)
    return "failed" if run.stop_reason is None else _ENDS[run.stop_reason]


def _verdict(answer: object) -> Verdict | None:
    try:
        return verdicts.of_result(answer)
    except BaseException:  # noqa: BLE001 - an invalid outcome is a failure, which the executor reports
        return None


def _broken(span: Span, run: Run, error: BaseException) -> None:
    if run.settled is not None:
        spans.judged(span, run.settled.verdict)
        spans.recorded(span, error)  # raised after the commit, it undoes nothing
    elif run.stop_reason is not None:
        _stopped(span, run, run.stop_reason)
    elif isinstance(error, BatchRolledBack):
        span.set_attribute(spans.OUTCOME, "released")
    else:
        span.set_attribute(spans.OUTCOME, "failed")
        if isinstance(error, verdicts.Reported):
            spans.failed_elsewhere(span, error.failure, next(iter(error.kinds), "error"))
        elif isinstance(error, asyncio.CancelledError):
            spans.failed(span, verdicts.uncalled_for(error))
        else:
            spans.failed(span, error)


def _stopped(span: Span, run: Run, reason: str) -> None:
    """Record the stop that the run ended by."""
    if reason in _ENDS:
        span.set_attribute(spans.OUTCOME, _ENDS[reason])
        return
    span.set_attribute(spans.OUTCOME, "failed")
    spans.failed(span, verdicts.overdue(run.handler.timeout_of(run.delivery)))
