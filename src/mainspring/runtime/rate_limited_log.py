"""Logs failures, at most one line a second, however many loops fail at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from mainspring.model.wording import text_of
from mainspring.telemetry.logs import log
from mainspring.timing.clock import Clock

_SPACING = 1.0


class RateLimitedLog:
    """Logs failures, counts suppressed lines, and logs the recovery. Safe from any thread.

    With ``separate_warnings`` warnings have a limit of their own: lines below that level never suppress them.
    """

    def __init__(self, clock: Clock, logger: str = "mainspring.worker", *, separate_warnings: bool = False) -> None:
        self._logger = logging.getLogger(logger)
        self._clock = clock
        self._lock = threading.Lock()
        self._separate_warnings = separate_warnings
        self._next_at = {False: 0.0, True: 0.0}
        self._held_back = 0
        self._ailing: set[str] = set()

    def failure(self, who: str, error: BaseException, *, expected: bool) -> None:
        """Log the failure of a loop. Expected errors (an unreachable database) get no traceback."""
        with self._lock:
            self._ailing.add(who)
        self.log(
            logging.WARNING if expected else logging.ERROR,
            "%s: %s",
            who,
            text_of(error),
            trace=None if expected else error,
        )

    def recovered(self, who: str) -> None:
        """Note that a loop works again; logged once, when the last of them does."""
        with self._lock:
            self._ailing.discard(who)
            over = not self._ailing
        if over:
            self.log(logging.INFO, "%s: working again", who)

    def log(
        self,
        level: int,
        text: str,
        *args: object,
        trace: BaseException | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, unless one was logged within the last second; ``facts`` are its structured fields."""
        lane = self._separate_warnings and level >= logging.WARNING
        with self._lock:
            now = self._clock.monotonic()
            if now < self._next_at[lane]:
                self._held_back += 1
                return
            self._next_at[lane] = now + _SPACING
            held_back, self._held_back = self._held_back, 0
        if held_back:
            text += " (%d more lines not shown)"
            args = (*args, held_back)
        log(self._logger, level, text, *args, error=trace, facts=facts)
