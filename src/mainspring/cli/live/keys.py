"""Keys that are heard one by one while something is drawn, and the terminal as it was before."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator

_MOST = 64


@contextlib.contextmanager
def heard(told: Callable[[str], None]) -> Iterator[None]:
    """Tell of each key that is pressed. Where nobody can press one, as behind a pipe, nothing happens."""
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
        # An arrow is three characters, of which none is one of ours: what begins with an escape is passed over.
        keys = os.read(source, _MOST).decode(errors="replace")
        if not keys.startswith("\x1b"):
            for key in keys:
                told(key)

    loop = asyncio.get_running_loop()
    tty.setcbreak(source, termios.TCSANOW)  # what was typed ahead counts
    loop.add_reader(source, read)
    try:
        yield
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)
