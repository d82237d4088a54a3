"""Log lines and events of a worker: failures, at most one line a second, and written verdicts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import timedelta

from mainspring.model.errors import NotGranted
from mainspring.model.message import Delivery
from mainspring.model.text import text_of
from mainspring.model.verdict import Bury, Cancel, Done, Retry, Settlement, Snooze, Verdict
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Cancelled, Completed, Dead, Failed, Snoozed
from mainspring.telemetry.logs import log
from mainspring.timing.clock import Clock
from mainspring.timing.duration import spell

_SPACING = 1.0
_REMINDER = 60.0
"""Seconds after which a right that is still missing is logged again."""


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
        self._suppressed = 0
        self._failing: set[str] = set()
        self._ungranted: dict[str, float] = {}
        """When each missing right is logged again."""

    def failure(self, loop: str, error: BaseException, *, expected: bool) -> None:
        """Log the failure of a loop. Expected errors (an unreachable database) get no traceback.

        A missing right lasts until a person grants it: it is logged once a minute, however many loops fail for it.
        """
        with self._lock:
            self._failing.add(loop)
            if isinstance(error, NotGranted) and self._is_known(str(error)):
                return
        self.log(
            logging.WARNING if expected else logging.ERROR,
            "%s: %s",
            loop,
            text_of(error),
            trace=None if expected else error,
        )

    def _is_known(self, missing: str) -> bool:
        now = self._clock.monotonic()
        if now < self._ungranted.get(missing, 0.0):
            return True
        self._ungranted[missing] = now + _REMINDER
        return False

    def recovered(self, loop: str) -> None:
        """Note that a loop works again; logged once, when the last of them does."""
        with self._lock:
            self._failing.discard(loop)
            over = not self._failing
            if over:
                self._ungranted.clear()
        if over:
            self.log(logging.INFO, "%s: working again", loop)

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
                self._suppressed += 1
                return
            self._next_at[lane] = now + _SPACING
            suppressed, self._suppressed = self._suppressed, 0
        if suppressed:
            text += " (%d similar line was not logged)" if suppressed == 1 else " (%d similar lines were not logged)"
            args = (*args, suppressed)
        log(self._logger, level, text, *args, error=trace, facts=facts)


def report_outcome(bus: Bus, delivery: Delivery, settlement: Settlement) -> None:
    """Emit the event of a written verdict, if it has subscribers."""
    verdict = settlement.verdict
    which = (delivery.group, delivery.topic, delivery.message_id, delivery.key)
    facts = (*which, delivery.attempt, settlement.took, delivery.schedule)
    match verdict:
        case Done(output) if bus.wants(Completed):
            bus.emit(Completed(*facts, output))
        case Retry(delay, failure) if bus.wants(Failed):
            bus.emit(Failed(*facts, failure.error, failure.traceback, delay))
        case Bury(failure) if bus.wants(Dead):
            bus.emit(Dead(*facts, failure.error, failure.traceback))
        case Snooze(delay, reason) if bus.wants(Snoozed):
            bus.emit(Snoozed(*facts, delay if isinstance(delay, timedelta) else timedelta(), reason))
        case Cancel(reason) if bus.wants(Cancelled):
            bus.emit(Cancelled(*facts, reason))


def report_failure(log: RateLimitedLog, delivery: Delivery, verdict: Verdict) -> None:
    """Log a failure, and what happens to its delivery next."""
    match verdict:
        case Retry(delay, failure):
            level, consequence = logging.INFO, f"retried in {spell(delay)}"
        case Bury(failure):
            level, consequence = logging.WARNING, "buried as a dead letter"
        case _:
            return
    log.log(
        level,
        "%s: message %s failed, attempt %d, %s: %s",
        delivery.group,
        delivery.message_id,
        delivery.attempt,
        consequence,
        failure.error,
        facts=facts(delivery),
    )


def facts(delivery: Delivery) -> dict[str, object]:
    """Return the structured fields of a log line about a delivery."""
    return {
        "group": delivery.group,
        "topic": delivery.topic,
        "message_id": str(delivery.message_id),
        "attempt": delivery.attempt,
        "correlation_id": delivery.correlation_id,
    }
