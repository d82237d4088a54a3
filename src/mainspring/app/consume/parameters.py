"""The parameters of a handler or provider: what fills each of them, and ``Depends``."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from mainspring.app.consume.context import BatchContext, Context
from mainspring.app.consume.resolvers import Resolver
from mainspring.app.functions import bare, handler_name, places
from mainspring.model.errors import BadSignature


class Depends:
    """A parameter that a provider makes: ``db: Annotated[Database, Depends(database)]``.

    A provider is a plain or async function, one that yields once (what follows the yield runs after the handler), or a
    class; without one, the annotated class makes itself. It may take the ``Context`` and other providers. Its value
    is reused within the same dispatch; with ``cached=False`` every parameter gets its own.
    """

    __slots__ = ("cached", "provider")

    def __init__(self, provider: Callable[..., Any] | None = None, *, cached: bool = True) -> None:
        if provider is not None and not callable(provider):
            raise TypeError(f"Depends({provider!r}): a provider is a function or a class")
        self.provider: Callable[..., Any] | None = provider
        self.cached: bool = cached

    def __repr__(self) -> str:
        """Show it as written."""
        name = "" if self.provider is None else getattr(self.provider, "__qualname__", repr(self.provider))
        return f"Depends({name}{'' if self.cached else ', cached=False'})"


def marker(annotation: Any) -> Depends | None:
    """Return the ``Depends`` in an annotation, or None. The class itself stands for an empty one."""
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, Depends):
            return each
        if each is Depends:
            return Depends()
    return None


def is_async(provider: Any) -> bool:
    """Return whether the provider must be awaited."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    inner = bare(provider)
    return any(kind(each) for kind in kinds for each in (provider, inner, type(inner).__call__))


def is_yielding(provider: Any) -> bool:
    """Return whether the provider yields its value and cleans up after it."""
    inner = bare(provider)
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(each) for kind in kinds for each in (inner, type(inner).__call__))


