"""Reading what became of deliveries: by time, by group, and as metrics."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, get_args

from mainspring.app.door import Door
from mainspring.app.names import check_group
from mainspring.app.options import length
from mainspring.model.errors import BadOption
from mainspring.model.measures import SPANS, WINDOWS, MeasuresView, PacesView, Window, by_group, by_time
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.metrics import Metrics

_SHORTEST = timedelta(seconds=10)
_LONGEST = SPANS[min(SPANS)] - _SHORTEST


class Measured:
    """What is told of an app through one door; its methods are documented where ``Mainspring`` shows them."""

    def __init__(self, door: Door, metrics: Metrics) -> None:
        self._door = door
        self._metrics = metrics

    async def measures(self, window: Window, group: str | None) -> MeasuresView:
        """See ``Mainspring.measures``."""
        if window not in WINDOWS:
            raise BadOption(f"window={window!r} must be one of {', '.join(map(repr, get_args(Window)))}")
        span, many = WINDOWS[window]
        counted = "" if group is None else check_group(group)  # the empty name has all groups together
        storage = await self._door.storage("app.measures()")
        back = timedelta(seconds=span) * (many - 1)
        return by_time(await storage.measures.read(span, back, counted), window)

    async def paces(self, over: Duration) -> PacesView:
        """See ``Mainspring.paces``."""
        back = length(over, "over", least=_SHORTEST, most=_LONGEST)
        storage = await self._door.storage("app.paces()")
        return by_group(await storage.measures.paces(back), back)

    async def metrics(self) -> str:
        """See ``Mainspring.metrics``."""
        return await self._metrics.text(self._door, "app.metrics()")
