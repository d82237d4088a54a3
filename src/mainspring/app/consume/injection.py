"""Dependency injection: the order in which a handler's parameters are provided, compiled into one function."""

from __future__ import annotations

import contextlib
import inspect
import linecache
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, get_args

from mainspring.app.consume import parameters
from mainspring.app.consume.context import Context, Publishing
from mainspring.app.consume.parameters import Argument, Arguments, Depends, read
from mainspring.app.consume.resolvers import NonSuppressing, Resolver
from mainspring.app.functions import handler_name
from mainspring.model.errors import BadSignature
from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from mainspring.runtime.verdicts import refuse_unawaited
from mainspring.storage.codec import Decode

PAYLOAD, CONTEXT, SCOPE = 0, 1, 2
"""The first values of a dispatch: the decoded payload, the context, the resolver's scope."""

MOST_CLOSING = 16
"""How many values one dispatch may have to close: each is a nested block, and Python limits their depth."""


@dataclass(frozen=True, slots=True)
class Step:
    """One value to make, from values before it."""

    make: Callable[..., Any]
    """Makes the value, an awaitable of it, or with ``closes`` a context manager that gives it."""
    places: tuple[int, ...]
    names: tuple[tuple[str, int], ...]
    awaits: bool
    closes: bool
    resolves: Any = None
    """The annotation to get from the resolver instead."""


@dataclass(slots=True)
class Plan:
    """Every step, in the order of their dependencies, and the handler's arguments."""

    steps: list[Step] = field(default_factory=list)
    places: tuple[int, ...] = ()
    names: tuple[tuple[str, int], ...] = ()
    context: bool = False
    contexts: list[tuple[str, Any]] = field(default_factory=list)
    """What takes a context, and how it is annotated."""
    closes: bool = False
    resolves: bool = False


def plan(arguments: Arguments, *, blocking: bool, resolver: Resolver | None, handler: str) -> Plan:
    """Order the providers. Raises BadSignature naming the provider that cannot be served."""
    return _Planning(handler, resolver, blocking=blocking).plan(arguments)


class _Planning:
    def __init__(self, handler: str, resolver: Resolver | None, *, blocking: bool) -> None:
        self._handler = handler
        self._resolver = resolver
        self._blocking = blocking
        self._plan = Plan()
        self._made: dict[Any, int] = {}
        self._making: list[Any] = []

    def plan(self, arguments: Arguments) -> Plan:
        self._plan.places, self._plan.names = self._placed(arguments, self._handler)
        closing = sum(step.closes for step in self._plan.steps)
        if closing > MOST_CLOSING:
            raise BadSignature(
                f"{self._handler} has {closing} providers that yield, and {MOST_CLOSING} is the most: let one of them "
                "yield several things"
            )
        return self._plan

    def _placed(self, arguments: Arguments, asker: str) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
        positional = tuple(self._place(each, asker) for each in arguments if not each.by_name)
        return positional, tuple((each.name, self._place(each, asker)) for each in arguments if each.by_name)

    def _place(self, argument: Argument, asker: str) -> int:
        match argument.source:
            case "payload":
                return PAYLOAD
            case "context":
                self._plan.context = True
                self._plan.contexts.append((asker, argument.annotation))
                return CONTEXT
            case "resolver":
                return self._resolved(argument.annotation)
            case Depends() as wanted:
                return self._provided(wanted, argument, asker)

    def _resolved(self, annotation: Any) -> int:
        self._plan.resolves = self._plan.context = True
        if self._blocking and self._resolver is not None and not self._resolver.serves_functions:
            raise BadSignature(
                f"{self._handler} is a plain function, and the resolver is an async container: write `async def` for "
                "the handler, or give Mainspring(resolver=…) a container that blocks"
            )
        key = ("resolver", annotation if isinstance(annotation, Hashable) else id(annotation))
        if key not in self._made:
            step = Step(_never, (), (), awaits=not self._blocking, closes=False, resolves=annotation)
            self._made[key] = self._add(step)
        return self._made[key]

    def _provided(self, wanted: Depends, argument: Argument, asker: str) -> int:
        provider = wanted.provider or _self_made(argument, asker)
        key = _identity(provider)
        if wanted.cached and key in self._made:
            return self._made[key]
        name = handler_name(provider)
        if key in map(_identity, self._making):
            cycle = " → ".join(handler_name(each) for each in [*self._making, provider])
            raise BadSignature(f"the providers of {self._handler} form a cycle: {cycle}")
        awaits = parameters.is_async(provider)
        if awaits and self._blocking:
            raise BadSignature(
                f"{self._handler} is a plain function, and its provider {name} is async: write `async def` for the "
                "handler, or a plain provider"
            )
        self._making.append(provider)
        places, names = self._placed(read(provider, self._resolver, takes_payload=False, asker=asker), name)
        self._making.pop()
        closes = parameters.is_yielding(provider)
        step = Step(_managed(provider) if closes else provider, places, names, awaits, closes)
        self._plan.closes = self._plan.closes or closes
        place = self._add(step)
        if wanted.cached:
            self._made[key] = place
        return place

    def _add(self, step: Step) -> int:
        self._plan.steps.append(step)
        return SCOPE + len(self._plan.steps)


