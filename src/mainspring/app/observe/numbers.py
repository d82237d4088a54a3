"""The numbers of an app: this process' counts, and the database's of runs, waits and paces."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, get_args

from mainspring.app.batcher import Counts
from mainspring.app.connection import Connection
from mainspring.app.names import check_group
from mainspring.app.options import length
from mainspring.model.errors import BadOption
from mainspring.model.measures import SPANS, WINDOWS, MeasuresView, PacesView, Window, by_group, by_time
from mainspring.telemetry.measures import Meters
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring
    from mainspring.app.observe.metrics import Metrics, OtelMetrics

_SDK = "opentelemetry.sdk.metrics"
_SHORTEST = timedelta(seconds=10)
_LONGEST = SPANS[min(SPANS)] - _SHORTEST


class Numbers:
    """The counts of this process, and access to those of the database.

    It does not hold the app: a meter provider, which reads the numbers, may outlive it.
    """

    def __init__(self, app: str, connection: Connection, leases_held: Callable[[], int]) -> None:
        self.meters: Meters = Meters()
        self._app = app
        self._connection = connection
        self._leases_held = leases_held

    def count(self, *publishers: Counts) -> None:
        """Count what these publish. A connection also checks, when it opens, for OpenTelemetry."""
        for each in publishers:
            each.published = self.meters.published
            if isinstance(each, Connection):
                each.before_open.append(self._register)

    def observed(self) -> AbstractAsyncContextManager[None]:
        """Export a worker's metrics to OpenTelemetry while it runs, if its SDK is imported."""
        return self._observing.kept() if _SDK in sys.modules else nullcontext()

    async def measures(self, connection: Connection, window: Window, group: str | None) -> MeasuresView:
        """See ``Mainspring.measures``."""
        if window not in WINDOWS:
            raise BadOption(f"window={window!r} must be one of {', '.join(map(repr, get_args(Window)))}")
        span, many = WINDOWS[window]
        counted = "" if group is None else check_group(group)  # the empty name stands for all groups
        storage = await connection.storage("app.measures()")
        back = timedelta(seconds=span) * (many - 1)
        return by_time(await storage.measures.read(span, back, counted), window)

    async def paces(self, connection: Connection, over: Duration) -> PacesView:
        """See ``Mainspring.paces``."""
        back = length(over, "over", least=_SHORTEST, most=_LONGEST)
        storage = await connection.storage("app.paces()")
        return by_group(await storage.measures.paces(back), back)

    async def metrics(self, connection: Connection) -> str:
        """See ``Mainspring.metrics``."""
        return await self._metrics.text(connection, "app.metrics()")

    @functools.cached_property
    def _metrics(self) -> Metrics:
        from mainspring.app.observe.metrics import Metrics

        return Metrics(self.meters, self._leases_held)

    @functools.cached_property
    def _observing(self) -> OtelMetrics:
        from mainspring.app.observe.metrics import OtelMetrics

        return OtelMetrics(self._metrics, self._connection, self._app)

    def _register(self) -> None:
        if _SDK in sys.modules:
            self._observing.register()


def leases_held(of: weakref.ref[Mainspring]) -> int:
    """Return how many leases this process holds, if the app still exists."""
    app = of()
    # Via vars(): an app that never held a lease creates no ``leases``.
    sides = () if app is None else (vars(app), vars(app.sync))
    return sum(side["leases"]._operations.held for side in sides if "leases" in side)  # noqa: SLF001 - not public
