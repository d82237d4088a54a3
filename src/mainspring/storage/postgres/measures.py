"""Measures in SQL: reading what workers have counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mainspring.model.measures import SPANS, Sums, What
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sql import Now

_SHORTEST = min(SPANS)


class PostgresMeasures:
    """``MeasuresScripts`` for PostgreSQL."""

    def __init__(self, names: Names) -> None:
        self._sql = names.sql

    def read(self, span: int, back: timedelta, group: str, now: Now) -> Script[Sums[datetime]]:
        """See ``Measures.read``."""
        rows = yield Statement(self._sql("measure_read"), (span, back, group, now))
        return Sums(rows[0][0], _counts(rows))

    def paces(self, back: timedelta, prefix: str, now: Now) -> Script[Sums[str]]:
        """See ``Measures.paces``."""
        rows = yield Statement(self._sql("measure_paces"), (_SHORTEST, back, prefix, now))
        return Sums(rows[0][0], _counts(rows))


def _counts(rows: Sequence[Row]) -> tuple[tuple[Any, What, int, int], ...]:
    # Sorted here: the order of names in a database depends on its locale.
    return tuple(sorted((of, what, bin, count) for _, of, what, bin, count in rows if of is not None))
