"""Middleware around the call of a batch consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import cast

from mainspring.app.batch_context import BatchContext
from mainspring.app.context import Publishing
from mainspring.app.middleware.chain import Call, Middleware, Next, entering
from mainspring.model.message import Delivery
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Around, Run


def around_batch(middleware: Sequence[Middleware], app: Publishing) -> Around | None:
    """The middleware that stands around a batch, as the runtime calls it; None when there is none."""
    chain = [each for each in reversed(middleware) if type(each).handling_batch is not Middleware.handling_batch]
    if not chain:
        return None

    def handle(run: Run, perform: Next) -> Awaitable[object]:
        context = BatchContext(app, None, cast("Batch", run))
        call = perform
        for each in chain:
            call = partial(each.handling_batch, context, call)
        return call()

    return handle


def inside_batch(middleware: Sequence[Middleware], app: Publishing, call: Call, *, threaded: bool) -> Call:
    """The handler's call with the middleware that goes with it to where it runs."""
    chain = [each for each in middleware if type(each).calling_batch is not Middleware.calling_batch]
    if not chain:
        return call

    def managers(_: Delivery, run: Run) -> Iterator[AbstractContextManager[object]]:
        context = BatchContext(app, None, cast("Batch", run))
        return (each.calling_batch(context) for each in chain)

    return entering(managers, call, threaded=threaded)
