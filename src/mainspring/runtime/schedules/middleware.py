"""The publishing middleware around the occurrences that a tick stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from dataclasses import replace

from mainspring.model.message import Draft
from mainspring.model.schedule import Occurrence

Around = Callable[[Sequence[Draft]], AbstractContextManager[Sequence[Draft]]]
"""Enters the middleware for drafts, and returns them with their new headers."""


class TickMiddleware:
    """The middleware of one tick: entered when a schedule is decided, left when the tick is committed or has failed.

    A storage may decide in a thread of its own. All of it runs in one context, so that middleware may set and reset
    context variables.
    """

    def __init__(self, around: Around | None) -> None:
        self._around = around
        self._entered = ExitStack()
        self._context = copy_context()

    def enter(self, occurrences: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
        """Enter it for these occurrences, and return them with their new headers. Raises what it raises."""
        if self._around is None or not occurrences:
            return tuple(occurrences)
        entering = self._around([each.draft for each in occurrences])
        drafts = self._context.run(self._entered.enter_context, entering)
        return tuple(replace(each, draft=draft) for each, draft in zip(occurrences, drafts, strict=True))

    def leave(self, error: BaseException | None = None) -> None:
        """Leave it: nothing was stored, if there is an error."""
        self._context.run(self._entered.__exit__, type(error) if error else None, error, None)
