"""Blocking twins: calls that are awaited elsewhere, for code that blocks. A twin is one line."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from mainspring.app.background import Background, at_once

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
Work = Callable[[], Awaitable[R]]

_blocking: ContextVar[bool] = ContextVar("mainspring_blocking", default=False)


class Face(Generic[S_co]):
    """The blocking face of an object whose calls are awaited: same names, same arguments, same answers.

    A call runs on a loop in the background. With a blocking ``tx`` it runs in the caller's own thread, on the caller's
    connection, and needs neither loop nor open database.
    """

    def __init__(self, target: S_co, background: Background, here: str, there: str) -> None:
        self._target = target
        self._background = background
        self._here = here
        """How callers spell this object, and, in ``_there``, the one whose calls are awaited."""
        self._there = there

    def _tx(self, options: Mapping[str, Any]) -> object:
        """The transaction that a call with these options is part of, if it is part of one."""
        return options.get("tx")

    def _wait_for(self, work: Work[R], call: str) -> R:
        return self._background.run(work, f"{self._here}.{call}", f"`await {self._there}.{call}`")


def blocking(
    method: Callable[Concatenate[S, P], Awaitable[R]], *, listed: bool = False
) -> Callable[Concatenate[Face[S], P], R]:
    """The blocking twin of a method that is awaited.

    ``listed``: its first argument is read to its end in the caller's thread, to which it may belong, as a cursor does.
    """

    @functools.wraps(method)
    def twin(self: Face[S], /, *args: P.args, **options: P.kwargs) -> R:
        given = (_listed(args[0]), *args[1:]) if listed and args else args
        work: Work[R] = functools.partial(getattr(self._target, method.__name__), *given, **options)
        if self._tx(options) is not None:
            return enlisted(work)
        return self._wait_for(work, f"{method.__name__}({'…' if args or options else ''})")

    return twin


def enlisted(work: Work[R]) -> R:
    """Drive what runs in a caller's blocking transaction: it never waits, so that it needs no loop."""
    token = _blocking.set(True)
    try:
        return at_once(work)
    finally:
        _blocking.reset(token)


def is_blocking() -> bool:
    """Whether this call came through a blocking twin, with a transaction of the caller's."""
    return _blocking.get()


def _listed(given: object) -> object:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return list(given)
    return given
