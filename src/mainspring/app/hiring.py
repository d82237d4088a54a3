"""A worker for an app: its handlers, its declarations, its schedules and its settings put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.app.config import Options
from mainspring.app.post import Post
from mainspring.app.registration import Registration
from mainspring.runtime.schedules.reconciliation import Declared
from mainspring.runtime.schedules.timekeeper import Scheduling
from mainspring.runtime.settings import WorkerSettings, owner_name
from mainspring.runtime.worker import Worker
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.measures import Meters


def hire(
    storage: Storage,
    chosen: Sequence[Registration],
    name: str | None,
    options: Options,
    post: Post,
    schedules: Mapping[str, Declared],
    bus: Bus,
    meters: Meters,
) -> Worker:
    """A worker that serves the chosen consumers, and looks after every schedule of the app; it is not started."""
    settings = WorkerSettings(
        app=options.name,
        name=name or owner_name(),
        claim_time=options.claim_time,
        grace=options.grace,
        idle_poll=options.idle_poll,
        retention=options.retention,
    )
    lending = post.lending(storage.lender(options.handler_pool))
    outermost = post.outermost()
    handlers = [each.handler(post, lending, outermost) for each in chosen]
    declarations = [each.declaration(options.name, options.version) for each in chosen]
    scheduling = Scheduling(settings.app, schedules, options.version)
    meter = meters.hire()
    worker = Worker(storage, handlers, declarations, settings, post.clock, bus, scheduling, meter)
    meter.worker = worker
    return worker
