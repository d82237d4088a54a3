"""From an exception to one clear line on stderr and an exit code."""

from __future__ import annotations

import sys
import traceback

from cyclopts import CycloptsError, UnusedCliTokensError

from mainspring.cli.words import clean
from mainspring.model.errors import MainspringError

FAILED = 2
"""The exit code of everything that was refused or went wrong."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


class Refused(MainspringError):
    """The command line asks for what cannot be done; the message says what to write."""


def report(error: BaseException, *, debug: bool) -> int:
    """Say what went wrong on stderr and return the exit code."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    from rich.console import Console
    from rich.text import Text

    line = Text("error: ", style="bold red").append(clean(_sentence(error)), style="default")
    Console(stderr=True, soft_wrap=True, highlight=False).print(line)
    return FAILED


def _sentence(error: BaseException) -> str:
    match error:
        case UnusedCliTokensError():
            extra = " ".join(error.unused_tokens or ())
            return f"unexpected argument: {extra}"
        case CycloptsError() | MainspringError():
            return str(error)
        case _:
            return f"{type(error).__qualname__}: {error} (unexpected: `--debug` shows where)"
