"""``app.stats``: deliveries counted by state, outcome and time, and the roster of groups and workers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final, get_args

from mainspring.app.admin.workers import shown
from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.names import check_group
from mainspring.app.options import length
from mainspring.model.errors import BadOption
from mainspring.model.measures import SPANS, WINDOWS, MeasuresView, RatesView, Window, by_group, by_time
from mainspring.model.views import Roster, Tally
from mainspring.timing.duration import Duration

_SHORTEST = timedelta(seconds=10)
_LONGEST = SPANS[min(SPANS)] - _SHORTEST


class Stats:
    """``app.stats``: what the database has counted, for this namespace. Reading changes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tally(self, cap: int = 100_000) -> Tally:
        """Return every group's deliveries by state, each counted up to ``cap``."""
        storage = await self._connection.storage("app.stats.tally()")
        return await storage.ledger.tally(cap)

    async def roster(self) -> Roster:
        """Return the declared groups, and the workers as they last reported."""
        roster = await (await self._connection.storage("app.stats.roster()")).ledger.roster()
        return replace(roster, workers=tuple(map(shown, roster.workers)))

    async def measures(self, window: Window = "15m", group: str | None = None) -> MeasuresView:
        """Return the outcomes of deliveries within a window, of one group or all, with their wait and run times.

        ``15m`` and ``2h`` come in buckets of ten seconds, ``24h`` and ``7d`` in buckets of ten minutes.
        """
        if window not in WINDOWS:
            raise BadOption(f"window={window!r} must be one of {', '.join(map(repr, get_args(Window)))}")
        span, many = WINDOWS[window]
        counted = "" if group is None else check_group(group)  # the empty name stands for all groups
        storage = await self._connection.storage("app.stats.measures()")
        back = timedelta(seconds=span) * (many - 1)
        return by_time(await storage.measures.read(span, back, counted), window)

    async def rates(self, over: Duration = "1m") -> RatesView:
        """Return the recent outcomes of each group, per second and in all, up to two hours back."""
        back = length(over, "over", least=_SHORTEST, most=_LONGEST)
        storage = await self._connection.storage("app.stats.rates()")
        return by_group(await storage.measures.rates(back), back)


class SyncStats(Face[Stats]):
    """``app.sync.stats``: as ``app.stats``, without await."""

    tally: Final = blocking(Stats.tally)
    roster: Final = blocking(Stats.roster)
    measures: Final = blocking(Stats.measures)
    rates: Final = blocking(Stats.rates)
