"""From an exception to one clear line on stderr and an exit code."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from cyclopts import Argument, CycloptsError, MissingArgumentError, UnusedCliTokensError

from mainspring.cli.words import clean
from mainspring.model.errors import MainspringError

FAILED = 2
"""The exit code of everything that was refused or went wrong."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


class Refused(MainspringError):
    """The command line asks for what cannot be done; the message says what to write."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends at once what blocks in here: asyncio would only note it and wait for the next await."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
            return f"unexpected: {' '.join(error.unused_tokens or ())}. {_help(error)}"
        case MissingArgumentError(argument=Argument() as argument):
            wanted = argument.parameter.metavar or argument.name
            return f"{wanted} is missing. {_help(error)}"
        case CycloptsError() | MainspringError():
            return str(error)
        case _:
            return f"{type(error).__qualname__}: {error} (unexpected: `--debug` shows where)"


def _help(error: CycloptsError) -> str:
    return f"`mainspring {' '.join(error.command_chain or ())} --help` shows what to write"
