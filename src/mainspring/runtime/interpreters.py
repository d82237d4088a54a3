"""The command line of another interpreter like this one, and the exit of a process in words."""

from __future__ import annotations

import signal
import subprocess
import sys


def interpreter() -> list[str]:
    """Return this interpreter with the options it was started with: ``-O``, ``-W``, ``-X`` and the like."""
    # Undocumented, but the standard library uses it wherever it starts another interpreter.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return [sys.executable, *flags]


def how_it_ended(code: int) -> str:
    """Describe an exit code; negative ones are signals."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
