"""Calling a handler with what it needs: the plan written out as a function, once, and compiled."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from types import CoroutineType
from typing import Any

from mainspring.app.context import Context, Publishing
from mainspring.app.firm import Firm
from mainspring.app.functions import handler_name
from mainspring.app.plan import CONTEXT, PAYLOAD, SCOPE, Plan, Step
from mainspring.app.resolvers import Resolver
from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from mainspring.runtime.judgement import refuse_unawaited
from mainspring.storage.codec import Decode

Call = Callable[[Delivery, Run], Any]

_FIRST = SCOPE + 1
_NAMES = {PAYLOAD: "message", CONTEXT: "context"}


def compile_plan(
    function: Callable[..., Any],
    plan: Plan,
    decode: Decode | None,
    app: Publishing,
    resolver: Resolver | None,
    *,
    blocking: bool,
    handler: str,
    made: Callable[..., Any] = Context,
) -> Call:
    """What the runtime calls: it returns the handler's coroutine, or for a plain function its result.

    It is made in order before the handler and closed in reverse after it, when the handler has returned or raised. A
    provider may clean up after a failure, not make it undone.
    """
    text = "\n".join(_written(plan, decodes=decode is not None, blocking=blocking)) + "\n"
    place = f"<the call of {handler}>"
    world: dict[str, Any] = {"function": function, "decode": decode, "Context": made, "app": app}
    world |= {"Coroutine": CoroutineType, "refuse": refuse_unawaited}
    if resolver is not None:
        enter = resolver.scope_blocking if blocking else resolver.scope
        world["scope"] = lambda context: Firm(enter(context))
    for number, step in enumerate(plan.steps, _FIRST):
        world[f"make_{number}"] = step.make
        world[f"asked_{number}"] = step.resolves
        world[f"whose_{number}"] = (
            f"the provider {handler_name(step.make)}" if step.resolves is None else f"the resolver for {step.resolves}"
        )
    # Our own text: nothing in it comes from outside but the names of parameters, which are names.
    exec(compile(text, place, "exec"), world)  # noqa: S102
    # So that a traceback shows the line.
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    call: Call = world["call"]
    return call


def _written(plan: Plan, *, decodes: bool, blocking: bool) -> Iterator[str]:
    wait, define = ("", "def") if blocking else ("await ", "async def")
    yield f"{define} call(delivery, run):"
    indent = "    "
    if decodes:
        yield f"{indent}message = decode(delivery.payload, delivery.content_type)"
    if plan.context:
        yield f"{indent}context = Context(app, delivery, run{', message' if decodes else ''})"
    if plan.resolves:
        yield f"{indent}{'with' if blocking else 'async with'} scope(context) as get:"
        indent += "    "
    for number, step in enumerate(plan.steps, _FIRST):
        value = _name(number)
        if step.closes:
            yield f"{indent}{'async with' if step.awaits else 'with'} {_made(number, step)} as {value}:"
            indent += "    "
            continue
        if step.resolves is not None:
            yield f"{indent}{value} = {wait}get(asked_{number})"
        else:
            yield f"{indent}{value} = {'await ' if step.awaits else ''}{_made(number, step)}"
        yield f"{indent}if type({value}) is Coroutine:"  # what was to check or to make something has not run
        yield f"{indent}    refuse({value}, whose_{number})"
    yield f"{indent}return {wait}function({_arguments(plan.places, plan.names)})"


def _made(number: int, step: Step) -> str:
    return f"make_{number}({_arguments(step.places, step.names)})"


def _arguments(places: tuple[int, ...], names: tuple[tuple[str, int], ...]) -> str:
    return ", ".join([*map(_name, places), *(f"{name}={_name(place)}" for name, place in names)])


def _name(place: int) -> str:
    return _NAMES.get(place) or f"made_{place}"
