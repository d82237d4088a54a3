"""The signature of a handler, a function or a class: read once, when it is registered, and compiled into one call."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack, get_args, get_origin

from mainspring.app.consume.context import Context, Publishing
from mainspring.app.consume.injection import (
    UNTYPED,
    Argument,
    Arguments,
    Depends,
    NonSuppressing,
    Resolver,
    is_async,
    is_yielding,
    read_parameters,
)
from mainspring.app.message.envelope import SendOptions
from mainspring.app.names import handler_name
from mainspring.model.errors import BadSignature, Misuse
from mainspring.model.message import Delivery, Receipt
from mainspring.runtime.handler import Run
from mainspring.runtime.verdicts import refuse_unawaited
from mainspring.storage.codec import Decode, decoder

if TYPE_CHECKING:
    from mainspring.app.consume.consumer import ClassSender

Call = Callable[[Delivery, Run], Any]
_FOLDER = str(Path(__file__).parent) + os.sep


@dataclass(frozen=True, slots=True)
class Shape:
    """A handler as it will be called: its parameters, its payload's type, and how the values it needs are made."""

    function: Callable[..., Any]
    """What is called: the function itself, or a class's ``consume``."""
    arguments: Arguments
    payload: str | None
    annotation: Any
    threaded: bool
    plan: Plan
    resolver: Resolver | None = None


def read(handler: Callable[..., Any], resolver: Resolver | None = None) -> Shape:
    """Read the signature; raise BadSignature with what to change."""
    name = handler_name(handler)
    if inspect.isclass(handler):
        function, arguments, message = _of_class(handler, resolver, name)
    else:
        function, message = handler, None
        _refuse_yielding(function, name)
        _refuse_method(function, name)
        arguments = read_parameters(function, resolver)
    threaded = not is_async(function)
    payload = next((each for each in arguments if each.source == "payload"), None)
    return Shape(
        function=function,
        arguments=arguments,
        payload=message and "ctx.message" if payload is None else payload.name,
        annotation=_annotation(payload, message, name),
        threaded=threaded,
        plan=Plan(handler_name(function), arguments, resolver, blocking=threaded),
        resolver=resolver,
    )


def payload_decoder(shape: Shape, decoder: Callable[[Any], Decode] = decoder) -> Decode | None:
    """Return the decoder of this handler's payloads, made by ``decoder``; None if it takes none."""
    if shape.payload is None:
        return None
    try:
        return decoder(shape.annotation)
    except BadSignature as error:
        raise BadSignature(f"parameter {shape.payload!r} of {handler_name(shape.function)}: {error}") from error


def _of_class(kind: type, resolver: Resolver | None, name: str) -> tuple[Callable[..., Any], Arguments, Any]:
    function = getattr(kind, "consume", None)
    if not issubclass(kind, Consumer) or not inspect.isfunction(function):
        raise BadSignature(
            f"{name} is a class: write `class {kind.__name__}(Consumer[YourMessage])` with a method "
            "`async def consume(self, message, ctx)`, or a function"
        )
    _refuse_yielding(function, f"{name}.consume")
    arguments = read_parameters(function.__get__(object()), resolver)
    # To the method its instance is one more value that is made for every dispatch.
    instance = Argument("self", by_name=False, source=Depends(kind, cached=False), annotation=kind)
    return function, (instance, *arguments), message_of(kind)


def _annotation(payload: Argument | None, message: Any, name: str) -> Any:
    """Return the message's type: its parameter's, or else of ``Consumer[T]``."""
    written = None if payload is None else payload.annotation
    if isinstance(written, TypeVar):
        if message is None:
            raise BadSignature(f"{name} leaves open what {written} is: write Consumer[YourMessage]")
        return message
    return message or Any if written is None or written is UNTYPED else written


def _refuse_yielding(function: Any, name: str) -> None:
    if is_yielding(function):
        raise BadSignature(f"{name} yields: a handler returns its outcome, so write `return` instead of `yield`")


def _refuse_method(function: Any, name: str) -> None:
    """Raise BadSignature for a function of a class: it is registered before there is an object to call it on."""
    if not inspect.isfunction(function) or next(iter(inspect.signature(function).parameters), "") != "self":
        return
    owner, _, own = function.__qualname__.rpartition(".")
    if not owner or owner.endswith("<locals>"):
        raise BadSignature(
            f"{name} takes 'self' and is no method: remove it; a parameter `ctx: Context` is the context"
        )
    raise BadSignature(
        f"{name} is a method, registered before there is an object to call it on: register the method of an object, "
        f"app.consumer(…)({owner.rpartition('.')[2].lower()}.{own}), or write `class {owner.rpartition('.')[2]}"
        "(Consumer[YourMessage])` with a method `async def consume(self, message, ctx)`"
    )


