"""Starting another interpreter like this one, and saying how it ended."""

from __future__ import annotations

import signal
import subprocess
import sys


def interpreter() -> list[str]:
    """This interpreter with the options it was started with: ``-O``, ``-W``, ``-X`` and the like."""
    # Undocumented, and what the standard library itself uses wherever it starts another interpreter.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return [sys.executable, *flags]


def how_it_ended(code: int) -> str:
    """An exit code in words, to be said of a process: negative ones are signals."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
