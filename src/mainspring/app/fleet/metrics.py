"""The metrics of a fleet: of each database with its name as a label, and of the fleet itself."""

from __future__ import annotations

import asyncio
import functools
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mainspring.app.fleet.member import Member
from mainspring.app.fleet.state import FleetState
from mainspring.app.observe import custom_checks
from mainspring.app.observe.metrics import FLEET_LEASE, OtelMetrics, Turn, statuses
from mainspring.model.errors import MainspringError
from mainspring.model.health import Check
from mainspring.telemetry import metrics as catalogue
from mainspring.telemetry.metrics import Family, by_database, check_extra, exposition

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet

_SDK = "opentelemetry.sdk.metrics"
_AGE = 30.0
"""How old the metrics of a database may be, as far as the survey allows."""
_PATIENCE = 1.0
"""Seconds for which the first scrape waits for readings."""
_ELECTION = 2.0
"""Seconds that the database has to respond which elects the process that reports."""


class FleetMetrics:
    """What this process counts for each database that it has used, and what the databases hold.

    A scrape opens no database: the survey reads them in turns, and every reading has its age. It keeps no reference to
    the fleet: a meter provider may outlive it.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._of = weakref.ref(fleet)
        self._name = fleet._code.options.name  # noqa: SLF001 - a part of the fleet
        self._turn = Turn(FLEET_LEASE)

    async def text(self, call: str = "fleet.metrics()") -> str:
        """See ``Fleet.metrics``."""
        check_extra()
        return exposition([*self.of_process(), *await self.awaited(call)])

    def register(self) -> None:
        """Export to OpenTelemetry, if its SDK is imported."""
        if _SDK in sys.modules:
            self._otel.register()

    @asynccontextmanager
    async def observed(self) -> AsyncIterator[None]:
        """Read the databases regularly while a worker runs, if a provider observes."""
        if _SDK not in sys.modules:
            yield
            return
        async with self._otel.kept():
            yield

    @functools.cached_property
    def _otel(self) -> OtelMetrics:
        # Apart from an app that has a database of its own besides the fleet that it leads.
        scope = {"mainspring.app": self._name, "mainspring.part": "fleet"}
        return OtelMetrics(self.of_process, functools.partial(self.awaited, "fleet.worker()"), scope)

    def of_process(self) -> list[Family]:
        """Return what this process counts: of each database that it has used, and of the fleet. Thread-safe."""
        fleet = self._of()
        if fleet is None:
            return []
        members = tuple(fleet._members.values())  # noqa: SLF001
        used = {each.name: each.place.metrics.of_process(each.connection) for each in members if _is_used(each)}
        state = FleetState(fleet)
        counts = {"known": len(members), "open": state.open, "trouble": len(state.troubles)}
        own = [
            Family(catalogue.FLEET_DATABASES, [((name,), count) for name, count in counts.items()]),
            Family(catalogue.FLEET_DISCOVERY, [((), state.discovery_age)]),
            Family(catalogue.FLEET_WAITING, [((), state.waiting)]),
        ]
        return by_database({"": own, **used})

    async def awaited(self, call: str) -> list[Family]:
        """Return what has to be waited for: of health, and of the databases, if this process reports them."""
        fleet = self._of()
        if fleet is None:
            return []
        survey = fleet._survey  # noqa: SLF001
        survey.ask(_AGE, call, metered=True)
        _, reports = await asyncio.gather(survey.caught_up(_PATIENCE), self._reports(fleet))
        found: dict[str, list[Family]] = {"": [statuses(catalogue.HEALTH, await self._of_health(fleet))]}
        for name, reading in survey.read().items():
            if reading is None:
                continue
            families = found[name] = [Family(catalogue.UP, [((), int(reading.error is None))])]
            if reports and (age := survey.age(name)) is not None and reading.families:
                families += [*reading.families, Family(catalogue.READING_AGE, [((), age)])]
        return by_database(found)

    @staticmethod
    async def _of_health(fleet: Fleet) -> list[Check]:
        own = fleet._app._own.place.custom_checks  # noqa: SLF001 - registered by app.health.check
        return [*FleetState(fleet).checks(), *await custom_checks.recent(own.chosen(None))]

    async def _reports(self, fleet: Fleet) -> bool:
        """Return whether this process reports on the databases: one does, if the fleet names a home."""
        if fleet._home_name is None or fleet._home_name not in fleet:  # noqa: SLF001
            return True
        home = fleet._home("fleet.metrics()").connection  # noqa: SLF001
        try:
            async with asyncio.timeout(_ELECTION):
                return await self._turn.ours(home, await home.storage("fleet.metrics()"))
        except (MainspringError, OSError, TimeoutError):
            return True  # rather twice than not at all: the others can be read


def _is_used(member: Member) -> bool:
    """Return whether this process has counted anything there: what it never used has only zeros."""
    meters = member.place.metrics.meters
    return member.connection.used_at > 0 or bool(meters.topics() or meters.loops() or meters.groups())
