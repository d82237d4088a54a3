"""Registered functions: their names, where they are written, and whether one is a reload of another."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any

Place = tuple[dict[str, Any], dict[str, Any]]
"""Where a name is looked up: the globals of a module, and what a closure reaches."""


def handler_name(function: Any) -> str:
    """Return the name of a handler, provider or upcaster: module and qualified name."""
    inner = inspect.unwrap(function)
    if isinstance(inner, functools.partial):
        return f"functools.partial({handler_name(inner.func)})"
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', '')}.{name}"


def bare(function: Any) -> Any:
    """Return the function beneath all wrappers and partials."""
    inner = inspect.unwrap(function)
    return bare(inner.func) if isinstance(inner, functools.partial) else inner


def places(function: Any) -> Iterator[Place]:
    """Yield where its annotations may be written, the likeliest first."""
    inner = bare(function)
    if inspect.isclass(inner):
        yield from _places_of_class(inner)
    elif hasattr(inner, "__globals__"):
        yield inner.__globals__, dict(_reachable(inner))
    elif hasattr(call := inspect.unwrap(type(inner).__call__), "__globals__"):
        yield call.__globals__, dict(_reachable(call))


def _places_of_class(kind: type) -> Iterator[Place]:
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


def is_reloaded(before: Any, now: Any) -> bool:
    """Return whether this is the same function from a reloaded module or notebook cell, not a second one."""
    if handler_name(before) != handler_name(now):
        return False
    old, new = (getattr(inspect.unwrap(getattr(each, "consume", each)), "__code__", None) for each in (before, now))
    if old is None or new is None or old is new:  # two closures of one function are two functions
        return False
    return bool(old.co_filename != new.co_filename or old.co_firstlineno == new.co_firstlineno)
