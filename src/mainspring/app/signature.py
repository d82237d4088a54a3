"""What a handler asks for, read from its signature once, when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mainspring.app.classes import Consumer, message_of
from mainspring.app.context import Context, Publishing
from mainspring.app.depends import Depends, is_yielding
from mainspring.app.functions import bare, handler_name
from mainspring.app.injection import Call, compile_plan
from mainspring.app.parameters import ACCEPTED, UNTYPED, Argument, Arguments
from mainspring.app.parameters import read as read_parameters
from mainspring.app.plan import Plan, plan
from mainspring.app.resolvers import Resolver
from mainspring.model.errors import BadSignature
from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from mainspring.storage.codec import Decode, decoder

__all__ = ["Call", "Shape", "compile_call", "handler_name", "is_async", "payload_decoder", "read"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A handler as it will be called: its parameters, its payload's type, and the plan for what else it needs."""

    function: Callable[..., Any]
    """What is called in the end: the function itself, or a class's ``consume``."""
    arguments: Arguments = ()
    payload: str | None = None
    annotation: Any = Any
    context: str | None = None
    threaded: bool = False
    plan: Plan | None = None
    """None for handlers that need nothing but their message and context: they pay for nothing."""
    resolver: Resolver | None = None

    @property
    def context_first(self) -> bool:
        """Whether the context stands before the payload."""
        return bool(self.arguments) and self.arguments[0].source == "context"

    @property
    def context_by_name(self) -> bool:
        """Whether the context must be named in the call."""
        return any(each.source == "context" and each.by_name for each in self.arguments)


def read(handler: Callable[..., Any], resolver: Resolver | None = None) -> Shape:
    """Read the signature; raises BadSignature saying what to change."""
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
    """What reads this handler's payloads, built once by ``decoder``; None for a handler that takes none."""
    if shape.payload is None:
        return None
    try:
        return decoder(shape.annotation)
    except BadSignature as error:
        raise BadSignature(f"parameter {shape.payload!r} of {handler_name(shape.function)}: {error}") from error


def compile_call(shape: Shape, decode: Decode | None, app: Publishing, made: Callable[..., Any] = Context) -> Call:
    """The shortest way from a delivery to the handler: nothing is looked up when it is called.

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
    """Whether calling it gives something to await. A wrapper that only passes a coroutine on counts as well."""
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
    # To the method its instance is one more thing that is made for every dispatch.
    instance = Argument("self", by_name=False, source=Depends(kind, cached=False), annotation=kind)
    return function, (instance, *arguments), message_of(kind)


def _annotation(payload: Argument | None, message: Any, name: str) -> Any:
    """What the message is read as: what its parameter says, or else ``Consumer[T]``."""
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
