"""Clocks that can be replaced: wall time, and monotonic time for measuring."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux has it. The monotonic clock of macOS stands still while the machine sleeps."""


class Clock(Protocol):
    """What time it is. Workers use it to stop earlier, never to decide what is due."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        ...

    def elapsed(self) -> float:
        """Seconds that only ever grow, also while the machine sleeps, where the system counts those."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Seconds that only ever grow, also while the machine sleeps, where the system counts those."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class ReplaceableClock:
    """A clock that asks another one, which may be replaced while it is used: tests put a hand-turned one in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds that only ever grow, for as long as it is the same clock."""
        return self._clock.monotonic()

    def elapsed(self) -> float:
        """Seconds that only ever grow, for as long as it is the same clock."""
        return self._clock.elapsed()

    def replace(self, clock: Clock) -> Clock:
        """Ask this one from now on. Returns the one before."""
        before, self._clock = self._clock, clock
        return before


class HandClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        """Wall time, as last set."""
        return self._now

    def monotonic(self) -> float:
        """Seconds turned so far."""
        return self._elapsed

    def elapsed(self) -> float:
        """Seconds turned so far."""
        return self._elapsed

    def advance(self, by: timedelta) -> None:
        """Let ``by`` pass."""
        self._now += by
        self._elapsed += max(by.total_seconds(), 0.0)

    def show(self, now: datetime) -> None:
        """Show another wall time. None passes by that."""
        self._now = now
