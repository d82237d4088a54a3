"""Measures in SQL: reading what workers have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from mainspring.model.measures import SPANS, Sums, What
from mainspring.storage.operation import operation
from mainspring.storage.postgres.operations import PostgresOperations
from mainspring.storage.script import Row, Script, Statement

_SHORTEST = min(SPANS)
_SLOTS = 64
"""Among how many rows those who beat at once are spread. So many at most are read for one count of the present span."""


def slot_of(worker: str) -> int:
    """Where a worker counts: always at the same place, so that there are few rows."""
    return crc32(worker.encode()) % _SLOTS


class PostgresMeasures(PostgresOperations):
    """``Measures`` on PostgreSQL."""

    @operation("read")
    def read(self, span: int, back: timedelta, group: str) -> Script[Sums[datetime]]:
        rows = yield Statement(self._sql("measure_read"), (span, back, group, self.now))
        return Sums(rows[0][0], _counts(rows))

    @operation("read")
    def paces(self, back: timedelta) -> Script[Sums[str]]:
        rows = yield Statement(self._sql("measure_paces"), (_SHORTEST, back, self.now))
        return Sums(rows[0][0], _counts(rows))


def _counts(rows: Sequence[Row]) -> tuple[tuple[Any, What, int, int], ...]:
    # Added up, since some of a count may not be moved out of its slots yet. Sorted here: the order of names in a
    # database depends on its locale.
    sums: Counter[tuple[Any, What, int]] = Counter()
    for _, of, what, bin, count in rows:
        if of is not None:
            sums[of, what, bin] += count
    return tuple((*key, count) for key, count in sorted(sums.items()))
