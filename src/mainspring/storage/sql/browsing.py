"""How pages of deliveries are found in any SQL database within so many rows, and other answers put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mainspring.model.browsing import Chain, Filter, Link, Page
from mainspring.model.views import DeliveryView, RunView
from mainspring.storage.script import Row, Script, Statement

FEW = 20_000
"""Up to so many are gathered and sorted; of more than that some are met soon enough on the way."""
FEW_KEYED = 4_000
"""The same of messages under one key, each of which has to be looked for."""
LAST = 2**63 - 1
"""After every seq there is."""

_STEP = 500
_STRIDE = 50_000
_READ = 10_000
"""So many of those that may match are read for one page: each has a message to be searched."""


class Shelf(Protocol):
    """What one filter asks of one dialect."""

    def few(self, most: int) -> Statement | None:
        """Count what an index says may match, up to one more than ``most``: a row of (how many, which).

        None: no index narrows it down.
        """
        ...

    def walk(self, before: int, count: int) -> Statement:
        """Look at the ``count`` newest rows below ``before``: a row of (how many, the lowest, which may match)."""
        ...

    def seqs(self, which: Any) -> list[int]:
        """Which they are, read from such a row."""
        ...

    def weigh(self, seqs: list[int]) -> Statement:
        """How many bytes the payloads of these have: rows of (seq, bytes), newest first."""
        ...

    def read(self, seqs: list[int], limit: int) -> Statement:
        """Of these the newest that do match, up to ``limit``."""
        ...

    def view(self, row: Row) -> DeliveryView:
        """A row of ``read`` as people see it."""
        ...


def browse(shelf: Shelf, wanted: Filter) -> Script[Page]:
    """See ``Ledger.browse``.

    What is rare is gathered by an index and sorted. What is not is met by going from the newest row on: the more there
    is of it, the sooner. Either way the number of rows has an end, and the pages together have every match once.
    """
    if wanted.is_impossible:
        return Page()
    reading = _Reading(shelf, wanted, _READ, wanted.weight)
    most = min(wanted.scan, FEW if wanted.key is None else FEW_KEYED)
    gathering = shelf.few(most)
    if gathering is not None:
        ((count, which),) = yield gathering
        if count <= most:
            stopped = yield from reading.look(shelf.seqs(which))
            return reading.page(stopped, count)
    return (yield from _walk(shelf, wanted, reading))


def _walk(shelf: Shelf, wanted: Filter, reading: _Reading) -> Script[Page]:
    before = LAST if wanted.before is None else wanted.before
    scanned, step = 0, max(_STEP, wanted.limit + 1)
    while True:
        asked = min(step, _STRIDE, wanted.scan - scanned)
        ((count, lowest, which),) = yield shelf.walk(before, asked)
        scanned += count
        if count:
            before = lowest
            stopped = yield from reading.look(shelf.seqs(which))
            if stopped is not None:
                return reading.page(stopped, scanned)
        if reading.is_full or count < asked or scanned >= wanted.scan:
            return reading.page(None if count < asked else before, scanned)
        step *= 4


@dataclass(slots=True)
class _Reading:
    """Reads what may match, and stops at so many rows and so many bytes of payloads, whoever they belong to."""

    shelf: Shelf
    wanted: Filter
    rows: int
    weight: int
    found: list[DeliveryView] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.found) > self.wanted.limit

    def look(self, seqs: list[int]) -> Script[int | None]:
        """Find those of these that match. Returns the last that was read where that is not all of them."""
        meant = sorted(seqs, reverse=True)
        within = meant[: max(self.rows, 1)]
        self.rows -= len(within)
        if within and self.wanted.text:
            within = self._light((yield self.shelf.weigh(within)))
        if within:
            rows = yield self.shelf.read(within, self.wanted.limit + 1 - len(self.found))
            self.found += [self.shelf.view(row) for row in rows]
        return within[-1] if within and within[-1] > meant[-1] else None

    def _light(self, weighed: Sequence[Row]) -> list[int]:
        """As many of the first as may be searched, one at least."""
        light: list[int] = []
        for seq, size in weighed:
            self.weight -= size
            if light and self.weight < 0:
                break
            light.append(seq)
        return light

    def page(self, before: int | None, scanned: int) -> Page:
        """What was found, cut to the limit; ``before`` is where the next page begins if this one is not full."""
        if not self.is_full:
            return Page(tuple(self.found), before, scanned)
        rows = tuple(self.found[: self.wanted.limit])
        return Page(rows, rows[-1].seq, scanned)


def linked(found: Sequence[tuple[bool, Link]], limit: int) -> Chain:
    """The chain of which these are the links, each side up to one more than ``limit`` and nearest first."""
    causes = [link for is_cause, link in found if is_cause]
    caused = [link for is_cause, link in found if not is_cause]
    more = len(causes) > limit or len(caused) > limit
    return Chain(tuple(reversed(causes[:limit])), tuple(caused[:limit]), more)


def by_schedule(runs: Iterable[RunView]) -> dict[str, tuple[RunView, ...]]:
    """The runs of each schedule, in their order."""
    grouped: dict[str, list[RunView]] = {}
    for run in runs:
        if run.schedule is not None:
            grouped.setdefault(run.schedule, []).append(run)
    return {name: tuple(theirs) for name, theirs in grouped.items()}
