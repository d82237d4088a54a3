"""The signature of a handler, a function or a class: read once, when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, Unpack, get_args, get_origin

from mainspring.app.consume.context import Context, Publishing
from mainspring.app.consume.injection import Call, Plan, compile_plan, plan
from mainspring.app.consume.parameters import ACCEPTED, UNTYPED, Argument, Arguments, Depends, is_yielding
from mainspring.app.consume.parameters import read as read_parameters
from mainspring.app.consume.resolvers import Resolver
from mainspring.app.functions import bare, handler_name
from mainspring.app.message.envelope import SendOptions
from mainspring.model.errors import BadSignature, Misuse
from mainspring.model.message import Delivery, Receipt
from mainspring.runtime.handler import Run
from mainspring.storage.codec import Decode, decoder

__all__ = ["Call", "Shape", "compile_call", "handler_name", "is_async", "payload_decoder", "read"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A handler as it will be called: its parameters, its payload's type, and the plan for what else it needs."""

    function: Callable[..., Any]
    """What is called: the function itself, or a class's ``consume``."""
    arguments: Arguments = ()
    payload: str | None = None
    annotation: Any = Any
    context: str | None = None
    threaded: bool = False
    plan: Plan | None = None
    """None for handlers that need nothing but their message and context."""
    resolver: Resolver | None = None

    @property
    def context_first(self) -> bool:
        """Whether the context is before the payload."""
        return bool(self.arguments) and self.arguments[0].source == "context"

    @property
    def context_by_name(self) -> bool:
        """Whether the context must be named in the call."""
        return any(each.source == "context" and each.by_name for each in self.arguments)


def read(handler: Callable[..., Any], resolver: Resolver | None = None) -> Shape:
    """Read the signature; raise BadSignature with what to change."""
    name = handler_name(handler)
    if inspect.isclass(handler):
        function, arguments, message = _of_class(handler, resolver, name)
    else:
        function, message = handler, None
        _refuse_yielding(function, name)
        arguments = read_parameters(function, resolver)
    threaded = not is_async(function)
    payload = next((each for each in arguments if each.source == "payload"), None)
    context = next((each for each in arguments if each.source == "context"), None)
    simple = all(each.source in ("payload", "context") for each in arguments)
    return Shape(
        function=function,
        arguments=arguments,
        payload=message and "ctx.message" if payload is None else payload.name,
        annotation=_annotation(payload, message, name),
        context=None if context is None else context.name,
        threaded=threaded,
        plan=None if simple else plan(arguments, blocking=threaded, resolver=resolver, handler=handler_name(function)),
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


def compile_call(shape: Shape, decode: Decode | None, app: Publishing, made: Callable[..., Any] = Context) -> Call:
    """Compile the call from a delivery to the handler: nothing is looked up when it is called.

    For an ``async def`` the call returns its coroutine, for a plain function its result. ``made`` makes its context.
    """
    function = shape.function
    if shape.plan is not None:
        return compile_plan(
            function,
            shape.plan,
            decode,
            app,
            shape.resolver,
            blocking=shape.threaded,
            handler=handler_name(function),
            made=made,
        )
    if decode is None:
        return _without_payload(function, shape, app)
    if shape.context is None:
        return lambda delivery, _run: function(decode(delivery.payload, delivery.content_type))
    name = shape.context if shape.context_by_name else None
    context_first = shape.context_first

    def call(delivery: Delivery, run: Run) -> Any:
        value = decode(delivery.payload, delivery.content_type)
        context = made(app, delivery, run, value)
        if name is not None:
            return function(value, **{name: context})
        return function(context, value) if context_first else function(value, context)

    return call


def is_async(function: Any) -> bool:
    """Return whether calling it gives an awaitable. A wrapper that only passes a coroutine on counts, too."""
    inner = bare(function)
    return any(inspect.iscoroutinefunction(each) for each in (function, inner, type(inner).__call__))


def _without_payload(function: Callable[..., Any], shape: Shape, app: Publishing) -> Call:
    if shape.context is None:
        return lambda _delivery, _run: function()
    if shape.context_by_name:
        name = shape.context
        return lambda delivery, run: function(**{name: Context(app, delivery, run)})
    return lambda delivery, run: function(Context(app, delivery, run))


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
    if not callable(function):
        raise BadSignature(f"{name} cannot be called; {ACCEPTED}")


T = TypeVar("T")


class Sender(Protocol):
    """A sender to a registered class."""

    @property
    def sync(self) -> SyncSender:
        """The same for blocking callers."""
        ...

    async def send(self, payload: object, **options: Unpack[SendOptions]) -> Receipt:
        """Publish to this consumer only."""
        ...


class SyncSender(Protocol):
    """A sender to a registered class, for blocking callers."""

    def send(self, payload: object, **options: Unpack[SendOptions]) -> Receipt:
        """Publish to this consumer only."""
        ...


class Consumer(Generic[T]):
    """The base of consumers that are classes, of messages of type ``T``.

    A subclass has a method ``consume``, plain or async, which takes what a handler function may take. Without a
    payload among its parameters, ``ctx.message`` is the message. An instance is made for every message; what its
    constructor takes is injected.
    """

    mainspring: ClassVar[Sender | None] = None
    """Set by ``@app.consumer(…)`` above the class."""

    @classmethod
    async def send(cls, payload: T, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message straight to this consumer; options as ``app.publish``."""
        return await sender_of(cls).send(payload, **options)

    @classmethod
    def send_blocking(cls, payload: T, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message straight to this consumer, and wait until it is stored; options as ``app.sync.publish``."""
        return sender_of(cls).sync.send(payload, **options)


def sender_of(kind: type[Consumer[Any]]) -> Sender:
    """Return the sender to the class; raise Misuse if it has none."""
    sender = kind.__dict__.get("mainspring")
    if sender is None:
        raise Misuse(f"{kind.__qualname__} is not registered: put @app.consumer(…) above it")
    found: Sender = sender
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
