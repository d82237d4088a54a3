"""Ctrl-C, which Python raises in the middle of any code."""

from __future__ import annotations

import signal
from dis import opmap
from functools import partial
from threading import current_thread, main_thread

_RAISE = opmap["RAISE_VARARGS"]
_SIGINT_HANDLER = "Runner._on_sigint"
"""The handler of SIGINT in ``asyncio.run``: it cancels at the first, and raises at the second."""
_RAISES = (_SIGINT_HANDLER, "Runner.run")
"""Functions whose ``raise`` is Ctrl-C: the latter's, if the first one cancelled its main task."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether this is Ctrl-C, which ends the program, and no ``KeyboardInterrupt`` raised by code.

    Ctrl-C is raised in the main thread, while SIGINT has the handler of Python or of ``asyncio.run``, and not by a
    ``raise`` of the interrupted code. A worker that handles signals itself, as in ``app.run()``, gets no exception.
    """
    if type(error) is not KeyboardInterrupt or current_thread() is not main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    function = handler.func if isinstance(handler, partial) else None
    if handler is not signal.default_int_handler and getattr(function, "__qualname__", None) != _SIGINT_HANDLER:
        return False
    return not _is_raised_by_code(error)


def _is_raised_by_code(error: BaseException) -> bool:
    """Return whether it comes from a ``raise``, other than that of the signal handler."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_qualname not in _RAISES and code.co_code[trace.tb_lasti] == _RAISE
