"""The health of a fleet as its probes report it: that of the process, and of databases that are read in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainspring.app.fleet.report import fleet_health
from mainspring.app.fleet.state import FleetState, summary
from mainspring.app.observe import custom_checks
from mainspring.app.observe.custom_checks import LIVE, READY
from mainspring.model.errors import NotOpen
from mainspring.model.health import Check, Health, health_of, worst

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet

_AGE = 15.0
"""How old what is known of a database may be, as far as the survey allows."""
_PATIENCE = 5.0
"""Seconds for which the first call waits for readings."""


class FleetExaminer:
    """Runs the checks of a fleet. It opens no database itself, and one that is dead makes no other check wait."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def live(self) -> Health:
        """Run the application's checks with the tag ``live``."""
        begun = time.monotonic()
        return health_of(await self._own(LIVE), time.monotonic() - begun)

    async def ready(self) -> Health:
        """Check what is known without a reading: whether databases are known, and whether a worker can use them."""
        begun = time.monotonic()
        checks = [*FleetState(self._fleet).checks(), *await self._own(READY)]
        return health_of(checks, time.monotonic() - begun)

    async def all(self) -> Health:
        """Check everything: degraded if some database is not healthy, unhealthy if all are."""
        begun = time.monotonic()
        survey, state = self._fleet._survey, FleetState(self._fleet)  # noqa: SLF001 - a part of the fleet
        own = [*state.checks(), *await self._own(None)]
        try:
            survey.ask(_AGE, "fleet.health()")
        except NotOpen:
            return health_of(own, time.monotonic() - begun)
        await survey.caught_up(_PATIENCE)
        read = {name: each.health for name, each in survey.read().items() if each is not None}
        found = fleet_health(read, own, None, state.rejected, begun)
        unwell = {name: _reason(each) for name, each in read.items() if each.status != "healthy"}
        unread = len(state.names) - len(read)
        told = summary("health", len(state.names), unwell)
        if unread:
            told = Check(told.name, told.status, f"{told.summary}; {unread} not read yet", told.data)
        each = [Check(f"database {name}", read[name].status, why) for name, why in unwell.items()]
        shown = health_of([*found.checks, told, *each], found.seconds)
        return Health(found.status, shown.checks, shown.seconds)

    async def _own(self, tag: str | None) -> Sequence[Check]:
        """Run the checks that are registered by ``app.health.check``, once for all databases."""
        own = self._fleet._app._own.place.custom_checks  # noqa: SLF001 - a part of the fleet
        return await custom_checks.run(own.chosen(None if tag is None else [tag]))


def _reason(health: Health) -> str:
    """Return the summaries of the worst checks."""
    status = worst(each.status for each in health.checks)
    return "; ".join(each.summary for each in health.checks if each.status == status)
