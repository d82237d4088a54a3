"""Ctrl-C, where Python raises it in the middle of whatever runs."""

from __future__ import annotations

import signal
from dis import opmap
from functools import partial
from threading import current_thread, main_thread

_RAISE = opmap["RAISE_VARARGS"]
_HEARS = "Runner._on_sigint"
"""What hears SIGINT in ``asyncio.run``: it cancels at the first, and raises at the second."""
_RAISES = (_HEARS, "Runner.run")
"""Whose ``raise`` is Ctrl-C: the latter's, when what it ran was cancelled by the first."""


def is_interrupt(error: BaseException) -> bool:
    """Whether this is Ctrl-C, which ends the program, and no ``KeyboardInterrupt`` that code has raised by itself.

    Ctrl-C is raised in the main thread, while SIGINT has the handler of Python or of ``asyncio.run``, and not by a
    ``raise`` of whatever it hits. A worker that hears signals itself, as in ``app.run()``, is told by no exception.
    """
    if type(error) is not KeyboardInterrupt or current_thread() is not main_thread():
        return False
    hearing = signal.getsignal(signal.SIGINT)
    function = hearing.func if isinstance(hearing, partial) else None
    if hearing is not signal.default_int_handler and getattr(function, "__qualname__", None) != _HEARS:
        return False
    return not _is_raised_by_code(error)


def _is_raised_by_code(error: BaseException) -> bool:
    """Whether a ``raise`` has made it, other than that of the handler of the signal."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_qualname not in _RAISES and code.co_code[trace.tb_lasti] == _RAISE
