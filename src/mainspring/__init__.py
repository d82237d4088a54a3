"""Mainspring: messages, timers and schedules on the database an application already has."""

from mainspring.app.app import Mainspring
from mainspring.app.config import AppOptions, Options
from mainspring.app.consumers import Consumed, ConsumerOptions
from mainspring.app.context import Context
from mainspring.app.envelope import PublishOptions
from mainspring.app.health import Check, Health, HealthLimits
from mainspring.model import errors
from mainspring.model.message import Cancelled, Keep, Priority, Receipt
from mainspring.model.verdict import Cancel, Done, Snooze
from mainspring.model.views import Retention
from mainspring.timing.backoff import NO_RETRY, RetryPolicy, exponential, intervals, proportional

__all__ = [
    "NO_RETRY",
    "AppOptions",
    "Cancel",
    "Cancelled",
    "Check",
    "Consumed",
    "ConsumerOptions",
    "Context",
    "Done",
    "Health",
    "HealthLimits",
    "Keep",
    "Mainspring",
    "Options",
    "Priority",
    "PublishOptions",
    "Receipt",
    "Retention",
    "RetryPolicy",
    "Snooze",
    "errors",
    "exponential",
    "intervals",
    "proportional",
]
