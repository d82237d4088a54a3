"""Events for written verdicts, and log lines for failures."""

from __future__ import annotations

import logging
from datetime import timedelta

from mainspring.model.message import Delivery
from mainspring.model.verdict import Bury, Cancel, Done, Retry, Settlement, Snooze, Verdict
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Completed, Died, Dropped, Failed, Snoozed
from mainspring.timing.duration import spell


def report_outcome(bus: Bus, delivery: Delivery, settlement: Settlement) -> None:
    """Emit the event of a written verdict, if it has subscribers."""
    verdict = settlement.verdict
    facts = (delivery.group, delivery.topic, delivery.message_id, delivery.key, delivery.attempt, settlement.took)
    match verdict:
        case Done(output) if bus.wants(Completed):
            bus.emit(Completed(*facts, output))
        case Retry(delay, failure) if bus.wants(Failed):
            bus.emit(Failed(*facts, failure.error, failure.traceback, delay))
        case Bury(failure) if bus.wants(Died):
            bus.emit(Died(*facts, failure.error, failure.traceback))
        case Snooze(delay, reason) if bus.wants(Snoozed):
            bus.emit(Snoozed(*facts, delay if isinstance(delay, timedelta) else timedelta(), reason))
        case Cancel(reason) if bus.wants(Dropped):
            bus.emit(Dropped(*facts, reason))


def report_failure(log: RateLimitedLog, delivery: Delivery, verdict: Verdict) -> None:
    """Log a failure, and what happens to its delivery next."""
    match verdict:
        case Retry(delay, failure):
            level, fate = logging.INFO, f"retried in {spell(delay)}"
        case Bury(failure):
            level, fate = logging.WARNING, "buried as a dead letter"
        case _:
            return
    log.log(
        level,
        "%s: message %s failed, attempt %d, %s: %s",
        delivery.group,
        delivery.message_id,
        delivery.attempt,
        fate,
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
