"""Registered functions: what they are called, and whether one is another loaded anew."""

from __future__ import annotations

import inspect
from typing import Any


def handler_name(function: Any) -> str:
    """A handler, provider or upcaster as people and the registry know it: module and qualified name."""
    inner = inspect.unwrap(function)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', '')}.{name}"


def is_reloaded(before: Any, now: Any) -> bool:
    """Whether this is the same function from a module or a notebook's cell loaded anew, not a second one."""
    if handler_name(before) != handler_name(now):
        return False
    old, new = (getattr(inspect.unwrap(getattr(each, "consume", each)), "__code__", None) for each in (before, now))
    if old is None or new is None or old is new:  # two closures of one function are two functions
        return False
    return bool(old.co_filename != new.co_filename or old.co_firstlineno == new.co_firstlineno)
