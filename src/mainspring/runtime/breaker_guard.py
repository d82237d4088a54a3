"""The breaker of a consumer group: pauses a group that fails too often, probes, and resumes it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from mainspring.model.verdict import Bury, Done, Retry, Snooze, Verdict
from mainspring.runtime.reports import RateLimitedLog
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Recovered, Tripped
from mainspring.timing.breaker import Breaker, Circuit
from mainspring.timing.clock import Timers
from mainspring.timing.duration import spell


class BreakerGuard:
    """The breaker of one group in one process: no slots while it is open, one while it probes."""

    def __init__(
        self,
        group: str,
        policy: Breaker,
        freed: Callable[[str], None],
        log: RateLimitedLog,
        bus: Bus,
        timers: Timers,
    ) -> None:
        self._group = group
        self._circuit = Circuit(policy)
        self._freed = freed
        self._log = log
        self._bus = bus
        self._timers = timers
        self._waits = False
        """Whether it is open since what the group needs is away: no attempt has failed."""

    def slots(self, slots: int) -> int:
        """Return how many of its ``slots`` the group may use now."""
        return self._circuit.allows(self._timers.monotonic(), slots)

    @property
    def paused_for(self) -> timedelta | None:
        """How long the group remains paused; None while it works or probes."""
        if self._circuit.state != "open":
            return None
        return timedelta(seconds=max(self._circuit.until - self._timers.monotonic(), 0.0))

    def judges(self, started: float | None) -> bool:
        """Return whether a run started at this time counts: one from before the pause is no probe and takes no slot."""
        return self._circuit.state == "closed" or (started is not None and started >= self._circuit.opened_at)

    def judge(self, verdict: Verdict | None, started: float | None) -> bool:
        """Count an attempt. Returns True if the group pauses from now on."""
        if not self.judges(started):
            return False
        snoozes = self._circuit.policy.snoozes
        match verdict:
            case Done():
                failed = False
            case Bury() if snoozes:
                failed = False  # the broker has answered, and may take the next
            case Retry() | Bury():
                failed = True
            case Snooze() if snoozes:
                failed = True
            case _:
                return False  # not counted: cancelled, snoozed, released, lost
        match self._circuit.record(self._timers.monotonic(), failed=failed):
            case "open":
                self._trip(verdict)
                return True
            case "closed":
                level, self._waits = logging.INFO if self._waits else logging.WARNING, False
                self._log.log(level, "%s: a probe succeeded, the breaker is closed", self._group)
                self._bus.emit(Recovered(self._group))
                self._freed(self._group)
        return False

    def _trip(self, verdict: Verdict | None) -> None:
        pause = self._circuit.pause
        if not isinstance(verdict, Snooze):
            self._log.log(
                logging.ERROR,
                "%s: too many failures, its breaker pauses it in this process for %s",
                self._group,
                spell(pause),
            )
        elif not self._waits:  # once: each probe that fails opens it again
            self._waits = True
            text = "%s: waits, and is probed every few seconds: %s"
            self._log.log(logging.WARNING, text, self._group, verdict.reason)
        self._bus.emit(Tripped(self._group, self._circuit.policy.failures, pause))
        self._wait()

    def _wait(self) -> None:
        # A timer may fire a little early; checking then would leave nothing to wake the group.
        left = self.paused_for
        if left:
            self._timers.call_later(max(left.total_seconds(), 0.001), self._wait)
        else:
            self._freed(self._group)
