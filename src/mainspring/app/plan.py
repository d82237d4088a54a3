"""What a handler's parameters need, worked out once at registration: an order in which everything can be made."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, get_args

from mainspring.app import depends
from mainspring.app.depends import Depends
from mainspring.app.firm import Firm
from mainspring.app.functions import handler_name
from mainspring.app.parameters import Argument, Arguments, read
from mainspring.app.resolvers import Resolver
from mainspring.model.errors import BadSignature

PAYLOAD, CONTEXT, SCOPE = 0, 1, 2
"""The first places of what a dispatch has made: the decoded payload, the context, the resolver's scope."""

MOST_CLOSING = 16
"""How many things one dispatch may have to close: each is a block in a block, and Python limits their depth."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to make, from things made before it."""

    make: Callable[..., Any]
    """Makes the value, an awaitable of it, or with ``closes`` a context manager that gives it."""
    places: tuple[int, ...]
    names: tuple[tuple[str, int], ...]
    awaits: bool
    closes: bool
    resolves: Any = None
    """The annotation that the resolver is asked for instead."""


@dataclass(slots=True)
class Plan:
    """Every step, in an order in which each has what it needs, and what the handler is called with."""

    steps: list[Step] = field(default_factory=list)
    places: tuple[int, ...] = ()
    names: tuple[tuple[str, int], ...] = ()
    context: bool = False
    contexts: list[tuple[str, Any]] = field(default_factory=list)
    """Who asks for a context, and what it is annotated with."""
    closes: bool = False
    resolves: bool = False


def plan(arguments: Arguments, *, blocking: bool, resolver: Resolver | None, handler: str) -> Plan:
    """Order what the arguments need. Raises BadSignature naming the provider that cannot be served."""
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
            circle = " → ".join(handler_name(each) for each in [*self._making, provider])
            raise BadSignature(f"the providers of {self._handler} go round in a circle: {circle}")
        awaits = depends.is_async(provider)
        if awaits and self._blocking:
            raise BadSignature(
                f"{self._handler} is a plain function, and its provider {name} is async: write `async def` for the "
                "handler, or a plain provider"
            )
        self._making.append(provider)
        places, names = self._placed(read(provider, self._resolver, takes_payload=False, asker=asker), name)
        self._making.pop()
        closes = depends.is_yielding(provider)
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
    # By what it is, not by what it equals. A method is a new object whenever it is looked up.
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
    def made(*args: Any, **kwargs: Any) -> Firm:
        made = provider(*args, **kwargs)
        # One that is decorated by contextlib gives a context manager already.
        if inspect.isgenerator(made):
            return Firm(contextlib.contextmanager(lambda: made)())
        return Firm(contextlib.asynccontextmanager(lambda: made)() if inspect.isasyncgen(made) else made)

    return made


def _never() -> None:
    raise AssertionError("the resolver makes this")
