"""Middleware: one behaviour around every publish and every call of a handler."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast
from uuid import UUID

from mainspring.app.connection import Connection
from mainspring.app.consume.context import BatchContext, Context, Publishing
from mainspring.app.consume.injection import NonSuppressing
from mainspring.app.names import check_headers
from mainspring.app.options import length
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption
from mainspring.model.message import Delivery, Draft, public, reserved
from mainspring.model.verdict import Done
from mainspring.runtime import verdicts
from mainspring.runtime.executor import STOP_LOST, STOP_TIMEOUT
from mainspring.runtime.handler import Around as AroundHandling
from mainspring.runtime.handler import Run
from mainspring.runtime.schedules.middleware import Around
from mainspring.runtime.verdicts import is_stopped
from mainspring.storage.script import Script
from mainspring.telemetry.logs import log
from mainspring.telemetry.tracing import Tracing, carried, trace_ids
from mainspring.timing.duration import Duration, spell

if TYPE_CHECKING:
    from mainspring.telemetry.spans import Spans

__all__ = ["LogContext", "Middleware", "Next", "Outgoing", "ReportErrors", "SlowHandlers"]

Next = Callable[[], Awaitable[object]]
"""Awaits the rest of the chain and the handler; returns what the handler returned."""
Call = Callable[[Delivery, Run], object]
"""A handler's call: of a plain function it returns the result, of another an awaitable."""


class Outgoing:
    """A message to be stored. Only its headers may be changed: the rest is checked already."""

    __slots__ = ("headers", "key", "message_id", "payload", "topic")

    def __init__(self, draft: Draft) -> None:
        self.topic: str = draft.topic
        self.message_id: UUID = draft.id
        self.key: str | None = draft.key
        self.payload: bytes = draft.payload
        self.headers: dict[str, str] = public(draft.headers)

    def __repr__(self) -> str:
        """Show the topic and the id."""
        return f"<Outgoing {self.topic} {self.message_id}>"


class Middleware:
    """One behaviour around every publish and every handling. Override what you need; the rest costs nothing."""

    def publishing(self, message: Outgoing) -> AbstractContextManager[object]:
        """Return a context manager around storing one message, in blocking code and coroutines.

        Headers may be added before it is stored; an exception rejects it, unless it was stored already. Occurrences of
        schedules are messages like any other: their rows are locked while it runs, so it must be quick, and an
        exception stops that schedule for a minute.
        """
        return nullcontext(message)

    async def handling(self, ctx: Context, call_next: Next) -> object:  # noqa: ARG002 - for overrides
        """Wrap one attempt: what it returns or raises is the attempt's outcome. The payload is not read yet."""
        return await call_next()

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:  # noqa: ARG002
        """Wrap one call of a batch consumer, in place of ``handling``.

        What it returns or raises is the outcome of its messages. Middleware for single messages needs this or
        ``calling_batch``, too.
        """
        return await call_next()

    def calling(self, ctx: Context) -> AbstractContextManager[object]:
        """Return a context manager around the handler, where it runs: for a plain function in its thread.

        For state of a thread, or that is needed synchronously. Not in the processes of ``cpu=True``.
        """
        return nullcontext(ctx)

    def calling_batch(self, ctx: BatchContext) -> AbstractContextManager[object]:
        """Return a context manager around a batch's handler, where it runs, in place of ``calling``."""
        return nullcontext(ctx)


