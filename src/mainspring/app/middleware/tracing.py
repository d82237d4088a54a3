"""Spans around attempts, for apps of which somebody sees the traces."""

from __future__ import annotations

import asyncio
from collections import Counter

from opentelemetry.trace import Span

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Context
from mainspring.app.middleware.chain import Middleware, Next
from mainspring.model.verdict import Verdict
from mainspring.runtime import judgement
from mainspring.runtime.batch import Undone
from mainspring.runtime.executor import STOP_CANCELLED, STOP_LOST, STOP_SHUTDOWN, STOP_TIMEOUT
from mainspring.runtime.handler import Run
from mainspring.telemetry import attributes as named
from mainspring.telemetry import spans
from mainspring.telemetry.spans import Spans

_MOST_TOLD = 10
"""How many failures of one batch are told with their exceptions."""
_ENDS = {STOP_LOST: "lost", STOP_CANCELLED: "cancelled", STOP_SHUTDOWN: "released"}
"""What becomes of a run that ended because it was told to."""


class Traced(Middleware):
    """Makes a span of every attempt, and of every call of a batch consumer; the handler runs in it."""

    def __init__(self, made: Spans) -> None:
        self._made = made

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        run = ctx._run  # noqa: SLF001 - no handler needs to know why it was stopped
        with self._made.processing(run.delivery) as span:
            try:
                result = await call_next()
                verdict = judgement.of_result(result)
            except BaseException as error:
                _broken(span, run, error)
                raise
            if run.settled is not None:
                spans.judged(span, run.settled.verdict)  # committed with it, whatever was asked meanwhile
            elif run.stop_reason in {STOP_LOST, STOP_TIMEOUT}:
                _stopped(span, run, run.stop_reason)
            else:
                spans.judged(span, verdict)
            return result

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        batch = ctx._batch  # noqa: SLF001 - as above
        with self._made.processing_batch([run.delivery for run in batch.runs]) as span:
            try:
                result = await call_next()
                answers = batch.answered(result)
            except BaseException as error:
                if batch.runs[0].settled is not None:
                    spans.recorded(span, error)  # of what came after the commit: nothing is undone by it
                else:
                    _broken(span, batch, error)
                spans.counted(span, Counter(_outcome(*each) for each in batch.failed(error)))
                raise
            ended = [(run, said, _outcome(run, said)) for run, said in answers]
            outcomes = Counter(outcome for _, _, outcome in ended)
            failed = [(run, said) for run, said, outcome in ended if outcome == "failed"]
            for run, said in failed[:_MOST_TOLD]:
                if isinstance(said, BaseException):
                    spans.failed(span, said, str(run.delivery.message_id))
            if batch.stop_reason == STOP_TIMEOUT and batch.runs[0].settled is None:
                _stopped(span, batch, STOP_TIMEOUT)
            elif failed:
                spans.failed_some(span, len(failed), len(answers))
            spans.counted(span, outcomes)
            return result


def _outcome(run: Run, said: object) -> str:
    """What becomes of one of a batch, as its executor judges it."""
    if run.settled is not None:
        return spans.outcome(run.settled.verdict)
    if run.stop_reason == STOP_TIMEOUT:
        return "failed"
    if run.stop_reason == STOP_LOST:
        return "lost"
    if isinstance(said, Undone):
        return _ENDS.get(run.stop_reason or STOP_SHUTDOWN, "released")
    verdict = None if isinstance(said, BaseException) else _verdict(said)
    if verdict is not None:
        return spans.outcome(verdict)
    return "failed" if run.stop_reason is None else _ENDS[run.stop_reason]


def _verdict(said: object) -> Verdict | None:
    try:
        return judgement.of_result(said)
    except BaseException:  # noqa: BLE001 - what is no outcome is a failure, which the executor puts into words
        return None


def _broken(span: Span, run: Run, error: BaseException) -> None:
    if run.settled is not None:
        spans.judged(span, run.settled.verdict)
        spans.recorded(span, error)  # of what came after the commit: nothing is undone by it
    elif run.stop_reason is not None:
        _stopped(span, run, run.stop_reason)
    elif isinstance(error, Undone):
        span.set_attribute(named.OUTCOME, "released")
    else:
        span.set_attribute(named.OUTCOME, "failed")
        if isinstance(error, judgement.Reported):
            spans.failed_elsewhere(span, error.failure, next(iter(error.kinds), "error"))
        elif isinstance(error, asyncio.CancelledError):
            spans.failed(span, judgement.uncalled_for(error))
        else:
            spans.failed(span, error)


def _stopped(span: Span, run: Run, reason: str) -> None:
    """It was told to stop, and that is what it ended by."""
    if reason in _ENDS:
        span.set_attribute(named.OUTCOME, _ENDS[reason])
        return
    limit = run.handler.timeout
    assert limit is not None, "only a timeout can have passed"
    span.set_attribute(named.OUTCOME, "failed")
    spans.failed(span, judgement.overdue(limit))
