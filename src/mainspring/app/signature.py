"""What a handler asks for, read from its signature once, when it is registered."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mainspring.app.context import Context, Publishing
from mainspring.model.errors import BadSignature
from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from mainspring.storage.codec import Decode, decoder

_ACCEPTED = "a handler takes (payload), (payload, ctx), (ctx) or ()"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_UNTYPED = inspect.Parameter.empty

Call = Callable[[Delivery, Run], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A handler's parameters: which one is the payload, of what type, and which one the context."""

    payload: str | None = None
    annotation: Any = Any
    context: str | None = None
    context_first: bool = False
    context_by_name: bool = False


def handler_name(function: Callable[..., Any]) -> str:
    """The handler as people and the registry know it: module and qualified name."""
    inner = inspect.unwrap(function)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', '')}.{name}"


def read(function: Callable[..., Any]) -> Shape:
    """Read the signature; raises BadSignature saying what to change."""
    name = handler_name(function)
    if inspect.isclass(function):
        raise BadSignature(f"{name} is a class: a consumer is a function, `def` or `async def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadSignature(f"{name} yields: a handler returns its outcome, so write `return` instead of `yield`")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise BadSignature(f"{name} has no signature to read: wrap it in a function; {_ACCEPTED}") from error
    shape = Shape()
    for parameter in signature.parameters.values():
        shape = _place(parameter, shape, function, name)
    return shape


def payload_decoder(function: Callable[..., Any], shape: Shape) -> Decode | None:
    """What reads this handler's payloads, built once; None for a handler that takes none."""
    if shape.payload is None:
        return None
    try:
        return decoder(shape.annotation)
    except BadSignature as error:
        raise BadSignature(f"parameter {shape.payload!r} of {handler_name(function)}: {error}") from error


def compile_call(function: Callable[..., Any], shape: Shape, decode: Decode | None, app: Publishing) -> Call:
    """The shortest way from a delivery to the handler: nothing is looked up when it is called.

    For an ``async def`` the call returns its coroutine, for a plain function its result.
    """
    if decode is None:
        return _without_payload(function, shape, app)
    if shape.context is None:
        return lambda delivery, _run: function(decode(delivery.payload, delivery.content_type))
    if shape.context_by_name:
        name = shape.context

        def by_name(delivery: Delivery, run: Run) -> Any:
            value = decode(delivery.payload, delivery.content_type)
            return function(value, **{name: Context(app, delivery, run)})

        return by_name
    if shape.context_first:
        return lambda delivery, run: function(
            Context(app, delivery, run), decode(delivery.payload, delivery.content_type)
        )
    return lambda delivery, run: function(decode(delivery.payload, delivery.content_type), Context(app, delivery, run))


def _without_payload(function: Callable[..., Any], shape: Shape, app: Publishing) -> Call:
    if shape.context is None:
        return lambda _delivery, _run: function()
    if shape.context_by_name:
        name = shape.context
        return lambda delivery, run: function(**{name: Context(app, delivery, run)})
    return lambda delivery, run: function(Context(app, delivery, run))


def _place(parameter: inspect.Parameter, shape: Shape, function: Callable[..., Any], handler: str) -> Shape:
    name = parameter.name
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return shape
    by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    annotation = _resolve(parameter, function, handler)
    if _is_context(name, annotation):
        if shape.context is not None:
            raise BadSignature(f"{handler} asks for two contexts, {shape.context!r} and {name!r}: keep one")
        return _with(shape, context=name, context_first=shape.payload is None, context_by_name=by_name)
    optional = parameter.default is not _UNTYPED
    if not by_name and shape.payload is None:
        if optional:
            raise BadSignature(
                f"parameter {name!r} of {handler} stands where the payload does and has a default: remove the default, "
                f"or put `*` before it if it is not the payload; {_ACCEPTED}"
            )
        return _with(shape, payload=name, annotation=Any if annotation is _UNTYPED else annotation)
    if optional:
        return shape
    raise BadSignature(f"{handler} has a parameter {name!r} that nothing fills: give it a default; {_ACCEPTED}")


def _with(shape: Shape, **changes: Any) -> Shape:
    values = {name: getattr(shape, name) for name in Shape.__dataclass_fields__}
    return Shape(**(values | changes))


def _is_context(name: str, annotation: Any) -> bool:
    if annotation is _UNTYPED:
        return name == "ctx"
    return isinstance(annotation, type) and issubclass(annotation, Context)


def _resolve(parameter: inspect.Parameter, function: Callable[..., Any], handler: str) -> Any:
    written = parameter.annotation
    if written is _UNTYPED:
        return written
    inner = inspect.unwrap(function)
    holder = SimpleNamespace(__annotations__={parameter.name: written})
    names = dict(_reachable(inner))
    try:
        # By typing's own rules, one parameter at a time: what a handler returns is nobody's business here.
        hints = typing.get_type_hints(holder, getattr(inner, "__globals__", {}), names, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise BadSignature(
            f"the type {written!r} of parameter {parameter.name!r} of {handler} cannot be resolved ({error}): import "
            "or define it at module level, not under `if TYPE_CHECKING` and not inside a function"
        ) from error
    return hints[parameter.name]


def _reachable(function: Any) -> Iterator[tuple[str, Any]]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