def check_middleware(given: object) -> tuple[Middleware, ...]:
    """Check and return middleware."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise BadOption(f"middleware={given!r} must be a list of Middleware, the outermost first")
    for each in given:
        if isinstance(each, type) and issubclass(each, Middleware):
            raise BadOption(f"middleware has the class {each.__qualname__}: write {each.__qualname__}(…)")
        if not isinstance(each, Middleware):
            raise BadOption(f"middleware has {each!r}: it must be an instance of a subclass of Middleware")
    return tuple(given)


class PublishChain:
    """What wraps publishing: spans, if tracing is on, and inside them the middleware."""

    def __init__(self, middleware: Sequence[Middleware], tracing: Tracing | None = None) -> None:
        self._chain = [each for each in middleware if overrides(each, "publishing")]
        self._tracing = Tracing(wanted=False) if tracing is None else tracing
        self.outer: list[Middleware] = []
        """Further middleware around every attempt in this process, outside the app's own."""

    def __bool__(self) -> bool:
        """Return whether any is on."""
        tracing = self._tracing
        if not tracing.decided:
            tracing.decide()
        return tracing.spans is not None or bool(self._chain)

    def carried(self) -> dict[str, str]:
        """Return the trace headers for what is published here, though not through this chain."""
        return carried() if self and self._tracing.spans is not None else {}

    def outermost(self) -> tuple[Middleware, ...]:
        """Return the middleware around every attempt, outside all other; called when a worker starts."""
        spans = self._tracing.decide()
        if spans is None:
            return tuple(self.outer)
        from mainspring.app.consume.tracing import Traced

        return Traced(spans), *self.outer

    @property
    def spans(self) -> Spans | None:
        """What creates spans; None if none would be recorded. Decided as a worker starts."""
        return self._tracing.spans

    def around_occurrences(self) -> Around | None:
        """Return the middleware for occurrences of schedules, which have no span; None without any."""
        return partial(self.around, enlisted=False, traced=False) if self._chain else None

    @contextmanager
    def around(self, drafts: Sequence[Draft], *, enlisted: bool, traced: bool = True) -> Iterator[list[Draft]]:
        """Enter for every draft; yield them with their new headers. ``enlisted``: in the caller's transaction.

        Without drafts, nothing happens.
        """
        if not self or not drafts:
            yield list(drafts)
            return
        outgoing = [Outgoing(draft) for draft in drafts]
        with ExitStack() as stack:
            if traced and (spans := self._tracing.spans) is not None:
                pairs = [(draft, message.headers) for draft, message in zip(drafts, outgoing, strict=True)]
                stack.enter_context(spans.publishing(pairs, enlisted=enlisted))
            for message in outgoing:
                for middleware in self._chain:
                    stack.enter_context(NonSuppressing(middleware.publishing(message)))
            yield [_with_headers(draft, message) for draft, message in zip(drafts, outgoing, strict=True)]


def overrides(middleware: Middleware, method: str) -> bool:
    """Return whether its class overrides this method."""
    return getattr(type(middleware), method) is not getattr(Middleware, method)


def around(middleware: Sequence[Middleware], app: Publishing, *, batch: bool) -> AroundHandling | None:
    """Return the middleware around handling, as the runtime calls it; None without any."""
    method, made = ("handling_batch", BatchContext) if batch else ("handling", Context)
    make: Callable[..., object] = made
    chain = [getattr(each, method) for each in reversed(middleware) if overrides(each, method)]
    if not chain:
        return None

    def handle(run: Run, perform: Next) -> Awaitable[object]:
        context = make(app, run.delivery, run)
        call = perform
        for handling in chain:
            call = partial(handling, context, call)
        return call()

    return handle


def inside(middleware: Sequence[Middleware], app: Publishing, call: Call, *, threaded: bool, batch: bool) -> Call:
    """Wrap the handler's call in the middleware that runs where it runs."""
    method, made = ("calling_batch", BatchContext) if batch else ("calling", Context)
    make: Callable[..., object] = made
    chain = [getattr(each, method) for each in middleware if overrides(each, method)]
    if not chain:
        return call

    def entered(delivery: Delivery, run: Run) -> ExitStack:
        context = make(app, delivery, run)
        with ExitStack() as stack:
            for calling in chain:
                stack.enter_context(NonSuppressing(calling(context)))
            return stack.pop_all()

    def called(delivery: Delivery, run: Run) -> object:
        with entered(delivery, run):
            return call(delivery, run)

    async def awaited(delivery: Delivery, run: Run) -> object:
        with entered(delivery, run):
            return await cast("Awaitable[object]", call(delivery, run))

    return called if threaded else awaited


def _with_headers(draft: Draft, message: Outgoing) -> Draft:
    if message.headers == public(draft.headers):
        return draft
    return replace(draft, headers={**check_headers(message.headers), **reserved(draft.headers)})


_FAILED = (STOP_LOST, STOP_TIMEOUT)
"""Stop reasons of a run that has failed even if it returned."""


class Placed(Protocol):
    """A database, as a middleware of ours uses it."""

    @property
    def connection(self) -> Connection:
        """The connection."""
        ...

    @property
    def transactions(self) -> Transactions:
        """What runs scripts in callers' transactions."""
        ...


class CursorAdvance(Middleware):
    """The advance of cursors: in the handler's transaction if any, else in a statement before the settle.

    If that statement fails, so does the attempt. A repeat is harmless: a cursor only moves forward.
    """

    def __init__(self, here: Callable[[], Placed]) -> None:
        # Imported here: an app without a fan-out imports nothing of it until it opens its database.
        from mainspring.model.fanout import slice_of

        self._here = here
        self._slice_of = slice_of

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        result = await call_next()
        run = ctx._run  # noqa: SLF001 - no handler needs to know whether it is settled already
        if run.settled is not None or run.stop_reason in _FAILED or not isinstance(verdicts.of_result(result), Done):
            return result
        if (which := self._slice_of(run.delivery)) is not None:
            storage = await self._here().connection.storage("a slice of a fan-out")
            await storage.fanouts.advance(*which)
        return result

    def script(self, delivery: Delivery) -> Script[bool]:
        """Advance it in the handler's transaction, which is about to be settled."""
        which = self._slice_of(delivery)
        if which is None:
            return False
        return (yield from self._here().transactions.operations.fanouts.advance.script(*which))


