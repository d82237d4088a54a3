"""Measures in memory: what workers have counted, and how it is read and forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from mainspring.model.measures import SPANS, Measure, Sums, What, slot, with_totals
from mainspring.storage.memory.state import State

_SHORTEST = min(SPANS)


class MemoryMeasures:
    """``Measures`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def read(self, span: int, back: timedelta, group: str) -> Sums[datetime]:
        """See ``Measures.read``."""
        with self._state.lock:
            now = self._state.now()
            rows = [
                (at, what, bin, count) for at, name, what, bin, count in self._since(span, now, back) if name == group
            ]
            return Sums(now, tuple(sorted(rows)))

    async def paces(self, back: timedelta) -> Sums[str]:
        """See ``Measures.paces``."""
        with self._state.lock:
            now = self._state.now()
            sums: Counter[tuple[str, What, int]] = Counter()
            for _, name, what, bin, count in self._since(_SHORTEST, now, back):
                if name:
                    sums[name, what, bin] += count
            return Sums(now, tuple((*key, count) for key, count in sorted(sums.items())))

    def _since(self, span: int, now: datetime, back: timedelta) -> Iterator[tuple[datetime, str, What, int, int]]:
        since = slot(now, span) - back
        for (its_span, at, group, what, bin), count in self._state.measures.items():
            if its_span == span and at >= since:
                yield at, group, what, bin, count


def add_measures(state: State, measures: Iterable[Measure], now: datetime) -> None:
    """Add up what a worker has counted."""
    for each in with_totals(measures):
        for span in SPANS:
            state.measures[span, slot(now, span), each.group, each.what, each.bin] += each.count


def prune_measures(state: State, limit: int) -> int:
    """Forget the oldest counts that are kept no longer."""
    now = state.now()
    over = sorted(key for key in state.measures if key[1] < now - SPANS[key[0]])[:limit]
    for key in over:
        del state.measures[key]
    return len(over)
