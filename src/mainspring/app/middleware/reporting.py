"""Handing exceptions to whoever collects them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Context
from mainspring.app.middleware.chain import Middleware, Next
from mainspring.runtime.own_context import is_stopped
from mainspring.telemetry.logs import log

_logger = logging.getLogger("mainspring.reporting")


class ReportErrors(Middleware):
    """Calls ``report(error, ctx)`` for every exception a handler raises, and lets it go on as it was.

    ``report`` may be async. What it raises itself is logged: a reporter that is away must not fail anyone's work. The
    first attempts of a message may be left out by ``from_attempt``. What the handler of a batch raises is reported
    once, with the context of the first message in it; what it returns for a message, or why one cannot be read, with
    that message's own.
    """

    def __init__(self, report: Callable[[BaseException, Context], object], *, from_attempt: int = 1) -> None:
        self._report = report
        self._from_attempt = from_attempt

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        try:
            return await call_next()
        except BaseException as error:
            # Not where it is told to stop: a timeout, a cancellation, the end of the worker.
            if not is_stopped(error) and ctx.attempt >= self._from_attempt:
                await self._tell(error, ctx)
            raise

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        try:
            result = await call_next()
        except BaseException as error:
            if is_stopped(error):
                raise
            first = [(each, error) for each in ctx.contexts if each.attempt >= self._from_attempt][:1]
            await self._tell_all([*ctx.unread, *first])
            raise
        said = zip(ctx.contexts, result, strict=False) if isinstance(result, list | tuple) else ()
        await self._tell_all([*ctx.unread, *said])
        return result

    async def _tell_all(self, said: Iterable[tuple[Context, object]]) -> None:
        for ctx, outcome in said:
            if isinstance(outcome, BaseException) and ctx.attempt >= self._from_attempt:
                await self._tell(outcome, ctx)

    async def _tell(self, error: BaseException, ctx: Context) -> None:
        try:
            answer = self._report(error, ctx)
            if inspect.isawaitable(answer):
                await answer
        except BaseException as failed:  # a reporter that is away must not fail anyone's work
            if is_stopped(failed):
                raise
            log(_logger, logging.ERROR, "the error of message %s could not be reported", ctx.message_id, error=failed)
