"""``resolver=``: a handler's dependencies from a container that the application already has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Protocol, get_args, runtime_checkable

from mainspring.app.consume.context import Context
from mainspring.model.errors import BadOption

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
