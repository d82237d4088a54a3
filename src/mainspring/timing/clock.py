"""Replaceable clocks: wall time, monotonic time for measuring, and timers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""Exists on Linux. The monotonic clock of macOS stops while the machine sleeps."""


class Clock(Protocol):
    """The time. Workers use it to stop earlier, never to decide what is due."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        ...

    def elapsed(self) -> float:
        """Return seconds that never decrease, and include sleep of the machine, where the system counts it."""
        ...


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Prevent the call."""
        ...


class CallsLater(Protocol):
    """Calls back after some time, as an event loop does."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back after ``delay`` seconds."""
        ...


class Timers(CallsLater, Protocol):
    """Measures time, and calls back after some."""

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Return seconds that never decrease, and include sleep of the machine, where the system counts it."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class ReplaceableClock:
    """A clock that delegates to another, which may be replaced in use: tests insert one that they advance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Return seconds that never decrease while the clock is the same."""
        return self._clock.monotonic()

    def elapsed(self) -> float:
        """Return seconds that never decrease while the clock is the same."""
        return self._clock.elapsed()

    def replace(self, clock: Clock) -> Clock:
        """Delegate to this clock from now on. Returns the previous one."""
        before, self._clock = self._clock, clock
        return before


class HandClock:
    """A clock that moves only by its methods. A timer fires when it is advanced to its time or past it."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._elapsed = 0.0
        self._timers: list[_HandTimer] = []

    def now(self) -> datetime:
        """Return the wall time, as last set."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    def elapsed(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """See ``CallsLater.call_later``."""
        timer = _HandTimer(self._elapsed + delay, callback, args, self._timers)
        self._timers.append(timer)
        return timer

    def advance(self, by: timedelta) -> None:
        """Advance by ``by``, and fire the timers due since, in order."""
        self._now += by
        self._elapsed += max(by.total_seconds(), 0.0)
        for timer in sorted((each for each in self._timers if each.at <= self._elapsed), key=lambda each: each.at):
            if timer in self._timers:  # else an earlier one has cancelled it
                self._timers.remove(timer)
                timer.callback(*timer.args)

    def show(self, now: datetime) -> None:
        """Set another wall time, without advancing the monotonic one."""
        self._now = now


@dataclass(eq=False, slots=True)
class _HandTimer:
    at: float
    callback: Callable[..., object]
    args: tuple[Any, ...]
    timers: list[_HandTimer]

    def cancel(self) -> None:
        """Prevent the call, if it has not been made."""
        if self in self.timers:
            self.timers.remove(self)
