"""Searches for deliveries: their checks, and their pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import get_args

from mainspring.app.options import choice, whole
from mainspring.app.page import Page, Paging, check_limit
from mainspring.model.errors import BadOption
from mainspring.model.search import ALIVE, SCAN, Filter, Matches, SearchState
from mainspring.model.views import DeliveryView
from mainspring.storage.contract import Ledger

Deliveries = Page[DeliveryView]
DeliveryPages = Paging[DeliveryView, int]

_LAST = 2**63 - 1
_STATES = tuple(word for part in get_args(SearchState) for word in get_args(part) or (part,))
_FURTHER = 5 * SCAN
"""How many rows are scanned if their own columns decide."""
_CLOSER = SCAN * 2 // 5
"""How many rows are scanned if each row's message must be read."""
_TEXTS = ("group", "topic", "key", "text", "error", "held_by", "fingerprint")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


class SearchPage(Page[DeliveryView]):
    """A page of ``app.messages.search()``: it may be short, or empty, and not be the last one.

    ``scanned`` is how many rows were scanned for it.
    """

    scanned: int

    def __init__(self, rows: Iterable[DeliveryView] = (), cursor: str | None = None, scanned: int = 0) -> None:
        super().__init__(rows, cursor)
        self.scanned = scanned


async def searched(ledger: Ledger, wanted: Filter, pages: DeliveryPages) -> SearchPage:
    """Return what one scan finds."""
    found = await scan(ledger, wanted)
    return SearchPage(found.rows, None if found.before is None else pages.encoded(found.before), found.scanned)


async def listed(ledger: Ledger, wanted: Filter, pages: DeliveryPages) -> Deliveries:
    """Scan until the page is full or the end is reached."""
    found = await scan(ledger, wanted)
    rows = list(found.rows)
    while found.before is not None and len(rows) < wanted.limit:
        found = await scan(ledger, replace(wanted, before=found.before, limit=wanted.limit - len(rows)))
        rows += found.rows
    return Page(rows, None if found.before is None else pages.encoded(found.before))


async def scan(ledger: Ledger, wanted: Filter) -> Matches:
    """Scan for deliveries, as far as one page goes."""
    return await ledger.browse(bounded(wanted))


def checked(wanted: Filter) -> Filter:
    """Return the filter if it is valid. Raises BadOption before the database is used."""
    choice(wanted.state, _STATES, "state")
    if wanted.before is not None:
        whole(wanted.before, "before", least=0, most=_LAST)
    check_limit(wanted.limit)
    whole(wanted.scan, "scan", least=1, most=_LAST)
    whole(wanted.weight, "weight", least=1, most=_LAST)
    check_texts(**{name: getattr(wanted, name) for name in _TEXTS})
    for name in ("since", "until"):
        _check_instant(getattr(wanted, name), name)
    if wanted.since is not None and wanted.until is not None and wanted.since > wanted.until:
        both = f"since={wanted.since.isoformat()} is after until={wanted.until.isoformat()}"
        raise BadOption(f"{both}: nothing was published between them, change one")
    return wanted


def check_texts(**given: object) -> None:
    """Raise BadOption for what no database stores as text, and so cannot search for."""
    for option, text in given.items():
        if text is None:
            continue
        if not isinstance(text, str):
            raise BadOption(f"{option}={text!r} must be text, not {type(text).__qualname__}: write str(…) around it")
        if _UNSTORABLE.search(text):
            raise BadOption(f"{option}={text!r} has a NUL character or a lone surrogate: remove it")


def bounded(wanted: Filter) -> Filter:
    """Return a checked filter with the number of rows that one page may scan."""
    return replace(wanted, scan=_reach(wanted) if wanted.scan == SCAN else wanted.scan)


def _check_instant(at: object, option: str) -> None:
    if at is None:
        return
    if not isinstance(at, datetime):
        raise BadOption(f"{option}={at!r} must be a datetime with a timezone, not {type(at).__qualname__}")
    if at.utcoffset() is None:
        raise BadOption(f"{option}={at!r} has no timezone: add tzinfo=UTC, or the zone that it means")


def _reach(wanted: Filter) -> int:
    """Return how many rows a page may scan, so that every filter takes about as long."""
    if wanted.text or (wanted.state in ALIVE and wanted.topic is not None):
        return _CLOSER
    if wanted.error or wanted.state in ("done", "cancelled"):
        return SCAN
    narrowing = (wanted.group, wanted.held_by, wanted.key, wanted.since, wanted.until)
    is_narrow = wanted.state == "retrying" or any(each is not None for each in narrowing)
    return _FURTHER if is_narrow else SCAN
