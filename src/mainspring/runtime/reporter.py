"""In a process of a ``cpu=True`` consumer: tells the worker what the handler says of its run."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from mainspring.runtime import wire
from mainspring.runtime.handler import Run

_EVERY = 1.0
"""Seconds between two words at the least: the worker stores no more of them."""


class Reporter:
    """Sends the latest word from a thread of its own, started for the first: a handler never waits for the worker."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._run: Run | None = None
        self._news = threading.Event()
        self._sending = threading.Lock()
        self._starting = threading.Lock()
        self._started = False

    def begin(self, run: Run) -> None:
        """This run is what is spoken of from now on."""
        run.told = self._tell
        self._run = run

    def end(self, answer: wire.Answer) -> None:
        """Send the answer. Nothing is said of the run after it, since it would be taken for the next one's."""
        with self._sending:
            self._run = None
            self._line.sendall(wire.framed(answer))

    def _tell(self) -> None:
        with self._starting:
            if not self._started:
                self._started = True
                threading.Thread(target=self._work, name="mainspring-reporter", daemon=True).start()
        self._news.set()

    def _work(self) -> None:
        with contextlib.suppress(OSError):  # the worker has hung up, and this process ends
            while self._news.wait():
                self._news.clear()
                with self._sending:
                    if self._run is not None and self._run.progress is not None:
                        self._line.sendall(wire.framed(wire.Said(self._run.progress)))
                time.sleep(_EVERY)
