"""Messages, timers and schedules on the database an application already has."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.app.batch_context import BatchContext
    from mainspring.app.classes import Consumer
    from mainspring.app.config import AppOptions, Options
    from mainspring.app.consumed import Consumed
    from mainspring.app.consumers import ConsumerOptions
    from mainspring.app.context import Context
    from mainspring.app.depends import Depends
    from mainspring.app.envelope import PublishOptions
    from mainspring.app.fanout import Fanout, FanoutOptions
    from mainspring.app.fanouts import FanoutView
    from mainspring.app.following import JoinOptions, SendOptions
    from mainspring.app.health import Check, Health, HealthLimits
    from mainspring.app.lease import Lease
    from mainspring.app.leases import SyncLease
    from mainspring.app.mainspring import Mainspring
    from mainspring.app.middleware import LogContext, Middleware, Outgoing, ReportErrors, SlowHandlers
    from mainspring.app.planning import PlannedWindow
    from mainspring.app.queues.answers import ExtendedItems, SettledItems
    from mainspring.app.queues.item import Item
    from mainspring.app.queues.queue import Queue
    from mainspring.app.recurring import RecurringOptions
    from mainspring.app.resolvers import Resolver
    from mainspring.app.schedule_view import ScheduleView
    from mainspring.app.testing.kit import Testing
    from mainspring.app.timings import TimingOptions
    from mainspring.app.unique import Unique, unique
    from mainspring.model import errors
    from mainspring.model.browsing import Filter
    from mainspring.model.fanout import CursorView, FanoutPolicy, FanoutPolicyView, Slice
    from mainspring.model.inbox import Admission, InboxView
    from mainspring.model.join import JoinOutcome, JoinReceipt
    from mainspring.model.lease import LeaseView
    from mainspring.model.message import Cancelled, Keep, Priority, Receipt
    from mainspring.model.retention import Retention
    from mainspring.model.verdict import Cancel, Done, Snooze
    from mainspring.storage.codec import Codec, JsonCodec, MsgpackCodec
    from mainspring.telemetry import events
    from mainspring.telemetry.logs import JsonLines
    from mainspring.timing.backoff import NO_RETRY, RetryPolicy, exponential, intervals, proportional
    from mainspring.timing.breaker import Breaker, breaker
    from mainspring.timing.cron import Cron, CronError
    from mainspring.timing.rhythm import every

__all__ = [
    "NO_RETRY",
    "Admission",
    "AppOptions",
    "BatchContext",
    "Breaker",
    "Cancel",
    "Cancelled",
    "Check",
    "Codec",
    "Consumed",
    "Consumer",
    "ConsumerOptions",
    "Context",
    "Cron",
    "CronError",
    "CursorView",
    "Depends",
    "Done",
    "ExtendedItems",
    "Fanout",
    "FanoutOptions",
    "FanoutPolicy",
    "FanoutPolicyView",
    "FanoutView",
    "Filter",
    "Health",
    "HealthLimits",
    "InboxView",
    "Item",
    "JoinOptions",
    "JoinOutcome",
    "JoinReceipt",
    "JsonCodec",
    "JsonLines",
    "Keep",
    "Lease",
    "LeaseView",
    "LogContext",
    "Mainspring",
    "Middleware",
    "MsgpackCodec",
    "Options",
    "Outgoing",
    "PlannedWindow",
    "Priority",
    "PublishOptions",
    "Queue",
    "Receipt",
    "RecurringOptions",
    "ReportErrors",
    "Resolver",
    "Retention",
    "RetryPolicy",
    "ScheduleView",
    "SendOptions",
    "SettledItems",
    "Slice",
    "SlowHandlers",
    "Snooze",
    "SyncLease",
    "Testing",
    "TimingOptions",
    "Unique",
    "breaker",
    "errors",
    "events",
    "every",
    "exponential",
    "intervals",
    "proportional",
    "unique",
]

_HOMES = {
    "mainspring.app.mainspring": ("Mainspring",),
    "mainspring.app.batch_context": ("BatchContext",),
    "mainspring.app.classes": ("Consumer",),
    "mainspring.app.config": ("AppOptions", "Options"),
    "mainspring.app.consumed": ("Consumed",),
    "mainspring.app.consumers": ("ConsumerOptions",),
    "mainspring.app.context": ("Context",),
    "mainspring.app.depends": ("Depends",),
    "mainspring.app.envelope": ("PublishOptions",),
    "mainspring.app.fanout": ("Fanout", "FanoutOptions"),
    "mainspring.app.fanouts": ("FanoutView",),
    "mainspring.app.following": ("JoinOptions", "SendOptions"),
    "mainspring.app.health": ("Check", "Health", "HealthLimits"),
    "mainspring.app.lease": ("Lease",),
    "mainspring.app.middleware": ("LogContext", "Middleware", "Outgoing", "ReportErrors", "SlowHandlers"),
    "mainspring.app.planning": ("PlannedWindow",),
    "mainspring.app.queues.answers": ("ExtendedItems", "SettledItems"),
    "mainspring.app.queues.item": ("Item",),
    "mainspring.app.queues.queue": ("Queue",),
    "mainspring.app.recurring": ("RecurringOptions",),
    "mainspring.app.resolvers": ("Resolver",),
    "mainspring.app.schedule_view": ("ScheduleView",),
    "mainspring.app.leases": ("SyncLease",),
    "mainspring.app.testing.kit": ("Testing",),
    "mainspring.app.timings": ("TimingOptions",),
    "mainspring.app.unique": ("Unique", "unique"),
    "mainspring.model.browsing": ("Filter",),
    "mainspring.model.errors": ("errors",),
    "mainspring.model.fanout": ("CursorView", "FanoutPolicy", "FanoutPolicyView", "Slice"),
    "mainspring.model.inbox": ("Admission", "InboxView"),
    "mainspring.model.join": ("JoinOutcome", "JoinReceipt"),
    "mainspring.model.lease": ("LeaseView",),
    "mainspring.model.message": ("Cancelled", "Keep", "Priority", "Receipt"),
    "mainspring.model.verdict": ("Cancel", "Done", "Snooze"),
    "mainspring.model.retention": ("Retention",),
    "mainspring.telemetry.events": ("events",),
    "mainspring.telemetry.logs": ("JsonLines",),
    "mainspring.storage.codec": ("Codec", "JsonCodec", "MsgpackCodec"),
    "mainspring.timing.backoff": ("NO_RETRY", "RetryPolicy", "exponential", "intervals", "proportional"),
    "mainspring.timing.breaker": ("Breaker", "breaker"),
    "mainspring.timing.cron": ("Cron", "CronError"),
    "mainspring.timing.rhythm": ("every",),
}
_MODULES = ("errors", "events")
_HOME = {name: module for module, names in _HOMES.items() for name in names}

# Hidden from type checkers: they would believe that every name is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for: ``mainspring --version`` needs none of them."""
        module = _HOME.get(name)
        if module is None:
            raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
        home = import_module(module)
        value = home if name in _MODULES else getattr(home, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
