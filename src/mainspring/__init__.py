"""Messages, timers and schedules on the database an application already has."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.app.admin.dead_letters import Revived
    from mainspring.app.admin.search import SearchPage
    from mainspring.app.broker.brokers import BrokerCheck, BrokerDeclared
    from mainspring.app.broker.route import RouteOptions
    from mainspring.app.broker.state import BrokerState, BrokerView
    from mainspring.app.config import AppOptions, Options
    from mainspring.app.consume.consumer import Consumed, Registrar, SyncConsumed
    from mainspring.app.consume.consumers import ConsumerOptions
    from mainspring.app.consume.context import BatchContext, Context, SyncContext
    from mainspring.app.consume.injection import Depends, Resolver
    from mainspring.app.consume.middleware import LogContext, Middleware, Outgoing, ReportErrors, SlowHandlers
    from mainspring.app.consume.signature import Consumer
    from mainspring.app.fanout.coordinator import PlannedWindow
    from mainspring.app.fanout.declaration import Fanout, FanoutOptions, FanoutRegistrar
    from mainspring.app.fanout.fanouts import FanoutView
    from mainspring.app.fleet.databases import Database
    from mainspring.app.fleet.fleet import Fleet
    from mainspring.app.fleet.report import FleetHealth, FleetReport
    from mainspring.app.fleet.router import RoutedMessage
    from mainspring.app.fleet.worker import FleetWorker
    from mainspring.app.lease.lease import Lease, SyncLease
    from mainspring.app.mainspring import Mainspring
    from mainspring.app.message.envelope import JoinOptions, PublishOptions, SendOptions
    from mainspring.app.message.unique import Unique, unique
    from mainspring.app.options import Setting
    from mainspring.app.page import Page
    from mainspring.app.queue.item import ExtendedItems, Item, SettledItems
    from mainspring.app.queue.queue import Queue, SyncQueue
    from mainspring.app.schedule.occurrence import OnceOptions, ScheduleOptions
    from mainspring.app.schedule.recurring import RecurringOptions
    from mainspring.app.schedule.timing import TimingOptions
    from mainspring.app.schedule.view import ScheduleView
    from mainspring.model import errors
    from mainspring.model.fanout import CursorView, FanoutPolicy, FanoutPolicyView, SeekResult, Slice
    from mainspring.model.health import Check, Health, HealthLimits
    from mainspring.model.inbox import Admission, InboxKey, InboxView
    from mainspring.model.join import Follower, JoinOutcome, JoinReceipt, JoinView
    from mainspring.model.lease import LeaseView
    from mainspring.model.measures import Bucket, Histogram, MeasuresView, RatesView
    from mainspring.model.message import Cancelled, Claim, Keep, Priority, Receipt, ReleasedClaims
    from mainspring.model.move import Move
    from mainspring.model.retention import Pruned, Retention
    from mainspring.model.search import Causes, CauseView, Chain, Filter, Link
    from mainspring.model.verdict import Bury, Cancel, Done, Failure, Retry, Snooze
    from mainspring.model.views import (
        AuditView,
        BrokerLink,
        Counts,
        Declaration,
        DeliveryView,
        GroupView,
        MessageView,
        Roster,
        RunTimes,
        RunView,
        Tally,
        WorkerView,
    )
    from mainspring.storage.codec import Codec, JsonCodec, MsgpackCodec
    from mainspring.telemetry import events
    from mainspring.telemetry.logs import JsonLines
    from mainspring.testing.kit import Testing
    from mainspring.testing.records import DeadLetter, Pending, Ran, Sent
    from mainspring.testing.relays import Relayed
    from mainspring.timing.backoff import NO_RETRY, RetryPolicy, exponential, intervals, proportional
    from mainspring.timing.breaker import Breaker, breaker
    from mainspring.timing.cron import Cron, CronError
    from mainspring.timing.rhythm import every

__all__ = [
    "NO_RETRY",
    "Admission",
    "AppOptions",
    "AuditView",
    "BatchContext",
    "Breaker",
    "BrokerCheck",
    "BrokerDeclared",
    "BrokerLink",
    "BrokerState",
    "BrokerView",
    "Bucket",
    "Bury",
    "Cancel",
    "Cancelled",
    "CauseView",
    "Causes",
    "Chain",
    "Check",
    "Claim",
    "Codec",
    "Consumed",
    "Consumer",
    "ConsumerOptions",
    "Context",
    "Counts",
    "Cron",
    "CronError",
    "CursorView",
    "Database",
    "DeadLetter",
    "Declaration",
    "DeliveryView",
    "Depends",
    "Done",
    "ExtendedItems",
    "Failure",
    "Fanout",
    "FanoutOptions",
    "FanoutPolicy",
    "FanoutPolicyView",
    "FanoutRegistrar",
    "FanoutView",
    "Filter",
    "Fleet",
    "FleetHealth",
    "FleetReport",
    "FleetWorker",
    "Follower",
    "GroupView",
    "Health",
    "HealthLimits",
    "Histogram",
    "InboxKey",
    "InboxView",
    "Item",
    "JoinOptions",
    "JoinOutcome",
    "JoinReceipt",
    "JoinView",
    "JsonCodec",
    "JsonLines",
    "Keep",
    "Lease",
    "LeaseView",
    "Link",
    "LogContext",
    "Mainspring",
    "MeasuresView",
    "MessageView",
    "Middleware",
    "Move",
    "MsgpackCodec",
    "OnceOptions",
    "Options",
    "Outgoing",
    "Page",
    "Pending",
    "PlannedWindow",
    "Priority",
    "Pruned",
    "PublishOptions",
    "Queue",
    "Ran",
    "RatesView",
    "Receipt",
    "RecurringOptions",
    "Registrar",
    "Relayed",
    "ReleasedClaims",
    "ReportErrors",
    "Resolver",
    "Retention",
    "Retry",
    "RetryPolicy",
    "Revived",
    "Roster",
    "RouteOptions",
    "RoutedMessage",
    "RunTimes",
    "RunView",
    "ScheduleOptions",
    "ScheduleView",
    "SearchPage",
    "SeekResult",
    "SendOptions",
    "Sent",
    "Setting",
    "SettledItems",
    "Slice",
    "SlowHandlers",
    "Snooze",
    "SyncConsumed",
    "SyncContext",
    "SyncLease",
    "SyncQueue",
    "Tally",
    "Testing",
    "TimingOptions",
    "Unique",
    "WorkerView",
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
    "mainspring.app.consume.signature": ("Consumer",),
    "mainspring.app.broker.brokers": ("BrokerCheck", "BrokerDeclared"),
    "mainspring.app.broker.state": ("BrokerState", "BrokerView"),
    "mainspring.app.broker.route": ("RouteOptions",),
    "mainspring.app.config": ("AppOptions", "Options"),
    "mainspring.app.consume.consumer": ("Consumed", "Registrar", "SyncConsumed"),
    "mainspring.app.consume.consumers": ("ConsumerOptions",),
    "mainspring.app.consume.context": ("BatchContext", "Context", "SyncContext"),
    "mainspring.app.consume.injection": ("Depends", "Resolver"),
    "mainspring.app.fanout.declaration": ("Fanout", "FanoutOptions", "FanoutRegistrar"),
    "mainspring.app.fanout.fanouts": ("FanoutView",),
    "mainspring.app.fleet.databases": ("Database",),
    "mainspring.app.fleet.fleet": ("Fleet",),
    "mainspring.app.fleet.report": ("FleetHealth", "FleetReport"),
    "mainspring.app.fleet.router": ("RoutedMessage",),
    "mainspring.app.fleet.worker": ("FleetWorker",),
    "mainspring.app.message.envelope": ("JoinOptions", "PublishOptions", "SendOptions"),
    "mainspring.app.observe.health": ("Check", "Health", "HealthLimits"),
    "mainspring.app.lease.lease": ("Lease", "SyncLease"),
    "mainspring.app.consume.middleware": ("LogContext", "Middleware", "Outgoing", "ReportErrors", "SlowHandlers"),
    "mainspring.app.fanout.coordinator": ("PlannedWindow",),
    "mainspring.app.queue.item": ("ExtendedItems", "Item", "SettledItems"),
    "mainspring.app.queue.queue": ("Queue", "SyncQueue"),
    "mainspring.app.schedule.occurrence": ("OnceOptions", "ScheduleOptions"),
    "mainspring.app.schedule.recurring": ("RecurringOptions",),
    "mainspring.app.schedule.view": ("ScheduleView",),
    "mainspring.testing.kit": ("Testing",),
    "mainspring.app.schedule.timing": ("TimingOptions",),
    "mainspring.app.message.unique": ("Unique", "unique"),
    "mainspring.model.search": ("CauseView", "Causes", "Chain", "Filter", "Link"),
    "mainspring.model.errors": ("errors",),
    "mainspring.model.fanout": ("CursorView", "FanoutPolicy", "FanoutPolicyView", "SeekResult", "Slice"),
    "mainspring.model.inbox": ("Admission", "InboxKey", "InboxView"),
    "mainspring.model.join": ("Follower", "JoinOutcome", "JoinReceipt", "JoinView"),
    "mainspring.model.lease": ("LeaseView",),
    "mainspring.model.move": ("Move",),
    "mainspring.model.message": ("Cancelled", "Claim", "Keep", "Priority", "Receipt", "ReleasedClaims"),
    "mainspring.model.verdict": ("Bury", "Cancel", "Done", "Failure", "Retry", "Snooze"),
    "mainspring.model.retention": ("Pruned", "Retention"),
    "mainspring.model.views": (
        "AuditView",
        "BrokerLink",
        "Counts",
        "Declaration",
        "DeliveryView",
        "GroupView",
        "MessageView",
        "Roster",
        "RunTimes",
        "RunView",
        "Tally",
        "WorkerView",
    ),
    "mainspring.model.measures": ("Bucket", "Histogram", "MeasuresView", "RatesView"),
    "mainspring.app.options": ("Setting",),
    "mainspring.app.admin.dead_letters": ("Revived",),
    "mainspring.app.admin.search": ("SearchPage",),
    "mainspring.app.page": ("Page",),
    "mainspring.testing.records": ("DeadLetter", "Pending", "Ran", "Sent"),
    "mainspring.testing.relays": ("Relayed",),
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
