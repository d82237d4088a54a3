"""Measures: what every storage must be able to tell of what became of deliveries."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from mainspring.model.measures import Sums


class Measures(Protocol):
    """Reading what workers have counted. It is written with their beats (``Upkeep.beat``), at the time of the beat."""

    async def read(self, span: int, back: timedelta, group: str) -> Sums[datetime]:
        """The counts of one group, or with an empty name of all groups together; by time.

        From spans of so many seconds (one of ``SPANS``): the present one, and those of the time ``back`` before it.
        """
        ...

    async def paces(self, back: timedelta) -> Sums[str]:
        """The counts of each group, from the shortest spans: the present one, and the time ``back``."""
        ...
