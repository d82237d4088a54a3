"""The metrics of an app: this process' counts, and the database's, for Prometheus, OpenTelemetry and the app itself."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import secrets
import socket
import sys
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, get_args

from mainspring.app.batcher import Counts
from mainspring.app.blocking import in_loop
from mainspring.app.connection import Connection
from mainspring.model.errors import MainspringError, NotGranted, NotOpen
from mainspring.model.health import ORDER, Check
from mainspring.model.lease import LeaseTrouble
from mainspring.model.schedule import Schedule, Timesheet
from mainspring.model.views import Roster, Tally
from mainspring.storage.contract import BellMode, PoolUse, Storage
from mainspring.telemetry import metrics as catalogue
from mainspring.telemetry.measures import CountedLink, Meters
from mainspring.telemetry.metrics import (
    CONTENT_TYPE,
    Distribution,
    Family,
    Metric,
    check_extra,
    exposition,
    meter_provider,
    observe,
)

if TYPE_CHECKING:
    from mainspring.app.lease.leases import LeaseRenewal
    from mainspring.app.observe.health import Examiner
    from mainspring.app.place import Place

__all__ = ["CONTENT_TYPE", "LEASE", "Metrics", "OtelMetrics"]

_logger = logging.getLogger("mainspring.app")
TTL = timedelta(seconds=60)
_PATIENCE = 5.0
"""Seconds that the database has to respond: a scrape does not wait for long."""
_FAREWELL = 0.5
"""Seconds for releasing the lease."""
_SDK = "opentelemetry.sdk.metrics"


class Metrics:
    """The counts of this process, and access to those of the database.

    It keeps no reference to the app: a meter provider, which reads the metrics, may outlive it.
    """

    def __init__(
        self,
        app: str,
        connection: Connection,
        of: weakref.ref[Place],
        *,
        exported: bool = True,
    ) -> None:
        self.meters: Meters = Meters()
        self._app = app
        self._connection = connection
        self._of = of
        self._exported = exported
        self._turn = Turn(LEASE)
        self._ungranted: str | None = None
        """The missing right that is logged already."""

    def count(self, *publishers: Counts) -> None:
        """Count what these publish. A connection also checks, when it opens, for OpenTelemetry."""
        for each in publishers:
            each.published = self.meters.published
            if isinstance(each, Connection):
                each.before_open.append(self._register)

    def observed(self) -> AbstractAsyncContextManager[None]:
        """Export a worker's metrics to OpenTelemetry while it runs, if its SDK is imported."""
        return self._otel.kept() if self._exported and _SDK in sys.modules else nullcontext()

    def _register(self) -> None:
        if self._exported and _SDK in sys.modules:
            self._otel.register()

    @functools.cached_property
    def _otel(self) -> OtelMetrics:
        scope = {"mainspring.app": self._app}
        here, call = self._connection, "app.worker()"
        return OtelMetrics(lambda: self.of_process(here), lambda: self.awaited(here, call), scope)

    async def text(self, connection: Connection) -> str:
        """See ``Mainspring.metrics``."""
        check_extra()  # first: a process that can report nothing must not take the lease of the one that reports
        return exposition([*self.of_process(connection), *await self.awaited(connection, "app.metrics()")])

    async def awaited(self, connection: Connection, call: str) -> list[Family]:
        """Return the metrics that have to be waited for: of health, and of the database."""
        if not in_loop():
            return [*await self._of_health(), *await self.of_database(connection, call)]
        here, stored = await asyncio.gather(self._of_health(), self.of_database(connection, call))
        return [*here, *stored]

    def lease_troubles(self) -> list[LeaseTrouble]:
        """Return the leases of this process that were not renewed in time."""
        return [trouble for each in self._renewals() for trouble in each.troubles()]

    def _renewals(self) -> list[LeaseRenewal]:
        """Return what renews the leases of this process, if the app still exists."""
        place = self._of()
        # Via vars(): an app that never held a lease creates no ``leases``.
        sides = () if place is None else (vars(place.front), vars(place.back))
        return [side["leases"]._operations.keeping for side in sides if "leases" in side]  # noqa: SLF001 - not public

    def _examiner(self) -> Examiner | None:
        """Return what checks the health of the app, if it still exists."""
        place = self._of()
        return None if place is None else place.front.examiner

    async def _of_health(self) -> list[Family]:
        examiner = self._examiner()
        return [] if examiner is None else [statuses(catalogue.HEALTH, await examiner.of_process())]

    def of_process(self, connection: Connection) -> list[Family]:
        """Return this process' metrics. Thread-safe."""
        groups = dict(sorted(self.meters.groups().items()))
        workers, loops = self.meters.workers(), self.meters.loops()
        tripped = {group for worker in workers for group in worker.pauses()}
        mode = connection.bell
        return [
            _family(catalogue.PUBLISHED, self.meters.topics().items()),
            Family(
                catalogue.SETTLED,
                [
                    ((group, status), count)
                    for group, counted in groups.items()
                    for status, count in counted.statuses.items()
                ],
            ),
            Family(
                catalogue.WAIT, [((group,), Distribution(each.wait, each.waited)) for group, each in groups.items()]
            ),
            Family(catalogue.RUN, [((group,), Distribution(each.run, each.ran)) for group, each in groups.items()]),
            Family(catalogue.IN_HAND, [((), sum(worker.in_hand for worker in workers))]),
            _family(catalogue.BREAKER, ((group, 1) for group in sorted(tripped))),
            _family(catalogue.BELL, ((each, each == mode) for each in get_args(BellMode) if mode is not None)),
            Family(catalogue.LEASES_HELD, [((), sum(each.held for each in self._renewals()))]),
            _family(catalogue.LEASE_EVENTS, self.meters.lease_events().items()),
            Family(catalogue.BROKER_EVENTS, [(key, count) for key, count in sorted(self.meters.brokers().items())]),
            *_links(link for worker in workers for link in worker.links()),
            *_pool(connection.pool),
            _family(catalogue.TURNS, ((loop, each.turns) for loop, each in loops.items())),
            _family(catalogue.FAILURES, ((loop, each.failed) for loop, each in loops.items())),
        ]

    async def of_database(self, connection: Connection, call: str) -> list[Family]:
        """Return the database's metrics, if this process reports them; and whether it answers at all."""
        storage = await connection.storage(call)
        up = await _answers(storage)
        found = [Family(catalogue.UP, [((), int(up))])]
        try:
            async with _patience():
                if up and await self._turn.ours(connection, storage):
                    found += [*await read_database(storage), *await self._of_checks(storage)]
        except NotOpen:
            raise
        except NotGranted as error:
            if self._ungranted != str(error):  # once: a scrape changes nothing about it
                self._ungranted = str(error)
                _logger.warning("the role of this process may not read the database's metrics: %s", error)
        except (MainspringError, TimeoutError) as error:
            _logger.warning("failed to read the database's metrics: %s", error)
        return found

    async def _of_checks(self, storage: Storage) -> list[Family]:
        examiner = self._examiner()
        return [] if examiner is None else [statuses(catalogue.DATABASE_HEALTH, await examiner.of_database(storage))]


