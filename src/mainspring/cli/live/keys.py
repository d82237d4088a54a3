"""Reading single keys while a live view is drawn, and restoring the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator

_MOST = 64


@contextlib.contextmanager
def heard(told: Callable[[str], None]) -> Iterator[None]:
    """Call back with each key that is pressed. Without a terminal, as behind a pipe, do nothing."""
    try:
        import termios
        import tty

        source = sys.stdin.fileno()
        before = termios.tcgetattr(source)
    except (ImportError, OSError, ValueError, AttributeError):
        yield
        return
    except termios.error:
        yield
        return

    def read() -> None:
        # An arrow key is three characters, none of them a command: skip whatever begins with an escape.
        keys = os.read(source, _MOST).decode(errors="replace")
        if not keys.startswith("\x1b"):
            for key in keys:
                told(key)

    loop = asyncio.get_running_loop()
    tty.setcbreak(source, termios.TCSANOW)  # keep what was typed ahead
    loop.add_reader(source, read)
    try:
        yield
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)
