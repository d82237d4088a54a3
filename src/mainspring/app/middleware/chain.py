"""What a middleware is, and how several stand around one call: the first is the outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import cast
from uuid import UUID

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Context, Publishing
from mainspring.app.firm import Firm
from mainspring.app.names import check_headers
from mainspring.model.errors import BadOption
from mainspring.model.headers import public, reserved
from mainspring.model.message import Delivery, Draft
from mainspring.runtime.handler import Around, Run
from mainspring.telemetry.tracing import Tracing, carried

Next = Callable[[], Awaitable[object]]
"""Awaits the rest of the chain and the handler; returns what the handler returned."""
Call = Callable[[Delivery, Run], object]
"""A handler, ready to be called: a plain function gives its result, another what is to be awaited."""


class Outgoing:
    """A message on its way out. Only its headers may be changed: the rest was checked already."""

    __slots__ = ("headers", "key", "message_id", "payload", "topic")

    def __init__(self, draft: Draft) -> None:
        self.topic: str = draft.topic
        self.message_id: UUID = draft.id
        self.key: str | None = draft.key
        self.payload: bytes = draft.payload
        self.headers: dict[str, str] = public(draft.headers)

    def __repr__(self) -> str:
        """For people: which message."""
        return f"<Outgoing {self.topic} {self.message_id}>"


class Middleware:
    """One behaviour around every publish and every handling. Override what you need; the rest costs nothing."""

    def publishing(self, message: Outgoing) -> AbstractContextManager[object]:
        """A context manager around storing one message, in blocking code and in coroutines alike.

        Headers may be added before it is stored; an exception refuses it, unless it was stored already.
        """
        return nullcontext(message)

    async def handling(self, ctx: Context, call_next: Next) -> object:  # noqa: ARG002 - for those who override it
        """Around one attempt: what it returns or raises is the attempt's outcome. The payload is not read yet."""
        return await call_next()

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:  # noqa: ARG002
        """Around one call of a batch consumer, in place of ``handling``.

        What it returns or raises is the outcome of its messages. Whoever has one for single messages needs this or
        ``calling_batch``, too.
        """
        return await call_next()

    def calling(self, ctx: Context) -> AbstractContextManager[object]:
        """A context manager right around the handler, where it runs: a plain function's is entered in its thread.

        For what belongs to a thread or must be there synchronously. Not in the processes of ``cpu=True``.
        """
        return nullcontext(ctx)

    def calling_batch(self, ctx: BatchContext) -> AbstractContextManager[object]:
        """A context manager right around the handler of a batch, where it runs, in place of ``calling``."""
        return nullcontext(ctx)


def check_middleware(given: object) -> tuple[Middleware, ...]:
    """The middleware as given, in order."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise BadOption(f"middleware={given!r} must be a list of Middleware, the outermost first")
    for each in given:
        if isinstance(each, type) and issubclass(each, Middleware):
            raise BadOption(f"middleware has the class {each.__qualname__}: write {each.__qualname__}(…)")
        if not isinstance(each, Middleware):
            raise BadOption(f"middleware has {each!r}: it must be an instance of a subclass of Middleware")
    return tuple(given)


class PublishChain:
    """What stands around publishing: spans, where somebody sees them, and inside of them the middleware."""

    def __init__(self, middleware: Sequence[Middleware], tracing: Tracing | None = None) -> None:
        self._chain = [each for each in middleware if type(each).publishing is not Middleware.publishing]
        self._tracing = Tracing(wanted=False) if tracing is None else tracing
        self.besides: list[Middleware] = []
        """What else stands around every attempt in this process, outside of the app's own middleware."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        tracing = self._tracing
        if not tracing.looked:
            tracing.look()
        return tracing.spans is not None or bool(self._chain)

    def carried(self) -> dict[str, str]:
        """The headers by which what is published here, though not through this chain, belongs to the trace it is in."""
        return carried() if self and self._tracing.spans is not None else {}

    def outermost(self) -> tuple[Middleware, ...]:
        """What stands around every attempt, outside of all other middleware; looked for when a worker starts."""
        spans = self._tracing.look()
        if spans is None:
            return tuple(self.besides)
        from mainspring.app.middleware.tracing import Traced

        return Traced(spans), *self.besides

    @contextmanager
    def around(self, drafts: Sequence[Draft], *, joined: bool) -> Iterator[list[Draft]]:
        """Enter for every draft; gives them with the headers they were given. ``joined``: in the caller's transaction.

        Where there is nothing to publish, nothing happens.
        """
        if not self or not drafts:
            yield list(drafts)
            return
        outgoing = [Outgoing(draft) for draft in drafts]
        with ExitStack() as stack:
            if (spans := self._tracing.spans) is not None:
                pairs = [(draft, message.headers) for draft, message in zip(drafts, outgoing, strict=True)]
                stack.enter_context(spans.publishing(pairs, joined=joined))
            for message in outgoing:
                for middleware in self._chain:
                    stack.enter_context(Firm(middleware.publishing(message)))
            yield [_with_headers(draft, message) for draft, message in zip(drafts, outgoing, strict=True)]


def around(middleware: Sequence[Middleware], app: Publishing) -> Around | None:
    """The middleware that stands around handling, as the runtime calls it; None when there is none."""
    chain = [each for each in reversed(middleware) if type(each).handling is not Middleware.handling]
    if not chain:
        return None

    def handle(run: Run, perform: Next) -> Awaitable[object]:
        context = Context(app, run.delivery, run)
        call = perform
        for each in chain:
            call = partial(each.handling, context, call)
        return call()

    return handle


def inside(middleware: Sequence[Middleware], app: Publishing, call: Call, *, threaded: bool) -> Call:
    """The handler's call with the middleware that goes with it to where it runs."""
    chain = [each for each in middleware if type(each).calling is not Middleware.calling]
    if not chain:
        return call

    def managers(delivery: Delivery, run: Run) -> Iterator[AbstractContextManager[object]]:
        context = Context(app, delivery, run)
        return (each.calling(context) for each in chain)

    return entering(managers, call, threaded=threaded)


def entering(
    managers: Callable[[Delivery, Run], Iterator[AbstractContextManager[object]]], call: Call, *, threaded: bool
) -> Call:
    """The handler's call within these, each made when those before it are entered."""

    def entered(delivery: Delivery, run: Run) -> ExitStack:
        with ExitStack() as stack:
            for each in managers(delivery, run):
                stack.enter_context(Firm(each))
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
