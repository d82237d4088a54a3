"""The numbers of an app: how much waits, who is there, what became of it all."""

from __future__ import annotations

import functools
import sys
import weakref
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Self

from mainspring.app.config import Options
from mainspring.app.counted import Counts
from mainspring.app.door import Door
from mainspring.app.operations import Operations
from mainspring.model.measures import MeasuresView, PacesView, Window
from mainspring.model.views import AuditView, Roster, Tally
from mainspring.telemetry.measures import Meters
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.measured import Measured
    from mainspring.app.metrics import Metrics
    from mainspring.app.observing import Observing
    from mainspring.app.sync import Sync

_SDK = "opentelemetry.sdk.metrics"


class Numbers:
    """The part of an app that counts, and tells what was counted."""

    _door: Door
    _operations: Operations
    _options: Options
    _meters: Meters
    sync: Sync
    _front: Self | None

    @functools.cached_property
    def _metrics(self) -> Metrics:
        if self._front is not None:
            return self._front._metrics  # noqa: SLF001 - of the same class
        from mainspring.app.metrics import Metrics

        return Metrics(self._meters, functools.partial(_leases_held, weakref.ref(self)))

    @functools.cached_property
    def _measured(self) -> Measured:
        from mainspring.app.measured import Measured

        return Measured(self._door, self._metrics)

    @functools.cached_property
    def _observing(self) -> Observing:
        from mainspring.app.observing import Observing

        return Observing(self._metrics, self._door, self._options.name)

    def _observed(self) -> AbstractAsyncContextManager[None]:
        """Around a worker: nothing at all where nobody uses the SDK of OpenTelemetry."""
        return self._observing.kept() if _SDK in sys.modules else nullcontext()

    def _count(self, *whose: Counts) -> None:
        """Begin to count, also what is published through these."""
        self._meters = Meters()
        for each in whose:
            each.published = self._meters.published
            if isinstance(each, Door):
                each.greetings.append(functools.partial(_greet, weakref.ref(self)))

    async def tally(self, cap: int = 100_000) -> Tally:
        """Every group's deliveries by state, each counted up to ``cap``."""
        return await self._operations.tally(cap)

    async def roster(self) -> Roster:
        """The declared groups and the workers that reported themselves."""
        return await self._operations.roster()

    async def audit(self, *, before: int | None = None, limit: int = 50) -> list[AuditView]:
        """What operators did, newest first."""
        return await self._operations.audit(before, limit)

    async def note(self, action: str, subject: str, *, by: str, detail: str = "") -> None:
        """Write a line of your own into the audit: what was done, on what, and by whom."""
        await self._operations.note(action, subject, by, detail)

    async def measures(self, window: Window = "15m", group: str | None = None) -> MeasuresView:
        """What became of deliveries within a window, of one group or all, and how long they waited and ran.

        ``15m`` and ``2h`` come in buckets of ten seconds, ``24h`` and ``7d`` in buckets of ten minutes.
        """
        return await self._measured.measures(window, group)

    async def paces(self, over: Duration = "1m") -> PacesView:
        """How fast each group goes: what became of its deliveries lately, up to two hours back."""
        return await self._measured.paces(over)

    async def metrics(self) -> str:
        """What this process has counted, for Prometheus, and what is in the database where no other process tells it.

        Needs the extra ``prometheus``. It tells what it can while the database is away.
        """
        return await self._measured.metrics()


# Neither holds the app: who observes metrics, and a door, may outlive it.


def _leases_held(of: weakref.ref[Numbers]) -> int:
    app = of()
    # Looked up, not asked for: who never held a lease has no part of it made.
    sides = () if app is None else (vars(app), vars(app.sync))
    return sum(side["leases"].held for side in sides if "leases" in side)


def _greet(of: weakref.ref[Numbers]) -> None:
    app = of()
    if app is not None and _SDK in sys.modules:
        app._observing.look()  # noqa: SLF001 - of the same class