_current: ContextVar[Context | BatchContext | None] = ContextVar("mainspring_context", default=None)


class LogContext(Middleware):
    """Middleware that adds the current message to log records, in coroutines and threads.

    ``LogContext.filter`` goes onto a logging handler. It gives every record ``group``, ``topic``, ``message_id``,
    ``attempt``, ``correlation_id``, ``trace_id`` and ``span_id``, unless it has them. They are None outside a handler;
    in that of a batch only the group of the first five is set.
    """

    class _Filter(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            known = vars(record)
            for name, value in _facts().items():
                known.setdefault(name, value)
            return True

    filter: logging.Filter = _Filter()
    """For ``handler.addFilter(LogContext.filter)``; it passes every record."""

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


_logger = logging.getLogger("mainspring.reporting")


class ReportErrors(Middleware):
    """Middleware that calls ``report(error, ctx)`` for an exception of a handler, and re-raises it.

    ``report`` may be async. What it raises itself is logged: a failing reporter must not fail a message. The first
    attempts of a message may be left out by ``from_attempt``. What the handler of a batch raises is reported once,
    with the context of its first message; what it returns for a message, or why one cannot be read, with that
    message's own.
    """

    def __init__(self, report: Callable[[BaseException, Context], object], *, from_attempt: int = 1) -> None:
        self._report = report
        self._from_attempt = from_attempt

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        try:
            return await call_next()
        except BaseException as error:
            # Not if the run was stopped: by a timeout, a cancellation, a shutdown.
            if not is_stopped(error) and ctx.attempt >= self._from_attempt:
                await self._notify(error, ctx)
            raise

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        try:
            result = await call_next()
        except BaseException as error:
            if is_stopped(error):
                raise
            first = [(each, error) for each in ctx.contexts if each.attempt >= self._from_attempt][:1]
            await self._notify_all([*ctx.unread, *first])
            raise
        outcomes = zip(ctx.contexts, result, strict=False) if isinstance(result, list | tuple) else ()
        await self._notify_all([*ctx.unread, *outcomes])
        return result

    async def _notify_all(self, outcomes: Iterable[tuple[Context, object]]) -> None:
        for ctx, outcome in outcomes:
            if isinstance(outcome, BaseException) and ctx.attempt >= self._from_attempt:
                await self._notify(outcome, ctx)

    async def _notify(self, error: BaseException, ctx: Context) -> None:
        await _notify(partial(self._report, error, ctx), _logger, "failed to report the error of message %s", ctx)


async def _notify(report: Callable[[], object], logger: logging.Logger, failure: str, ctx: Context) -> None:
    """Call a reporter, and log what it raises: it must not fail a message."""
    try:
        answer = report()
        if inspect.isawaitable(answer):
            await answer
    except BaseException as error:
        if is_stopped(error):
            raise
        log(logger, logging.ERROR, failure, ctx.message_id, error=error)


_slow_logger = logging.getLogger("mainspring.slow")


class SlowHandlers(Middleware):
    """Middleware that times attempts: it calls ``report``, and logs those slower than ``over``.

    Each message of a batch took as long as the batch.
    """

    def __init__(
        self, over: Duration | None = "10s", *, report: Callable[[Context, timedelta], object] | None = None
    ) -> None:
        self._over = None if over is None else length(over, "over")
        self._report = report

    async def handling(self, ctx: Context, call_next: Next) -> object:
        """See ``Middleware.handling``."""
        return await self._timed(call_next, [ctx], "%s took %s for message %s", ctx.group, ctx.message_id)

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        contexts = ctx.contexts
        slow = "%s took %s for a batch of %d messages"
        return await self._timed(call_next, contexts, slow, ctx.group, len(contexts))

    async def _timed(self, call_next: Next, contexts: Sequence[Context], slow: str, group: str, what: object) -> object:
        began = time.perf_counter()
        try:
            return await call_next()
        finally:
            took = timedelta(seconds=time.perf_counter() - began)
            if self._report is not None:
                for each in contexts:
                    report = partial(self._report, each, took)
                    await _notify(report, _slow_logger, "failed to report the time of message %s", each)
            if self._over is not None and took > self._over:
                log(_slow_logger, logging.WARNING, slow, group, spell(took), what)
