"""A circuit breaker: pauses after too many failures, probes, and resumes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mainspring.timing.duration import Duration, duration

State = Literal["closed", "open", "probing"]
_LONGEST = 10
"""The maximum of a pause, as a multiple of the first."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a group pauses itself: so many failures within a time, and at least ``share`` of all attempts."""

    failures: int
    within: timedelta
    pause: timedelta
    share: float
    snoozes: bool = False
    """Whether a snooze counts as a failure and a burial as none, as for routes: the one means that the broker is away,
    the other that it has answered."""

    def __str__(self) -> str:
        """Format it for people and the registry."""
        return f"{self.failures} failures in {self.within.total_seconds():g} s, pause {self.pause.total_seconds():g} s"


def breaker(failures: int = 10, within: Duration = "1m", pause: Duration = "30s", share: float = 0.5) -> Breaker:
    """Pause a group for ``pause`` after ``failures`` failed attempts ``within`` that time.

    Only if they are at least ``share`` of its attempts in that time. Then one message is tried: if it succeeds the
    group resumes, otherwise the pause doubles, up to ten times the first. Each process counts for itself.
    """
    if isinstance(failures, bool) or not isinstance(failures, int) or failures < 1:
        raise ValueError(f"breaker(failures={failures!r}) must be a whole number from 1")
    if not 0 < share <= 1:
        raise ValueError(f"breaker(share={share!r}) must be more than 0 and at most 1")
    span, rest = duration(within, of="within"), duration(pause, of="pause")
    if span <= timedelta() or rest <= timedelta():
        raise ValueError("breaker(within=…, pause=…) must both be longer than 0s")
    return Breaker(failures, span, rest, share)


class Circuit:
    """The state of one group's breaker. Has no clock: every call passes the monotonic time."""

    def __init__(self, policy: Breaker) -> None:
        self.policy: Breaker = policy
        self.state: State = "closed"
        self._window = policy.within.total_seconds()
        self._attempts: deque[tuple[float, bool]] = deque()
        self._failed = 0
        self._pauses = 0
        self.opened_at: float = 0.0
        self.until: float = 0.0
        """When an open circuit starts to probe."""

    def allows(self, now: float, slots: int) -> int:
        """Return how many of its ``slots`` may run now."""
        if self.state == "open" and now >= self.until:
            self.state = "probing"
        if self.state == "closed":
            return slots
        return 0 if self.state == "open" else 1

    def record(self, now: float, *, failed: bool) -> State | None:
        """Count an attempt that ended. Returns the new state, None if unchanged."""
        if self.state == "open":
            return None  # it had started before the pause
        if self.state == "probing":
            return self._open(now) if failed else self._close()
        attempts = self._attempts
        attempts.append((now, failed))
        self._failed += failed
        while attempts and attempts[0][0] <= now - self._window:
            self._failed -= attempts.popleft()[1]
        policy = self.policy
        if failed and self._failed >= policy.failures and self._failed >= policy.share * len(attempts):
            return self._open(now)
        return None

    @property
    def pause(self) -> timedelta:
        """How long the circuit stays open this time."""
        return self.policy.pause * min(1 << max(self._pauses - 1, 0), _LONGEST)

    def _open(self, now: float) -> State:
        self._pauses += 1
        self.state = "open"
        self.opened_at = now
        self.until = now + self.pause.total_seconds()
        self._attempts.clear()
        self._failed = 0
        return self.state

    def _close(self) -> State:
        self.state = "closed"
        self._pauses = 0
        return self.state
