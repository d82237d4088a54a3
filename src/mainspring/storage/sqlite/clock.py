"""The clock of a SQLite database: the host's, kept from ever going back by a stored high-water mark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from mainspring.model.symptom import AHEAD, stands_still
from mainspring.storage.script import Script, Statement
from mainspring.storage.sqlite.values import micros

_logger = logging.getLogger("mainspring.storage")

_TOLD_EVERY = 60.0
_MICROSECOND = timedelta(microseconds=1)
_BEHIND = 100_000
"""Microseconds by which the stored mark may be behind; the same is written in ``clock_mark.sql``."""


class Clock:
    """Says what time it is, in microseconds since 1970, never less than it has said before (invariant 7).

    The mark in the database is at most 100 ms behind what a writer has said, and holds for every process and
    after a restart; what this object has said itself it remembers exactly. A hand-set ``now`` replaces both and
    moves neither.
    """

    def __init__(self, read: str, mark: str, host: Callable[[], int]) -> None:
        self._read = Statement(read)
        self._mark = mark
        self._host = host
        self._highest = 0
        self._told_at: float | None = None

    def ahead(self, stored: int) -> timedelta:
        """How far this mark is ahead of the host's clock; zero where it is not."""
        return timedelta(microseconds=max(stored - self._host(), 0))

    def read(self, now: datetime | None) -> Script[int]:
        """What time it is; writes nothing, so the idle leave no trace."""
        if now is not None:
            return micros(now)
        rows = yield self._read
        return self._raised(rows[0][0])

    def turn(self, now: datetime | None) -> Script[int]:
        """What time it is, for a script that will write: the first statement takes the write lock."""
        yield Statement(self._mark, (self.marking(now),))
        if now is not None:
            return micros(now)
        rows = yield self._read
        return self._raised(rows[0][0])

    def asked(self, now: datetime | None) -> int:
        """What time it is as far as this object knows, for a statement that asks the stored mark too."""
        return micros(now) if now is not None else max(self._host(), self._highest)

    def heard(self, at: int, stored: int, now: datetime | None) -> Script[None]:
        """Remember what such a statement has said, and store it if the mark is far enough behind."""
        if now is None:
            self._highest = max(at, self._highest)
            if stored < at - _BEHIND:
                yield Statement(self._mark, (at,))

    def marking(self, now: datetime | None) -> int:
        """What to mark at least, for a statement that marks and reads at once."""
        return 0 if now is not None else max(self._host(), self._highest)

    def told(self, stored: int, now: datetime | None) -> int:
        """What time it is, from what such a statement has read."""
        return micros(now) if now is not None else self._raised(stored)

    def mark(self, at: int, now: datetime | None) -> Script[None]:
        """Store ``at`` if the mark is far enough behind it."""
        if now is None:
            yield Statement(self._mark, (at,))

    def _raised(self, stored: int) -> int:
        host = self._host()
        self._highest = at = max(host, stored, self._highest)
        if at - host > AHEAD // _MICROSECOND:
            self._complain(timedelta(microseconds=at - host))
        return at

    def _complain(self, ahead: timedelta) -> None:
        now = time.monotonic()
        if self._told_at is None or now - self._told_at >= _TOLD_EVERY:
            self._told_at = now
            _logger.warning("%s", stands_still(ahead))