PAYLOAD, CONTEXT, SCOPE = 0, 1, 2
"""The first values of a dispatch: the decoded payload, the context, the resolver's scope."""
_FIRST = SCOPE + 1
_NAMES = {PAYLOAD: "message", CONTEXT: "context"}

MOST_CLOSING = 16
"""How many values one dispatch may have to close: each is a nested block, and Python limits their depth."""

_Places = tuple[tuple[int, ...], tuple[tuple[str, int], ...]]
"""The values that a call is given, by position and by name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One value to make, from values before it."""

    make: Any
    """Makes the value, an awaitable of it, or with ``closes`` a context manager that gives it; with ``resolved`` the
    annotation that the resolver makes."""
    takes: _Places
    awaits: bool
    closes: bool = False
    resolved: bool = False


class Plan:
    """Every value that a handler needs, in the order of their dependencies, and the handler's arguments.

    Raises BadSignature naming the provider that cannot be served.
    """

    def __init__(self, handler: str, arguments: Arguments, resolver: Resolver | None, *, blocking: bool) -> None:
        self._handler = handler
        self._resolver = resolver
        self._blocking = blocking
        self._made: dict[Any, int] = {}
        self._making: list[Any] = []
        self.steps: list[Step] = []
        self.contexts: list[tuple[str, Any]] = []
        """What takes a context, and how it is annotated."""
        self.takes: _Places = self._placed(arguments, handler)
        closing = sum(step.closes for step in self.steps)
        if closing > MOST_CLOSING:
            raise BadSignature(
                f"{handler} has {closing} providers that yield, and {MOST_CLOSING} is the most: let one of them "
                "yield several things"
            )

    @property
    def resolves(self) -> bool:
        """Whether the resolver makes any of the values."""
        return any(step.resolved for step in self.steps)

    def _placed(self, arguments: Arguments, taker: str) -> _Places:
        positional = tuple(self._place(each, taker) for each in arguments if not each.by_name)
        return positional, tuple((each.name, self._place(each, taker)) for each in arguments if each.by_name)

    def _place(self, argument: Argument, taker: str) -> int:
        match argument.source:
            case "payload":
                return PAYLOAD
            case "context":
                self.contexts.append((taker, argument.annotation))
                return CONTEXT
            case "resolver":
                return self._resolved(argument.annotation)
            case Depends() as wanted:
                return self._provided(wanted, argument, taker)

    def _resolved(self, annotation: Any) -> int:
        if self._blocking and self._resolver is not None and not self._resolver.serves_functions:
            raise BadSignature(
                f"{self._handler} is a plain function, and the resolver is an async container: write `async def` for "
                "the handler, or give Mainspring(resolver=…) a container that blocks"
            )
        key = ("resolver", annotation if isinstance(annotation, Hashable) else id(annotation))
        if key not in self._made:
            self._made[key] = self._add(Step(annotation, ((), ()), awaits=not self._blocking, resolved=True))
        return self._made[key]

    def _provided(self, wanted: Depends, argument: Argument, taker: str) -> int:
        provider = wanted.provider or _self_made(argument, taker)
        key = _identity(provider)
        if wanted.cached and key in self._made:
            return self._made[key]
        name = handler_name(provider)
        if key in map(_identity, self._making):
            cycle = " → ".join(handler_name(each) for each in [*self._making, provider])
            raise BadSignature(f"the providers of {self._handler} form a cycle: {cycle}")
        awaits, closes = is_async(provider), is_yielding(provider)
        if awaits and self._blocking:
            raise BadSignature(
                f"{self._handler} is a plain function, and its provider {name} is async: write `async def` for the "
                "handler, or a plain provider"
            )
        self._making.append(provider)
        takes = self._placed(read_parameters(provider, self._resolver, is_provider=True), name)
        self._making.pop()
        place = self._add(Step(_managed(provider) if closes else provider, takes, awaits, closes))
        if wanted.cached:
            self._made[key] = place
        return place

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return SCOPE + len(self.steps)


def _identity(provider: Any) -> Any:
    # By identity, not by equality. A method is a new object whenever it is looked up.
    if inspect.ismethod(provider):
        return id(provider.__self__), provider.__func__
    return id(provider)