class Turn:
    """The election of the process that reports on the database: it holds the lease by scraping in time.

    It keeps no reference to the app, which a connection outlives while the database closes.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._holder = ("", 0)
        self._epoch: int | None = None
        self._doors: set[int] = set()

    async def ours(self, connection: Connection, storage: Storage) -> bool:
        """Return whether this process reports. Renews the lease."""
        if id(connection) not in self._doors:
            self._doors.add(id(connection))
            connection.before_close.append(self._leave)
        granted = await storage.leases.acquire(self._name, self._as(), TTL)
        self._epoch = None if granted is None else granted.epoch
        return granted is not None

    def _as(self) -> str:
        # Constant, so that acquiring it again renews it; another one in a forked child.
        holder, pid = self._holder
        if pid != os.getpid():
            holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
            self._holder = holder, os.getpid()
        return holder

    async def _leave(self, storage: Storage) -> None:
        """Release it for another process."""
        if self._epoch is None or self._holder[1] != os.getpid():
            return
        epoch, self._epoch = self._epoch, None
        try:
            # Closing waits for more than this, and a lease that is not released expires.
            async with _patience(_FAREWELL):
                await storage.leases.release(self._name, epoch, self._holder[0])
        except (MainspringError, TimeoutError):
            return


async def _answers(storage: Storage) -> bool:
    """Return whether the database answers: nothing is read, and no right is needed."""
    try:
        async with _patience():
            await storage.ping()
    except (MainspringError, TimeoutError):
        return False
    return True


def _family(metric: Metric, samples: Iterable[tuple[str, float]]) -> Family:
    return Family(metric, [((label,), value) for label, value in samples])


def statuses(metric: Metric, checks: Iterable[Check]) -> Family:
    """Return the results of checks as numbers."""
    return _family(metric, {each.name: ORDER.index(each.status) for each in checks}.items())


def _pool(use: PoolUse | None) -> list[Family]:
    if use is None:
        return []
    numbers = (catalogue.POOL_SIZE, catalogue.POOL_BUSY, catalogue.POOL_WAITS, catalogue.POOL_WAITED)
    return [Family(metric, [((), number)]) for metric, number in zip(numbers, use, strict=True)]


def _links(links: Iterable[tuple[str, CountedLink]]) -> list[Family]:
    up: dict[str, int] = {}
    lags: dict[str, int] = {}
    for name, link in sorted(links, key=itemgetter(0)):
        up[name] = max(up.get(name, 0), link.is_open)
        if link.lag is not None:
            lags[name] = max(lags.get(name, 0), link.lag)
    return [_family(catalogue.BROKER_UP, up.items()), _family(catalogue.BROKER_LAG, lags.items())]


def _patience(seconds: float = _PATIENCE) -> AbstractAsyncContextManager[object]:
    # Without a loop, as in a blocking test, a timeout is impossible.
    return asyncio.timeout(seconds) if in_loop() else nullcontext()


LEASE = "mainspring.gauges"
"""The lease of the reporting process."""
FLEET_LEASE = "mainspring.fleet.gauges"
"""That of the process which reports on all databases of a fleet, in the one that keeps what concerns all."""
CAP = 100_000
"""The most deliveries that are counted in each state."""
_PAGE = 1_000
_PAGES = 10
_STATES = ("scheduled", "ready", "running", "lapsed", "dead")


async def read_database(storage: Storage, tally: Tally | None = None) -> list[Family]:
    """Read all metrics, but for a tally that was read already. Read-only."""
    tally = tally or await storage.ledger.tally(CAP)
    roster = await storage.ledger.roster()
    sheet = await storage.timetable.read()
    leases = await _leases(storage)
    return [*_deliveries(tally), *_roster(roster), *_schedules(sheet), leases]


def _deliveries(tally: Tally) -> list[Family]:
    groups = {each.group: each for each in tally.groups}
    ages = {
        group: tally.now - (tally.now if each.oldest_ready_at is None else each.oldest_ready_at)
        for group, each in groups.items()
    }
    return [
        Family(
            catalogue.DELIVERIES,
            [((group, state), getattr(each, state)) for group, each in groups.items() for state in _STATES],
        ),
        Family(catalogue.OLDEST, [((group,), age.total_seconds()) for group, age in ages.items()]),
        Family(catalogue.PARKED, [((), tally.parked)]),
    ]


def _roster(roster: Roster) -> list[Family]:
    alive = len(roster.alive())
    return [
        Family(catalogue.PAUSED, [((each.name,), each.paused_at is not None) for each in roster.groups]),
        Family(catalogue.WORKERS, [(("alive",), alive), (("silent",), len(roster.workers) - alive)]),
    ]


def _schedules(sheet: Timesheet) -> list[Family]:
    frozen = {each.app for each in sheet.freezes}
    late = [((each.name,), _lateness(each, sheet, frozen).total_seconds()) for each in sheet.schedules]

    def counted(metric: Metric, field: str) -> Family:
        return Family(metric, [((each.name,), getattr(each, field)) for each in sheet.schedules])

    counts = ((catalogue.FIRED, "fired"), (catalogue.MISSED, "missed"), (catalogue.SKIPPED, "skipped"))
    return [Family(catalogue.LATENESS, [*late]), *(counted(*each) for each in counts)]


def _lateness(schedule: Schedule, sheet: Timesheet, frozen: set[str]) -> timedelta:
    stands = schedule.paused_at is not None or schedule.retired_at is not None or bool(frozen & {"", schedule.app})
    if stands or schedule.next_at is None:
        return timedelta()
    return max(sheet.now - schedule.next_at, timedelta())


async def _leases(storage: Storage) -> Family:
    """Count the application's leases, without those of the reporting process."""
    states: Counter[str] = Counter({"held": 0, "expired": 0})
    last: str | None = None
    for _ in range(_PAGES):
        rows = await storage.leases.browse(last, _PAGE)
        states.update(row.state for row in rows if row.state != "free" and row.name not in (LEASE, FLEET_LEASE))
        if len(rows) < _PAGE:
            break
        last = rows[-1].name
    return Family(catalogue.LEASES, [((state,), count) for state, count in states.items()])


