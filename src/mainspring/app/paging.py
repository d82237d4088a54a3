"""Deliveries of one namespace, page by page."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mainspring.app.names import Namespace
from mainspring.model.browsing import SCAN, Filter, Page
from mainspring.model.views import DeliveryView, State
from mainspring.storage.contract import Ledger

Deliveries = list[DeliveryView]
Standing = State | Literal["live"]

_FURTHER = 10 * SCAN
"""How many rows are looked at where their own columns are enough to pass them over."""
_CLOSER = SCAN * 2 // 5
"""How many are where each of their messages has to be looked into."""


def stored(names: Namespace, name: str | None) -> str | None:
    """A name as it stands in the database; None where there is none."""
    return None if name is None else names.stored(name)


async def page(ledger: Ledger, names: Namespace, wanted: Filter) -> Page:
    """One page of deliveries of this namespace, names as the user wrote them; it may be short."""
    found = await ledger.browse(meant(names, wanted))
    return replace(found, rows=tuple(map(names.delivery, found.rows)))


async def listed(ledger: Ledger, names: Namespace, wanted: Filter) -> Deliveries:
    """The same, looking on until the page is full or the end is reached."""
    found = await page(ledger, names, wanted)
    rows = list(found.rows)
    while found.before is not None and len(rows) < wanted.limit:
        found = await page(ledger, names, replace(wanted, before=found.before, limit=wanted.limit - len(rows)))
        rows += found.rows
    return rows


def meant(names: Namespace, wanted: Filter) -> Filter:
    """The filter with names as they stand in the database, for this namespace and no other."""
    return replace(
        wanted,
        group=stored(names, wanted.group),
        topic=stored(names, wanted.topic),
        prefix=names.prefix,
        scan=_reach(wanted) if wanted.scan == SCAN else wanted.scan,
    )


def _reach(wanted: Filter) -> int:
    """How many rows a page may look at, so that it takes as long whatever is asked for."""
    alive = wanted.state in ("live", "scheduled", "ready", "running")
    if wanted.text or (alive and wanted.topic is not None):
        return _CLOSER
    if wanted.error or wanted.state in ("done", "cancelled"):
        return SCAN
    narrowing = (wanted.group, wanted.held_by, wanted.key, wanted.since, wanted.until)
    return SCAN if all(each is None for each in narrowing) else _FURTHER
