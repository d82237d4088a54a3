"""Low-water marks: where in each level a claim may start, so that it skips dead index entries.

A database that keeps dead index entries (a snapshot held for minutes is enough) makes every claim from the
beginning slower and slower. So claims start a little before the last one claimed. A full scan follows a ring, a
claim that came back short, and every ten seconds: it finds what was committed late, or under a clock that was set
back, and the mark moves back to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mainspring.model.message import Delivery, Priority, Scan

SLACK = timedelta(seconds=2)
FULL_EVERY = 10.0
FULL_AFTER_SHORT = 0.25
_LEVELS = tuple(int(level) for level in Priority)
_LOWEST_FIRST_EVERY = 8


class Marks:
    """The marks of one group."""

    __slots__ = ("_claims", "_full_at", "_rung", "_short", "_since")

    def __init__(self) -> None:
        self._since: list[datetime | None] = [None] * len(_LEVELS)
        self._full_at = -FULL_EVERY
        self._short = True
        self._rung = True
        self._claims = 0

    def rung(self) -> None:
        """Scan everything next time, after a ring."""
        self._rung = True

    def scans(self, now: float) -> tuple[Scan, ...]:
        """Return the levels to scan. One claim in eight starts with the lowest, so that none starves."""
        full = self._rung or now - self._full_at >= (FULL_AFTER_SHORT if self._short else FULL_EVERY)
        if full:
            self._full_at, self._rung = now, False
        self._claims += 1
        levels = reversed(_LEVELS) if self._claims % _LOWEST_FIRST_EVERY == 0 else _LEVELS
        return tuple(Scan(level, None if full else self._since[level]) for level in levels)

    def learn(self, claimed: Iterable[Delivery], *, short: bool) -> None:
        """Update the marks from a claim's result, forwards or backwards."""
        self._short = short
        last: dict[int, datetime] = {}
        for delivery in claimed:
            last[delivery.priority] = delivery.due_at
        for level, due_at in last.items():
            self._since[level] = due_at - SLACK
