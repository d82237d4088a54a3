"""Naming handlers that take long."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from datetime import timedelta

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Context
from mainspring.app.middleware.chain import Middleware, Next
from mainspring.app.options import length
from mainspring.runtime.own_context import is_stopped
from mainspring.telemetry.logs import log
from mainspring.timing.duration import Duration, spell

_logger = logging.getLogger("mainspring.slow")


class SlowHandlers(Middleware):
    """Times every attempt: tells ``report`` how long it took, and warns of those slower than ``over``.

    Each message of a batch took as long as the batch.
    """

    def __init__(
        self, over: Duration | None = "10s", *, report: Callable[[Context, timedelta], object] | None = None
    ) -> None:
        self._over = None if over is None else length(over, "over")
        self._report = report

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        began = time.perf_counter()
        try:
            return await call_next()
        finally:
            took = timedelta(seconds=time.perf_counter() - began)
            await self._tell(ctx, took)
            if self._over is not None and took > self._over:
                log(_logger, logging.WARNING, "%s took %s for message %s", ctx.group, spell(took), ctx.message_id)

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        began, contexts = time.perf_counter(), ctx.contexts
        try:
            return await call_next()
        finally:
            took = timedelta(seconds=time.perf_counter() - began)
            for each in contexts:
                await self._tell(each, took)
            if self._over is not None and took > self._over:
                text = "%s took %s for a batch of %d messages"
                log(_logger, logging.WARNING, text, ctx.group, spell(took), len(contexts))

    async def _tell(self, ctx: Context, took: timedelta) -> None:
        if self._report is None:
            return
        try:
            answer = self._report(ctx, took)
            if inspect.isawaitable(answer):
                await answer
        except BaseException as failed:  # a report that fails undoes nothing
            if is_stopped(failed):
                raise
            log(_logger, logging.ERROR, "the time of message %s could not be reported", ctx.message_id, error=failed)
