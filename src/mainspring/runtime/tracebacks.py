"""Stored tracebacks: from the user's own code on."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from itertools import dropwhile
from pathlib import Path

from mainspring.model.interrupts import is_interrupt
from mainspring.model.wording import joined

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_AROUND = str(Path(__file__).parents[2]) + os.sep


def formatted(error: BaseException, limit: int) -> str | None:
    """Return the traceback as text, cut to the limit; None for an error that cannot be inspected.

    Frames of the library that lead to the handler are left out; its other frames have no absolute path.
    """
    try:
        told = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        for each in _chained(told):
            each.stack = _from_the_user_on(each.stack)
        return joined(told.format(), limit)
    except BaseException as failed:  # its notes and causes are the user's own objects
        if is_interrupt(failed):
            raise
        return None


def _chained(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [told]
    while waiting:
        each = waiting.pop()
        yield each
        inner = (each.__cause__, each.__context__, *(each.exceptions or ()))
        waiting += [other for other in inner if other is not None]


def _from_the_user_on(stack: traceback.StackSummary) -> traceback.StackSummary:
    # If all frames are the library's, so is the fault: show all.
    frames = list(dropwhile(_is_ours, stack)) or list(stack)
    for frame in filter(_is_ours, frames):
        _ = frame.line  # read from the file while its path is known
        frame.filename = frame.filename.removeprefix(_AROUND)
    return traceback.StackSummary.from_list(frames)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE)
