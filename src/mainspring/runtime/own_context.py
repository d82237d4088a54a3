"""Calls with context variables of their own, on a task that outlives them."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any, TypeVar

from mainspring.model.interrupts import is_interrupt

T = TypeVar("T")


def is_closing(error: BaseException) -> bool:
    """Return whether the coroutine that catches this is being closed; a callee may raise GeneratorExit, too."""
    if type(error) is not GeneratorExit:
        return False  # before any access to an object that may be the user's
    trace = error.__traceback__
    return trace is None or trace.tb_next is None


def is_stopped(error: BaseException) -> bool:
    """Return whether this error stops the code that catches it from outside: by cancel, close or interrupt."""
    return issubclass(type(error), CancelledError) or is_closing(error) or is_interrupt(error)


@coroutine
def in_own_context(call: Callable[[], Awaitable[T]]) -> Generator[Any, Any, T]:
    """Call and await it in a copy of the context, so that the variables it sets do not reach the next call.

    It stays on the awaiting task, step by step. A task of its own would have the same effect, at several times the cost
    per message and a turn of the loop.
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
        except BaseException as thrown:  # noqa: BLE001 - thrown into the call outside of this block
            error = thrown
