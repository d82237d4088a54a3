"""What fills the parameters of handlers and providers: ``Depends``, or a container (``resolver=``)."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace, TracebackType
from typing import Annotated, Any, Literal, Protocol, get_args, runtime_checkable

from mainspring.app.consume.context import BatchContext, Context
from mainspring.app.names import handler_name
from mainspring.model.errors import BadOption, BadSignature


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


Get = Callable[[Any], Awaitable[Any]]
"""Makes the value of an annotation, within one dispatch."""
GetBlocking = Callable[[Any], Any]


@runtime_checkable
class Resolver(Protocol):
    """A value of ``Mainspring(resolver=…)``, besides containers of dishka and wireup."""

    @property
    def serves_functions(self) -> bool:
        """Whether plain functions can be served too: they cannot await."""
        ...

    def marks(self, annotation: Any) -> bool:
        """Return whether an annotation is for this resolver, so that the parameter is not the payload."""
        ...

    def scope(self, ctx: Context) -> AbstractAsyncContextManager[Get]:
        """Open the scope of one async dispatch; closed after it."""
        ...

    def scope_blocking(self, ctx: Context) -> AbstractContextManager[GetBlocking]:
        """Open the scope of one blocking dispatch; closed after it."""
        ...


def read_resolver(given: Any) -> Resolver:
    """Return the given resolver, or one around the given container."""
    is_async = "Async" in type(given).__name__
    match _home(given):
        case "dishka" if callable(given):
            return Container(lambda ctx: given(context={Context: ctx}), _dishka, is_async=is_async)
        case "wireup" if hasattr(given, "enter_scope"):
            return Container(lambda ctx: given.enter_scope({Context: ctx}), _wireup, is_async=is_async)
    if isinstance(given, Resolver):
        return given
    raise BadOption(
        f"resolver={type(given).__module__}.{type(given).__qualname__} is not known: pass a dishka or wireup "
        "container, or an object that implements mainspring.Resolver"
    )


class Container:
    """A container of another library: every dispatch is a scope of its own, which provides ``Context``."""

    def __init__(self, enter: Callable[[Context], Any], mark: Mark, *, is_async: bool) -> None:
        self._enter = enter
        self._mark = mark
        self._is_async = is_async

    @property
    def serves_functions(self) -> bool:
        """See ``Resolver.serves_functions``."""
        return not self._is_async

    def marks(self, annotation: Any) -> bool:
        """See ``Resolver.marks``."""
        return any(self._mark(each) is not None for each in getattr(annotation, "__metadata__", ()))

    @asynccontextmanager
    async def scope(self, ctx: Context) -> AsyncIterator[Get]:
        """See ``Resolver.scope``. A container that blocks serves coroutines as well."""
        if self._is_async:
            async with self._enter(ctx) as inside:
                yield lambda annotation: inside.get(*self._requested(annotation))
        else:
            with self._enter(ctx) as inside:

                async def get(annotation: Any) -> Any:
                    return inside.get(*self._requested(annotation))

                yield get

    @contextmanager
    def scope_blocking(self, ctx: Context) -> Iterator[GetBlocking]:
        """See ``Resolver.scope_blocking``."""
        with self._enter(ctx) as inside:
            yield lambda annotation: inside.get(*self._requested(annotation))

    def _requested(self, annotation: Any) -> tuple[Any, ...]:
        for each in getattr(annotation, "__metadata__", ()):
            found = self._mark(each)
            if found is not None:
                return (get_args(annotation)[0], *found)
        return (annotation,)


Mark = Callable[[Any], tuple[Any, ...] | None]
"""From metadata of an annotation to what the container's ``get`` takes after the type; None: not its own."""


def _dishka(metadata: Any) -> tuple[Any, ...] | None:
    return (metadata.component,) if _home(metadata) == "dishka" and hasattr(metadata, "component") else None


def _wireup(metadata: Any) -> tuple[Any, ...] | None:
    # Where FastAPI is installed, wireup's mark is inside one of FastAPI's.
    inner = getattr(metadata, "dependency", None)
    mark = inner() if inner is not None and hasattr(inner, "__is_wireup_depends__") else metadata
    if _home(mark) != "wireup":
        return None
    # Its empty mark reports for any attribute that it is not set up.
    return (mark.qualifier if "qualifier" in dir(mark) else None,)


