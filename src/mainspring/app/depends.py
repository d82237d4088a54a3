"""``Depends``: how a handler says what it needs besides its message."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mainspring.app.functions import bare


class Depends:
    """Marks a parameter as made by a provider: ``db: Annotated[Database, Depends(database)]``.

    A provider is a plain or async function, one that yields once (what follows the yield runs after the handler), or a
    class; without one, the annotated class makes itself. It may ask for the ``Context`` and for other providers. What
    it made is used again within the same dispatch; with ``cached=False`` every parameter gets its own.
    """

    __slots__ = ("cached", "provider")

    def __init__(self, provider: Callable[..., Any] | None = None, *, cached: bool = True) -> None:
        if provider is not None and not callable(provider):
            raise TypeError(f"Depends({provider!r}): a provider is a function or a class")
        self.provider: Callable[..., Any] | None = provider
        self.cached: bool = cached

    def __repr__(self) -> str:
        """As it was written."""
        name = "" if self.provider is None else getattr(self.provider, "__qualname__", repr(self.provider))
        return f"Depends({name}{'' if self.cached else ', cached=False'})"


def marker(annotation: Any) -> Depends | None:
    """The ``Depends`` in an annotation, None when there is none. The class itself stands for an empty one."""
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, Depends):
            return each
        if each is Depends:
            return Depends()
    return None


def is_async(provider: Any) -> bool:
    """Whether the provider must be awaited, by a handler that can."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    inner = bare(provider)
    return any(kind(each) for kind in kinds for each in (provider, inner, type(inner).__call__))


def is_yielding(provider: Any) -> bool:
    """Whether the provider yields what it makes, and cleans up afterwards."""
    inner = bare(provider)
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(each) for kind in kinds for each in (inner, type(inner).__call__))