def _identity(provider: Any) -> Any:
    # By identity, not by equality. A method is a new object whenever it is looked up.
    if inspect.ismethod(provider):
        return id(provider.__self__), provider.__func__
    return id(provider)


def _self_made(argument: Argument, asker: str) -> Callable[..., Any]:
    kind = get_args(argument.annotation)[0]
    if not inspect.isclass(kind):
        raise BadSignature(
            f"parameter {argument.name!r} of {asker} has Depends() without a provider, and {kind!r} is no class that "
            "could make itself: write Depends(function)"
        )
    return kind


def _managed(provider: Any) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> NonSuppressing:
        made = provider(*args, **kwargs)
        # One that is decorated by contextlib gives a context manager already.
        if inspect.isgenerator(made):
            return NonSuppressing(contextlib.contextmanager(lambda: made)())
        return NonSuppressing(contextlib.asynccontextmanager(lambda: made)() if inspect.isasyncgen(made) else made)

    return made


def _never() -> None:
    raise AssertionError("the resolver makes this")


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
    """Compile the call, which returns the handler's coroutine, or for a plain function its result.

    Values are made in order before the handler and closed in reverse after it, however it ends. A provider may clean
    up after a failure, not suppress it.
    """
    text = "\n".join(_written(plan, decodes=decode is not None, blocking=blocking)) + "\n"
    place = f"<the call of {handler}>"
    world: dict[str, Any] = {"function": function, "decode": decode, "Context": made, "app": app}
    world |= {"Coroutine": CoroutineType, "refuse": refuse_unawaited}
    if resolver is not None:
        enter = resolver.scope_blocking if blocking else resolver.scope
        world["scope"] = lambda context: NonSuppressing(enter(context))
    for number, step in enumerate(plan.steps, _FIRST):
        world[f"make_{number}"] = step.make
        world[f"asked_{number}"] = step.resolves
        world[f"whose_{number}"] = (
            f"the provider {handler_name(step.make)}" if step.resolves is None else f"the resolver for {step.resolves}"
        )
    # Our own text: only the names of parameters come from outside, and they are identifiers.
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
        yield f"{indent}if type({value}) is Coroutine:"  # the provider's body has not run
        yield f"{indent}    refuse({value}, whose_{number})"
    yield f"{indent}return {wait}function({_arguments(plan.places, plan.names)})"


def _made(number: int, step: Step) -> str:
    return f"make_{number}({_arguments(step.places, step.names)})"


def _arguments(places: tuple[int, ...], names: tuple[tuple[str, int], ...]) -> str:
    return ", ".join([*map(_name, places), *(f"{name}={_name(place)}" for name, place in names)])


def _name(place: int) -> str:
    return _NAMES.get(place) or f"made_{place}"
