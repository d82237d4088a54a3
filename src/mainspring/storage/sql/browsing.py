"""How pages of deliveries are found in any SQL database within so many rows, and other answers put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class Shelf(Protocol):
    """What one filter asks of one dialect. ``which`` are seqs in whatever form its statements exchange them."""

    def few(self, most: int) -> Statement | None:
        """Count what an index says may match, up to one more than ``most``: a row of (how many, which).

        None: no index narrows it down.
        """
        ...

    def walk(self, before: int, count: int) -> Statement:
        """Look at the ``count`` newest rows below ``before``: a row of (how many, the lowest, which may match)."""
        ...

    def read(self, which: Any, limit: int) -> Statement:
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
    most = min(wanted.scan, FEW if wanted.key is None else FEW_KEYED)
    gathering = shelf.few(most)
    if gathering is not None:
        ((count, which),) = yield gathering
        if count <= most:
            rows = yield shelf.read(which, wanted.limit + 1)
            return _cut([shelf.view(row) for row in rows], wanted.limit, None, count)
    return (yield from _walk(shelf, wanted))


def _walk(shelf: Shelf, wanted: Filter) -> Script[Page]:
    found: list[DeliveryView] = []
    before = LAST if wanted.before is None else wanted.before
    scanned, step = 0, max(_STEP, wanted.limit + 1)
    while True:
        asked = min(step, _STRIDE, wanted.scan - scanned)
        ((count, lowest, which),) = yield shelf.walk(before, asked)
        scanned += count
        if count:
            before = lowest
            rows = yield shelf.read(which, wanted.limit + 1 - len(found))
            found += [shelf.view(row) for row in rows]
        if len(found) > wanted.limit or count < asked or scanned >= wanted.scan:
            return _cut(found, wanted.limit, None if count < asked else before, scanned)
        step *= 4


def _cut(found: list[DeliveryView], limit: int, before: int | None, scanned: int) -> Page:
    if len(found) <= limit:
        return Page(tuple(found), before, scanned)
    rows = tuple(found[:limit])
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
