"""The clock of a test: it moves only when the test advances it, and fires the timers of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from mainspring.timing.clock import HandClock


class KitClock(HandClock):
    """A clock with ``Timers``: a timer fires when the clock is advanced to its time or past it."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._timers: list[_Timer] = []

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> _Timer:
        """See ``Timers.call_later``."""
        timer = _Timer(self.monotonic() + delay, callback, args, self._timers)
        self._timers.append(timer)
        return timer

    def advance(self, by: timedelta) -> None:
        """Advance by ``by``, and fire the timers due since, in order."""
        super().advance(by)
        now = self.monotonic()
        for timer in sorted((each for each in self._timers if each.at <= now), key=lambda each: each.at):
            if timer in self._timers:  # else an earlier one has cancelled it
                self._timers.remove(timer)
                timer.callback(*timer.args)


class _Timer:
    def __init__(self, at: float, callback: Callable[..., object], args: tuple[Any, ...], timers: list[_Timer]) -> None:
        self.at = at
        self.callback = callback
        self.args = args
        self._timers = timers

    def cancel(self) -> None:
        """Prevent the call, if it has not been made."""
        if self in self._timers:
            self._timers.remove(self)
