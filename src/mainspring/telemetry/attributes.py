"""The attribute names of spans and log lines, the library's and those of OpenTelemetry's messaging conventions."""

from __future__ import annotations

from typing import Final

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION_ID: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_COUNT: Final = "messaging.batch.message_count"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
ERROR_TYPE: Final = "error.type"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACK: Final = "exception.stacktrace"

ATTEMPT: Final = "mainspring.attempt"
OUTCOME: Final = "mainspring.outcome"
"""The outcome of an attempt: ``done``, ``failed``, ``snoozed``, ``cancelled``, ``released`` or ``lost``."""
REASON: Final = "mainspring.reason"
DELAY: Final = "mainspring.delay"
"""Seconds until a snoozed message is delivered again."""
WAIT: Final = "mainspring.wait"
"""Seconds that a message had been due when it was claimed."""
CAUSATION_ID: Final = "mainspring.causation_id"
SCHEDULE: Final = "mainspring.schedule"
SCHEDULED_FOR: Final = "mainspring.scheduled_for"
IN_TRANSACTION: Final = "mainspring.in_transaction"
"""Whether a publish enlisted in the caller's transaction: it takes effect when that commits."""
MIXED: Final = "mixed"
"""The outcome of a batch without failures whose messages have different outcomes."""
COUNTS: Final = {
    outcome: f"mainspring.{outcome}_count" for outcome in ("done", "failed", "snoozed", "cancelled", "released", "lost")
}
"""How many messages of a batch had each outcome."""

MAINSPRING: Final = "mainspring"
TRACEPARENT: Final = "traceparent"
"""The header that carries the trace context, in the format of the W3C."""
