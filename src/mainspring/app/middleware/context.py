"""Saying in every log line which message it is about."""

from __future__ import annotations

import logging
from contextvars import ContextVar

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Context
from mainspring.app.middleware.chain import Middleware, Next
from mainspring.telemetry.tracing import trace_ids

_current: ContextVar[Context | BatchContext | None] = ContextVar("mainspring_context", default=None)


class LogContext(Middleware):
    """Lets log records know the message that is being handled, in coroutines and in threads.

    ``LogContext.filter`` goes onto a logging handler. It gives every record ``group``, ``topic``, ``message_id``,
    ``attempt``, ``correlation_id``, ``trace_id`` and ``span_id``, unless it has them. They are None outside a handler;
    in that of a batch, of the first five only the group is not.
    """

    class _Filter(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            known = vars(record)
            for name, value in _facts().items():
                known.setdefault(name, value)
            return True

    filter: logging.Filter = _Filter()
    """For ``handler.addFilter(LogContext.filter)``; it lets every record pass."""

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        return await self._known(ctx, call_next)

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        return await self._known(ctx, call_next)

    async def _known(self, ctx: Context | BatchContext, call_next: Next) -> object:
        token = _current.set(ctx)
        try:
            return await call_next()
        finally:
            _current.reset(token)


def _facts() -> dict[str, object]:
    current = _current.get()
    ctx = current if isinstance(current, Context) else None
    trace_id, span_id = trace_ids() or (None, None)
    return {
        "group": None if current is None else current.group,
        "topic": None if ctx is None else ctx.topic,
        "message_id": None if ctx is None else str(ctx.message_id),
        "attempt": None if ctx is None else ctx.attempt,
        "correlation_id": None if ctx is None else ctx.correlation_id,
        "trace_id": trace_id,
        "span_id": span_id,
    }