def _self_made(argument: Argument, taker: str) -> Callable[..., Any]:
    kind = get_args(argument.annotation)[0]
    if not inspect.isclass(kind):
        raise BadSignature(
            f"parameter {argument.name!r} of {taker} has Depends() without a provider, and {kind!r} is no class that "
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


def compile_call(shape: Shape, decode: Decode | None, app: Publishing, made: Callable[..., Any] = Context) -> Call:
    """Compile the call from a delivery to the handler: nothing is looked up when it is called.

    For an ``async def`` the call returns its coroutine, for a plain function its result. ``made`` makes its context.
    Values are made in order before the handler and closed in reverse after it, however it ends. A provider may clean
    up after a failure, not suppress it.
    """
    text = "\n".join(_written(shape, decodes=decode is not None)) + "\n"
    # Below the package: failures are shown from the user's first frame on.
    place = f"{_FOLDER}<the call of {handler_name(shape.function)}>"
    world: dict[str, Any] = {"function": shape.function, "decode": decode, "Context": made, "app": app}
    world |= {"Coroutine": CoroutineType, "refuse": refuse_unawaited}
    if (resolver := shape.resolver) is not None:
        enter = resolver.scope_blocking if shape.threaded else resolver.scope
        world["scope"] = lambda context: NonSuppressing(enter(context))
    for number, step in enumerate(shape.plan.steps, _FIRST):
        world[f"make_{number}"] = step.make
        world[f"whose_{number}"] = (
            f"the resolver for {step.make}" if step.resolved else f"the provider {handler_name(step.make)}"
        )
    # Our own text: only the names of parameters come from outside, and they are identifiers.
    exec(compile(text, place, "exec"), world)  # noqa: S102
    # So that a traceback shows the line.
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    call: Call = world["call"]
    return call


def _written(shape: Shape, *, decodes: bool) -> Iterator[str]:
    plan = shape.plan
    # Without values to make there is nothing to await: the handler's own coroutine is returned.
    wait, define = ("await ", "async def") if plan.steps and not shape.threaded else ("", "def")
    yield f"{define} call(delivery, run):"
    indent = "    "
    if decodes:
        yield f"{indent}message = decode(delivery.payload, delivery.content_type)"
    if plan.contexts or plan.resolves:
        yield f"{indent}context = Context(app, delivery, run{', message' if decodes else ''})"
    if plan.resolves:
        yield f"{indent}{'with' if shape.threaded else 'async with'} scope(context) as get:"
        indent += "    "
    for number, step in enumerate(plan.steps, _FIRST):
        value = _name(number)
        make = f"get(make_{number})" if step.resolved else f"make_{number}({_arguments(step.takes)})"
        if step.closes:
            yield f"{indent}{'async with' if step.awaits else 'with'} {make} as {value}:"
            indent += "    "
            continue
        yield f"{indent}{value} = {'await ' if step.awaits else ''}{make}"
        yield f"{indent}if type({value}) is Coroutine:"  # the provider's body has not run
        yield f"{indent}    refuse({value}, whose_{number})"
    yield f"{indent}return {wait}function({_arguments(plan.takes)})"


def _arguments(takes: _Places) -> str:
    places, names = takes
    return ", ".join([*map(_name, places), *(f"{name}={_name(place)}" for name, place in names)])


def _name(place: int) -> str:
    return _NAMES.get(place) or f"made_{place}"


T = TypeVar("T")


class Consumer(Generic[T]):
    """The base of consumers that are classes, of messages of type ``T``.

    A subclass has a method ``consume``, plain or async, which takes what a handler function may take. Without a
    payload among its parameters, ``ctx.message`` is the message. An instance is made for every message; what its
    constructor takes is injected.
    """

    mainspring: ClassVar[ClassSender | None] = None
    """Set by ``@app.consumer(…)`` above the class."""

    @classmethod
    async def send(cls, payload: T, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message straight to this consumer; options as ``app.publish``."""
        return await sender_of(cls).send(payload, **options)

    @classmethod
    def send_blocking(cls, payload: T, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message straight to this consumer, and wait until it is stored; options as ``app.sync.publish``."""
        return sender_of(cls).sync.send(payload, **options)


def sender_of(kind: type[Consumer[Any]]) -> ClassSender:
    """Return the sender to the class; raise Misuse if it has none."""
    sender = kind.__dict__.get("mainspring")
    if sender is None:
        raise Misuse(f"{kind.__qualname__} is not registered: put @app.consumer(…) above it")
    found: ClassSender = sender
    return found


def message_of(kind: type) -> Any:
    """Return the ``T`` of ``Consumer[T]``; None if it is left open."""
    found = _message_of(kind)
    return None if isinstance(found, TypeVar) else found


def _message_of(kind: type) -> Any:
    for parent in getattr(kind, "__orig_bases__", ()):
        origin, given = get_origin(parent), get_args(parent)
        if origin is Consumer:
            return given[0]
        if isinstance(origin, type) and issubclass(origin, Consumer):
            inner = _message_of(origin)
            open_ones: tuple[Any, ...] = getattr(origin, "__parameters__", ())
            return given[open_ones.index(inner)] if inner in open_ones else inner
    return next((found for parent in kind.__bases__ if (found := _message_of(parent)) is not None), None)
