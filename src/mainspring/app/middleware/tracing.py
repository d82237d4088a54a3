"""Spans around attempts, for apps of which somebody sees the traces."""

from __future__ import annotations

import asyncio

from opentelemetry.trace import Span

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Context
from mainspring.app.middleware.chain import Middleware, Next
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
            except (Exception, asyncio.CancelledError) as error:
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
            except (Exception, asyncio.CancelledError) as error:
                _broken(span, batch, error)
                raise
            broken = [(run, said) for run, said in answers if isinstance(said, Exception | asyncio.CancelledError)]
            if run_out := batch.stop_reason == STOP_TIMEOUT and batch.runs[0].settled is None:
                _stopped(span, batch, STOP_TIMEOUT)
            for run, said in broken[:_MOST_TOLD]:
                spans.failed(span, said, str(run.delivery.message_id))
            if broken:
                spans.failed_some(span, len(broken), len(answers))
            elif not run_out:
                span.set_attribute(named.OUTCOME, "done")
            return result


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