UNTYPED = inspect.Parameter.empty
ACCEPTED = "a handler takes (payload), (payload, ctx), (ctx) or (), and Annotated[…, Depends(…)] besides"


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter and what fills it."""

    name: str
    by_name: bool
    source: Literal["payload", "context", "resolver"] | Depends
    annotation: Any = Any


Arguments = tuple[Argument, ...]


def read(
    function: Callable[..., Any],
    resolver: Resolver | None = None,
    *,
    takes_payload: bool = True,
    asker: str | None = None,
) -> Arguments:
    """Read the signature; raise BadSignature with what to change. ``asker`` takes what a provider makes."""
    name = handler_name(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        if asker is not None and inspect.isclass(function):
            return ()  # a class written in C: it is called without arguments, and may raise for that
        raise BadSignature(f"{name} has no signature to read: wrap it in a function; {ACCEPTED}") from error
    read: list[Argument] = []
    skipped: str | None = None
    for parameter in signature.parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        filled = _fill(parameter, read, function, name, resolver, takes_payload=takes_payload)
        if filled is None:
            skipped = parameter.name
        elif skipped is None or filled.by_name:
            read.append(filled)
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise BadSignature(f"{name} takes {parameter.name!r} after {skipped!r}, which keeps its default: swap them")
        else:
            read.append(replace(filled, by_name=True))
    return tuple(read)


def _fill(
    parameter: inspect.Parameter,
    before: list[Argument],
    function: Callable[..., Any],
    owner: str,
    resolver: Resolver | None,
    *,
    takes_payload: bool,
) -> Argument | None:
    name = parameter.name
    by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    annotation = resolve(parameter, function, owner)
    wanted = marker(annotation)
    if wanted is not None:
        return Argument(name, by_name, wanted, annotation)
    _refuse_lookalikes(parameter, annotation, owner, resolver)
    if resolver is not None and resolver.marks(annotation):
        return Argument(name, by_name, "resolver", annotation)
    if _is_context(name, annotation):
        first = next((each.name for each in before if each.source == "context"), None)
        if first is not None:
            raise BadSignature(f"{owner} asks for two contexts, {first!r} and {name!r}: keep one")
        return Argument(name, by_name, "context", annotation)
    optional = parameter.default is not UNTYPED
    if takes_payload and not by_name and not any(each.source == "payload" for each in before):
        if optional:
            raise BadSignature(
                f"parameter {name!r} of {owner} is in the payload's place and has a default: remove the default, "
                f"or put `*` before it if it is not the payload; {ACCEPTED}"
            )
        return Argument(name, by_name, "payload", annotation)
    if optional:
        return None
    if resolver is not None and annotation is not UNTYPED:
        return Argument(name, by_name, "resolver", annotation)
    if takes_payload:
        _refuse_displaced(name, function, owner)
        raise BadSignature(
            f"{owner} has a parameter {name!r} that nothing fills: give it a default or a provider; {ACCEPTED}"
        )
    raise BadSignature(
        f"the provider {owner} has a parameter {name!r} that nothing fills: give it a default, annotate it with "
        f"Context, or write `{name}: Annotated[…, Depends(provider)]`"
    )


def _refuse_lookalikes(parameter: inspect.Parameter, annotation: Any, owner: str, resolver: Resolver | None) -> None:
    if isinstance(parameter.default, Depends):
        raise BadSignature(
            f"parameter {parameter.name!r} of {owner} has {parameter.default!r} as its default: write "
            f"`{parameter.name}: Annotated[…, {parameter.default!r}]`, so that the function can still be called"
        )
    if resolver is not None and resolver.marks(annotation):
        return
    for each in (parameter.default, *getattr(annotation, "__metadata__", ())):
        if type(each).__name__ == "Depends" and type(each).__module__.partition(".")[0] in ("fastapi", "fast_depends"):
            raise BadSignature(
                f"parameter {parameter.name!r} of {owner} has another library's Depends: a consumer has no request to "
                "serve; write `from mainspring import Depends`"
            )


def _refuse_displaced(name: str, function: Callable[..., Any], owner: str) -> None:
    """Raise for a payload after a keyword of a partial: it is passed by name only."""
    inner = inspect.unwrap(function)
    if not isinstance(inner, functools.partial):
        return
    whole = inspect.signature(inner.func).parameters
    before = [each for each in whole if each in inner.keywords and list(whole).index(each) < list(whole).index(name)]
    if before and whole[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        raise BadSignature(
            f"{owner} binds {before[0]!r} by name, so {name!r} after it can be passed by name only, and a payload is "
            f"passed by position: bind {before[0]!r} by position, or put the payload first"
        )


def _is_context(name: str, annotation: Any) -> bool:
    if annotation is UNTYPED:
        return name == "ctx"
    lone = alone(annotation)
    return isinstance(lone, type) and issubclass(lone, Context | BatchContext)


def alone(annotation: Any) -> Any:
    """Return the type without metadata and ``None``."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return alone(parts[0])
    if origin in (typing.Union, types.UnionType):
        others = [each for each in parts if each is not types.NoneType]
        return alone(others[0]) if len(others) == 1 else annotation
    return annotation


def resolve(parameter: inspect.Parameter, function: Callable[..., Any], owner: str) -> Any:
    """Return the parameter's type; text is resolved where it was written."""
    written = parameter.annotation
    if written is UNTYPED:
        return written
    holder = SimpleNamespace(__annotations__={parameter.name: written})
    refusals: list[Exception] = []
    for world, closure in places(function):
        try:
            # By typing's own rules, one parameter at a time: a handler's return type does not matter.
            return typing.get_type_hints(holder, world, closure, include_extras=True)[parameter.name]
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            refusals.append(error)
    if not refusals and not isinstance(written, str):
        return written
    why = refusals[0] if refusals else "its module is unknown"
    raise BadSignature(
        f"the type {written!r} of parameter {parameter.name!r} of {owner} cannot be resolved ({why}): import or "
        "define it at module level, not under `if TYPE_CHECKING` and not inside a function"
    ) from next(iter(refusals), None)
