"""From a verdict to the event that says so once it is written, and from a failure to the log."""

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
    """Tell whoever wants to know what became of the delivery. Nothing is made for nobody."""
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
    """Log a failure, and what becomes of its delivery."""
    match verdict:
        case Retry(delay, failure):
            level, fate = logging.INFO, f"tried again in {spell(delay)}"
        case Bury(failure):
            level, fate = logging.WARNING, "buried with the dead letters"
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
    """What a log line about a delivery says beside its text."""
    return {
        "group": delivery.group,
        "topic": delivery.topic,
        "message_id": str(delivery.message_id),
        "attempt": delivery.attempt,
        "correlation_id": delivery.correlation_id,
    }
