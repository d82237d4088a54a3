"""Measures of SQLite, as scripts: what workers have counted, and how it is read and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.model.measures import SPANS, Measure, Sums, with_totals
from mainspring.storage.operation import operation
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.operations import SqliteOperations
from mainspring.storage.sqlite.values import before, instant

_SHORTEST = min(SPANS)
_SECOND = 1_000_000


class SqliteMeasures(SqliteOperations):
    """``Measures`` on SQLite."""

    @operation("read")
    def read(self, span: int, back: timedelta, group: str) -> Script[Sums[datetime]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("measure_read", span, before(_slot(at, span), back), group)
        return Sums(instant(at), tuple((instant(of), what, bin, count) for of, what, bin, count in rows))

    @operation("read")
    def paces(self, back: timedelta) -> Script[Sums[str]]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("measure_paces", _SHORTEST, before(_slot(at, _SHORTEST), back))
        return Sums(instant(at), tuple((group, what, bin, count) for group, what, bin, count in rows))


def add_measures(sql: Dialect, measures: Sequence[Measure], at: int) -> Script[None]:
    """Add up what a worker has counted."""
    told = with_totals(measures)
    yield from sql.many(
        "beat_measure",
        [(span, _slot(at, span), each.group, each.what, each.bin, each.count) for span in SPANS for each in told],
    )


def prune_measures(sql: Dialect, at: int, limit: int) -> Script[int]:
    """Forget the oldest counts that are kept no longer."""
    removed = 0
    for span, kept in SPANS.items():
        yield sql("prune_measures", span, before(at, kept), limit - removed)
        ((more,),) = yield sql("changes")
        removed += more
    return removed


def _slot(at: int, span: int) -> int:
    return at - at % (span * _SECOND)
