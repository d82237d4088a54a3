"""How causes of death are told apart and counted in any SQL database within so many rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from mainspring.model.browsing import Causes, CauseView
from mainspring.storage.script import Row, Script, Statement

Cause = tuple[str, str]
"""A group and a fingerprint."""

_STEPS = 2_000
"""From cause to cause no further than that."""


class Coroner(Protocol):
    """What one dialect knows of causes."""

    def known(self, group: str | None, steps: int) -> Statement:
        """Go from cause to cause, of one group or of all: rows of (group, fingerprint)."""
        ...

    def count(self, causes: Sequence[Cause], most: int) -> Statement:
        """Count up to so many of the newest of each: rows of (its place, how many, the first, the last buried)."""
        ...

    def latest(self, causes: Sequence[Cause]) -> Statement:
        """Read the newest of each: rows of (its place, kind, error)."""
        ...

    def at(self, value: Any) -> datetime:
        """When something was buried."""
        ...


def causes(coroner: Coroner, group: str | None, cap: int, limit: int, scan: int) -> Script[Causes]:
    """See ``Ledger.causes``.

    With half of the rows all are counted equally far, with the rest those that have more. So whatever was counted less
    far than it goes comes before whatever was not.
    """
    steps = min(_STEPS, scan)
    met = yield coroner.known(group, steps)
    known = [(of, cause) for of, cause in met]
    if not known:
        return Causes(more=len(met) >= steps)
    most = min(cap, max(scan // (2 * len(known)), 1))
    counted = dict(_placed(known, (yield coroner.count(known, most))))
    unended = [cause for cause, (many, *_) in counted.items() if many >= most]
    left = scan - sum(many for many, *_ in counted.values())
    if unended and (further := min(cap, left // len(unended))) > most:
        most = further
        counted |= _placed(unended, (yield coroner.count(unended, most)))
    # Whoever counts none has been revived or discarded in this moment.
    ranked = sorted((each for each in counted.items() if each[1][0]), key=lambda each: each[0])
    ranked.sort(key=lambda each: (each[1][0], each[1][2]), reverse=True)
    told = dict(ranked[:limit])
    texts = _placed(list(told), (yield coroner.latest(list(told))))
    rows: list[CauseView] = []
    for cause, (kind, error) in texts.items():
        many, first, last = told[cause]
        rows.append(CauseView(*cause, kind, error, many, coroner.at(first), coroner.at(last), many >= most))
    return Causes(tuple(rows), more=len(ranked) > limit or len(met) >= steps)


def _placed(causes: Sequence[Cause], rows: Sequence[Row]) -> dict[Cause, Row]:
    return {causes[place]: rest for place, *rest in sorted(rows, key=lambda row: row[0])}
