"""A group that fails too often pauses itself, probes, and goes on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import timedelta

from mainspring.model.verdict import Bury, Done, Retry, Verdict
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Recovered, Tripped
from mainspring.timing.breaker import Breaker, Circuit
from mainspring.timing.duration import spell


class BreakerGuard:
    """The breaker of one group in one process: fewer hands while it is open, one while it probes."""

    def __init__(
        self, group: str, policy: Breaker, freed: Callable[[str], None], log: RateLimitedLog, bus: Bus
    ) -> None:
        self._group = group
        self._circuit = Circuit(policy)
        self._freed = freed
        self._log = log
        self._bus = bus

    def slots(self, slots: int) -> int:
        """How many hands the group has now."""
        return self._circuit.allows(time.monotonic(), slots)

    @property
    def paused_for(self) -> timedelta | None:
        """How long the group still pauses; None while it works or probes."""
        if self._circuit.state != "open":
            return None
        return timedelta(seconds=max(self._circuit.until - time.monotonic(), 0.0))

    def judges(self, started: float | None) -> bool:
        """Whether a run that began then says anything: one from before the pause is neither probe nor hand."""
        return self._circuit.state == "closed" or (started is not None and started >= self._circuit.opened_at)

    def judge(self, verdict: Verdict | None, started: float | None) -> bool:
        """Count an attempt. True: the group pauses from now on."""
        if not self.judges(started):
            return False
        match verdict:
            case Retry() | Bury():
                failed = True
            case Done():
                failed = False
            case _:
                return False  # neither here nor there: cancelled, snoozed, handed back, lost
        match self._circuit.record(time.monotonic(), failed=failed):
            case "open":
                self._trip()
                return True
            case "closed":
                self._log.log(logging.WARNING, "%s: a probe succeeded, it goes on", self._group)
                self._bus.emit(Recovered(self._group))
                self._freed(self._group)
        return False

    def _trip(self) -> None:
        pause = self._circuit.pause
        self._log.log(
            logging.ERROR, "%s: fails too often and pauses itself in this process for %s", self._group, spell(pause)
        )
        self._bus.emit(Tripped(self._group, self._circuit.policy.failures, pause))
        self._wait()

    def _wait(self) -> None:
        # A timer may come a little early, and who looks too early would not be woken again.
        left = self.paused_for
        if left:
            asyncio.get_running_loop().call_later(max(left.total_seconds(), 0.001), self._wait)
        else:
            self._freed(self._group)