EVERY = 15.0
"""Seconds between two reads of the database."""


class OtelMetrics:
    """The metrics of an app or a fleet, exported to the meter provider that is configured in this process, if any.

    Readers run in threads of their own, which cannot wait for the database: while a worker runs here, it is read
    regularly, if this process reports on it.
    """

    def __init__(
        self,
        of_process: Callable[[], Iterable[Family]],
        awaited: Callable[[], Awaitable[Iterable[Family]]],
        scope: Mapping[str, str],
    ) -> None:
        self._of_process = of_process
        self._read_awaited = awaited
        self._scope = scope
        """What tells its numbers from those of other apps."""
        self._shown = False
        self._awaited: Iterable[Family] = ()

    def register(self) -> bool:
        """Return whether a provider observes; registers with one that was configured since."""
        if not self._shown and (provider := meter_provider()) is not None:
            self._shown = True
            try:
                observe(provider, self.read, self._scope)
            except Exception:
                # Whatever a provider raises, the app opens and works.
                name = self._scope["mainspring.app"]
                _logger.exception("the configured meter provider does not observe the metrics of %r", name)
        return self._shown

    def read(self) -> Mapping[str, Family]:
        """Return the current metrics, by name. Thread-safe."""
        return {each.metric.name: each for each in (*self._of_process(), *self._awaited)}

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Read the database regularly while a worker runs, if a provider observes."""
        if not self.register():
            yield
            return
        refreshing = asyncio.create_task(self._keep_refreshing(), name="mainspring-metrics")
        try:
            yield
        finally:
            refreshing.cancel()
            await asyncio.wait([refreshing])
            self._awaited = ()

    async def refresh(self) -> None:
        """Read the database once."""
        self._awaited = await self._read_awaited()

    async def _keep_refreshing(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception:
                _logger.exception("failed to read the database's metrics")
            await asyncio.sleep(EVERY)
