"""The database of a fleet that a command works on, and its output, kept apart while it works on others too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, TextIO

DATABASE: ContextVar[str | None] = ContextVar("mainspring_cli_database", default=None)
"""The database of a fleet that the command works on now."""
CAPTURE: ContextVar[Capture | None] = ContextVar("mainspring_cli_capture", default=None)
"""Where its output goes, if it is one of several."""


@dataclass(frozen=True, slots=True)
class Capture:
    """What a command has printed for one database."""

    out: StringIO = field(default_factory=StringIO)
    err: StringIO = field(default_factory=StringIO)


class _Stream:
    """Stdout or stderr, apart for each task that has a capture. In all else it is the stream itself."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def write(self, text: str) -> int:
        capture = CAPTURE.get()
        stream: TextIO = self._stream if capture is None else getattr(capture, self._name)
        return stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def apart() -> Iterator[None]:
    """Within the block, tasks print to their own captures."""
    out: Any = _Stream(sys.stdout, "out")
    err: Any = _Stream(sys.stderr, "err")
    with redirect_stdout(out), redirect_stderr(err):
        yield
