"""Sends the progress of a handler from a ``cpu=True`` process to the worker."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from mainspring.runtime import wire
from mainspring.runtime.handler import Run

_EVERY = 1.0
"""The minimum of seconds between two reports: the worker stores no more of them."""


class Reporter:
    """Sends the latest progress from a thread of its own, started on demand: a handler never waits for the worker."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._run: Run | None = None
        self._news = threading.Event()
        self._sending = threading.Lock()
        self._starting = threading.Lock()
        self._started = False

    def begin(self, run: Run) -> None:
        """Report the progress of this run from now on."""
        run.told = self._tell
        self._run = run

    def end(self, answer: wire.Answer) -> None:
        """Send the result. Later progress is dropped, since it would be taken for the next run's."""
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
        with contextlib.suppress(OSError):  # the worker has closed the channel, and this process ends
            while self._news.wait():
                self._news.clear()
                with self._sending:
                    if self._run is not None and self._run.progress is not None:
                        self._line.sendall(wire.framed(wire.Said(self._run.progress)))
                time.sleep(_EVERY)
