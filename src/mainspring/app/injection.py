"""Calling a handler with what it needs: made in order before it, closed in reverse after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from mainspring.app.context import Context, Publishing
from mainspring.app.plan import SCOPE, Plan, Step
from mainspring.app.resolvers import Resolver
from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from mainspring.storage.codec import Decode

Call = Callable[[Delivery, Run], Any]


class Injection:
    """A handler with its plan. Nothing is looked up when it is called; only what must be closed costs a scope."""

    def __init__(
        self,
        function: Callable[..., Any],
        plan: Plan,
        decode: Decode | None,
        app: Publishing,
        resolver: Resolver | None,
    ) -> None:
        self._function = function
        self._decode = decode
        self._app = app
        self._resolver = resolver
        self._steps: tuple[Step, ...] = tuple(plan.steps)
        self._places = plan.places
        self._names = plan.names
        self._context = plan.context
        self._resolves = plan.resolves
        self._scoped = plan.closes or plan.resolves

    def call(self, *, blocking: bool) -> Call:
        """What the runtime calls: it returns the handler's coroutine, or for a plain function its result."""
        if blocking:
            return self._run_scoped if self._scoped else self._run
        return self._await_scoped if self._scoped else self._await

    # The four of them differ in what they await and close, and in nothing else.

    async def _await(self, delivery: Delivery, run: Run) -> Any:
        values = self._start(delivery, run)
        for step in self._steps:
            value = _make(step, values)
            values.append(await value if step.awaits else value)
        return await self._handle(values)

    def _run(self, delivery: Delivery, run: Run) -> Any:
        values = self._start(delivery, run)
        for step in self._steps:
            values.append(_make(step, values))
        return self._handle(values)

    async def _await_scoped(self, delivery: Delivery, run: Run) -> Any:
        values = self._start(delivery, run)
        failure: BaseException | None = None
        result: Any = None
        async with AsyncExitStack() as stack:
            if self._resolver is not None and self._resolves:
                values[SCOPE] = await stack.enter_async_context(self._resolver.scope(values[1]))
            for step in self._steps:
                if step.resolves is not None:
                    value = await values[SCOPE](step.resolves)
                elif step.closes:
                    manager = _make(step, values)
                    value = await stack.enter_async_context(manager) if step.awaits else stack.enter_context(manager)
                else:
                    value = _make(step, values)
                    if step.awaits:
                        value = await value
                values.append(value)
            try:
                result = await self._handle(values)
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            raise failure  # a provider may clean up after a failure, not make it undone
        return result

    def _run_scoped(self, delivery: Delivery, run: Run) -> Any:
        values = self._start(delivery, run)
        failure: BaseException | None = None
        result: Any = None
        with ExitStack() as stack:
            if self._resolver is not None and self._resolves:
                values[SCOPE] = stack.enter_context(self._resolver.scope_blocking(values[1]))
            for step in self._steps:
                if step.resolves is not None:
                    value = values[SCOPE](step.resolves)
                else:
                    value = _make(step, values)
                    if step.closes:
                        value = stack.enter_context(value)
                values.append(value)
            try:
                result = self._handle(values)
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            raise failure
        return result

    def _start(self, delivery: Delivery, run: Run) -> list[Any]:
        decode = self._decode
        if decode is None:
            return [None, Context(self._app, delivery, run) if self._context else None, None]
        payload = decode(delivery.payload, delivery.content_type)
        return [payload, Context(self._app, delivery, run, payload) if self._context else None, None]

    def _handle(self, values: list[Any]) -> Any:
        positional = [values[place] for place in self._places]
        if not self._names:
            return self._function(*positional)
        return self._function(*positional, **{name: values[place] for name, place in self._names})


def _make(step: Step, values: list[Any]) -> Any:
    if step.names:
        return step.make(
            *[values[place] for place in step.places], **{name: values[place] for name, place in step.names}
        )
    return step.make(*[values[place] for place in step.places])