def _home(value: object) -> str:
    return type(value).__module__.partition(".")[0]


class NonSuppressing:
    """A context manager, blocking or async, that never suppresses an exception.

    A suppressed one would look like success, and an unhandled message would be lost.
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Any:
        """Enter."""
        return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave; an exception goes on."""
        self._inner.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Any:
        """Enter."""
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave; an exception goes on."""
        await self._inner.__aexit__(kind, error, traceback)


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


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def read_parameters(
    function: Callable[..., Any], resolver: Resolver | None = None, *, is_provider: bool = False
) -> Arguments:
    """Read the signature; raise BadSignature with what to change. A provider takes no payload."""
    name = handler_name(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        if is_provider and inspect.isclass(function):
            return ()  # a class written in C: it is called without arguments, and may raise for that
        raise BadSignature(f"{name} has no signature to read: wrap it in a function; {ACCEPTED}") from error
    read: list[Argument] = []
    skipped: str | None = None
    for parameter in signature.parameters.values():
        if parameter.kind in _VARIABLE:
            continue
        filled = _fill(parameter, read, function, name, resolver, is_provider=is_provider)
        if filled is None:
            skipped = parameter.name
        elif skipped is None or filled.by_name:
            read.append(filled)
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise BadSignature(f"{name} takes {parameter.name!r} after {skipped!r}, which keeps its default: swap them")
        else:
            read.append(replace(filled, by_name=True))
    if not is_provider:
        _refuse_variable(signature, read, name)
    return tuple(read)


def _refuse_variable(signature: inspect.Signature, read: list[Argument], name: str) -> None:
    """Raise BadSignature where ``*args`` or ``**kwargs`` is the only place for a payload, which would be lost."""
    variable = next((each for each in signature.parameters.values() if each.kind in _VARIABLE), None)
    if variable is not None and not any(each.source == "payload" for each in read):
        raise BadSignature(
            f"{name} takes `{variable}`, from which the payload's type cannot be read: write a first "
            "parameter, `order: OrderPlaced`; above a handler, a decorator needs functools.wraps"
        )


def _fill(
    parameter: inspect.Parameter,
    before: list[Argument],
    function: Callable[..., Any],
    owner: str,
    resolver: Resolver | None,
    *,
    is_provider: bool,
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
    if not is_provider and not by_name and not any(each.source == "payload" for each in before):
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
    if not is_provider:
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
    for world, closure in _places(function):
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


_Place = tuple[dict[str, Any], dict[str, Any]]
"""Where a name is looked up: the globals of a module, and what a closure reaches."""


def bare(function: Any) -> Any:
    """Return the function beneath all wrappers and partials."""
    inner = inspect.unwrap(function)
    return bare(inner.func) if isinstance(inner, functools.partial) else inner


def _places(function: Any) -> Iterator[_Place]:
    """Yield where its annotations may be written, the likeliest first."""
    inner = bare(function)
    if inspect.isclass(inner):
        yield from _places_of_class(inner)
    elif hasattr(inner, "__globals__"):
        yield inner.__globals__, dict(_reachable(inner))
    elif hasattr(call := inspect.unwrap(type(inner).__call__), "__globals__"):
        yield call.__globals__, dict(_reachable(call))


def _places_of_class(kind: type) -> Iterator[_Place]:
    # As inspect.signature looks for the constructor.
    makers: list[Any] = [vars(type(kind)).get("__call__")]
    makers += [vars(base).get(name) for base in kind.__mro__ for name in ("__new__", "__init__")]
    for maker in makers:
        function = inspect.unwrap(maker.__func__ if isinstance(maker, staticmethod) else maker)
        if hasattr(function, "__globals__"):
            yield function.__globals__, dict(_reachable(function))
    # A generated constructor, or one with fields of a parent, may be written in none of these.
    for base in kind.__mro__:
        if (module := sys.modules.get(base.__module__)) is not None:
            yield vars(module), {}


def _reachable(function: Any) -> Iterator[tuple[str, Any]]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
