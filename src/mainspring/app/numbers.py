"""The numbers of an app: what this process counts, and what the database holds of runs, waits and paces."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, get_args

from mainspring.app.counted import Counts
from mainspring.app.door import Door
from mainspring.app.names import check_group
from mainspring.app.options import length
from mainspring.model.errors import BadOption
from mainspring.model.measures import SPANS, WINDOWS, MeasuresView, PacesView, Window, by_group, by_time
from mainspring.telemetry.measures import Meters
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring
    from mainspring.app.metrics import Metrics
    from mainspring.app.observing import Observing

_SDK = "opentelemetry.sdk.metrics"
_SHORTEST = timedelta(seconds=10)
_LONGEST = SPANS[min(SPANS)] - _SHORTEST


class Numbers:
    """Counts what happens in this process, and reads what the database has counted.

    It does not hold the app: a meter provider, which reads the numbers, may outlive it.
    """

    def __init__(self, app: str, door: Door, leases_held: Callable[[], int]) -> None:
        self.meters: Meters = Meters()
        self._app = app
        self._door = door
        self._leases_held = leases_held

    def count(self, *publishers: Counts) -> None:
        """Count what these publish. A door also looks, when it opens, whether OpenTelemetry observes."""
        for each in publishers:
            each.published = self.meters.published
            if isinstance(each, Door):
                each.greetings.append(self._look)

    def observed(self) -> AbstractAsyncContextManager[None]:
        """Around a worker: show its metrics to OpenTelemetry, where the program uses its SDK."""
        return self._observing.kept() if _SDK in sys.modules else nullcontext()

    async def measures(self, door: Door, window: Window, group: str | None) -> MeasuresView:
        """See ``Mainspring.measures``."""
        if window not in WINDOWS:
            raise BadOption(f"window={window!r} must be one of {', '.join(map(repr, get_args(Window)))}")
        span, many = WINDOWS[window]
        counted = "" if group is None else check_group(group)  # the empty name has all groups together
        storage = await door.storage("app.measures()")
        back = timedelta(seconds=span) * (many - 1)
        return by_time(await storage.measures.read(span, back, counted), window)

    async def paces(self, door: Door, over: Duration) -> PacesView:
        """See ``Mainspring.paces``."""
        back = length(over, "over", least=_SHORTEST, most=_LONGEST)
        storage = await door.storage("app.paces()")
        return by_group(await storage.measures.paces(back), back)

    async def metrics(self, door: Door) -> str:
        """See ``Mainspring.metrics``."""
        return await self._metrics.text(door, "app.metrics()")

    @functools.cached_property
    def _metrics(self) -> Metrics:
        from mainspring.app.metrics import Metrics

        return Metrics(self.meters, self._leases_held)

    @functools.cached_property
    def _observing(self) -> Observing:
        from mainspring.app.observing import Observing

        return Observing(self._metrics, self._door, self._app)

    def _look(self) -> None:
        if _SDK in sys.modules:
            self._observing.look()


def leases_held(of: weakref.ref[Mainspring]) -> int:
    """How many leases this process holds through an app, if that is still there."""
    app = of()
    # Looked up, not asked for: an app that never held a lease has no part of it made.
    sides = () if app is None else (vars(app), vars(app.sync))
    return sum(side["leases"].held for side in sides if "leases" in side)
