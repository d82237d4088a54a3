"""A lease held by this process, and until when it is certain."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from datetime import timedelta

from mainspring.model.lease import Hold, Renewal
from mainspring.timing.clock import Clock

_RENEWED_AT = 0.6
"""The fraction of its ttl after which a lease is renewed at the latest, so that time is left to retry."""
_JITTER = 0.1

RAN_OUT = "it expired before it was renewed"
TAKEN = "according to the database it expired, or was released by an operator"
RELEASED = "it was released"
CLOSED = "the app was closed"
_FORKED = "it belongs to the process that this one was forked from"


class Holding:
    """One lease, for as long as no other process can have acquired it.

    That time is counted from before the acquiring or renewing request was sent, by a clock that advances while the
    process is frozen or the machine sleeps: it ends here no later than in the database. A lost lease stays lost, even
    if a late reply renews it. Safe from any thread; a forked child holds nothing.
    """

    def __init__(self, hold: Hold, ttl: timedelta, sent: float, clock: Clock) -> None:
        self.hold: Hold = hold
        self.renewal: Renewal = Renewal(hold, ttl)
        self.on_lost: Callable[[], None] | None = None
        """Called once when it is lost, in the thread that detects it; not when it is released."""
        self._seconds = ttl.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._over: str | None = None
        self._pid = os.getpid()
        self._until = sent + self._seconds
        self.renew_at: float = self._next(sent)
        """When to renew it, by the clock."""

    @property
    def until(self) -> float:
        """Until when it is certain, by the clock."""
        return self._until

    @property
    def over(self) -> str | None:
        """Why it is no longer held; None while it is."""
        if self._pid != os.getpid():  # the lock, too, may be held by a thread of the parent
            return _FORKED
        with self._lock:
            if self._over is None and self._clock.elapsed() >= self._until:
                self._over = RAN_OUT
                ran_out = True
            else:
                ran_out = False
        if ran_out:
            self._tell()
        return self._over

    def renewed(self, sent: float) -> None:
        """Record a renewal by a request that was sent at this time."""
        with self._lock:
            if self._over is None:
                self._until = max(self._until, sent + self._seconds)
                self.renew_at = self._next(sent)

    def later(self, at: float) -> None:
        """Renew at this time instead."""
        self.renew_at = at

    def lose(self, why: str) -> bool:
        """Mark it as lost. Returns False if it was not held any more."""
        ours = self.end(why)
        if ours:
            self._tell()
        return ours

    def end(self, why: str) -> bool:
        """Mark it as released. Returns False if it was not held any more."""
        if self.over is not None:
            return False
        with self._lock:
            ours, self._over = self._over is None, self._over or why
        return ours

    def _tell(self) -> None:
        if self.on_lost is not None:
            self.on_lost()

    def _next(self, sent: float) -> float:
        return sent + self._seconds * _RENEWED_AT * random.uniform(1 - _JITTER, 1)
