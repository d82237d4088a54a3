"""Calls that keep their context variables to themselves, on a task that outlives them."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any, TypeVar

from mainspring.model.interrupts import is_interrupt

T = TypeVar("T")


def is_closing(error: BaseException) -> bool:
    """Whether the coroutine that catches this is itself being closed; what it awaits may raise GeneratorExit, too."""
    if type(error) is not GeneratorExit:
        return False  # before anything is asked of what may be the user's own object
    trace = error.__traceback__
    return trace is None or trace.tb_next is None


def is_stopped(error: BaseException) -> bool:
    """Whether this ends what catches it from outside: it is cancelled or closed, or the program interrupted."""
    return issubclass(type(error), CancelledError) or is_closing(error) or is_interrupt(error)


@coroutine
def in_own_context(call: Callable[[], Awaitable[T]]) -> Generator[Any, Any, T]:
    """Call and await it in a copy of the context: what it sets is not there for whoever is called next.

    It stays on the task that awaits it, step by step. A task of its own would do the same, and cost each message
    several times as much, and a turn of the loop.
    """
    run = copy_context().run
    steps: Any = run(call).__await__()
    sent, error = None, None
    while True:
        try:
            waited = run(steps.send, sent) if error is None else run(steps.throw, error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            error = None  # its traceback holds this frame
        try:
            sent = yield waited
        except GeneratorExit:
            run(steps.close)
            raise
        except BaseException as thrown:  # noqa: BLE001 - the call is told, outside of this block, which it is not part of
            error = thrown
