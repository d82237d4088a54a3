"""Builder of an app's worker: its handlers, declarations, schedules and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.app.config import Options
from mainspring.app.consume.registration import Registration
from mainspring.app.publish.publisher import Publisher
from mainspring.runtime.schedules.timekeeper import Declared, Scheduling
from mainspring.runtime.settings import WorkerSettings, owner_name
from mainspring.runtime.worker import Worker
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.measures import Meters


def build_worker(
    storage: Storage,
    chosen: Sequence[Registration],
    name: str | None,
    options: Options,
    publisher: Publisher,
    schedules: Mapping[str, Declared],
    bus: Bus,
    meters: Meters,
) -> Worker:
    """Build a worker for the chosen consumers and every schedule of the app; it is not started."""
    settings = WorkerSettings(
        app=options.name,
        name=name or owner_name(),
        claim_time=options.claim_time,
        grace=options.grace,
        idle_poll=options.idle_poll,
        retention=options.retention,
    )
    lending = publisher.lending(storage.lender(options.handler_pool))
    outermost = publisher.outermost()
    handlers = [each.handler(publisher, lending, outermost) for each in chosen]
    declarations = [each.declaration(options.name, options.version) for each in chosen]
    scheduling = Scheduling(settings.app, schedules, options.version)
    meter = meters.new_meter()
    worker = Worker(storage, handlers, declarations, settings, publisher.clock, bus, scheduling, meter)
    meter.worker = worker
    return worker
