"""Searches for deliveries: their checks, and their pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, cast, get_args

from mainspring.app.options import choice, whole
from mainspring.app.page import Page, Paging, Seq, check_limit
from mainspring.model.errors import BadOption
from mainspring.model.search import ALIVE, SCAN, Filter, Matches, SearchState
from mainspring.model.views import DeliveryView, Kind
from mainspring.storage.contract import Ledger

Deliveries = Page[DeliveryView]
DeliveryPages = Paging[DeliveryView, int]
AnyState = SearchState | Literal["any"]
"""A state to search for; ``any`` is every state there is, one after the other."""
EVERY: tuple[SearchState, ...] = ("live", "dead", "parked", "done", "cancelled")
"""The states that ``any`` stands for, in the order in which they are searched."""
Where = tuple[Literal["", "live", "dead", "parked", "done", "cancelled"], Seq]
"""Where a page ended: a row, and the state it is in if any state was searched for."""
SearchPages = Paging[DeliveryView, Where]

_LAST = 2**63 - 1
_STATES = tuple(word for part in get_args(SearchState) for word in get_args(part) or (part,))
_FURTHER = 5 * SCAN
"""How many rows are scanned if their own columns decide."""
_CLOSER = SCAN * 2 // 5
"""How many rows are scanned if each row's message must be read."""
_TEXTS = ("group", "topic", "key", "text", "error", "held_by", "fingerprint", "correlation_id")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


class SearchPage(Page[DeliveryView]):
    """A page of ``app.messages.search()``: it may be short, or empty, and not be the last one.

    ``scanned`` is how many rows were scanned for it.
    """

    scanned: int

    def __init__(self, rows: Iterable[DeliveryView] = (), cursor: str | None = None, scanned: int = 0) -> None:
        super().__init__(rows, cursor)
        self.scanned = scanned


@dataclass(frozen=True, slots=True)
class Sought:
    """What a listing call searches for: one state, or every state in turn."""

    filters: tuple[Filter, ...]
    any_state: bool = False

    def end(self, place: int, before: int | None) -> Where | None:
        """Return where the next page begins, after the filter at this place was searched down to ``before``."""
        if before is None:
            place, before = place + 1, _LAST
        if place == len(self.filters):
            return None
        return cast("Where", (self.filters[place].state if self.any_state else "", before))


def sought(state: AnyState, start: Where | None, wanted: Filter) -> Sought:
    """Return the search for this state, or for any, from where the previous page ended. Raises BadOption."""
    choice(state, (*_STATES, "any"), "state")
    first, before = ("", None) if start is None else start
    if start is not None and (first == "") == (state == "any"):
        raise BadOption(f"the cursor is of a search for another state than state={state!r}: pass the state of its page")
    if state != "any":
        return Sought((checked(replace(wanted, state=state, before=before)),))
    left = EVERY if first == "" else EVERY[EVERY.index(first) :]
    filters = (replace(wanted, state=each, before=before if each == first else None) for each in left)
    return Sought(tuple(map(checked, filters)), any_state=True)


async def searched(ledger: Ledger, sought: Sought, pages: SearchPages) -> SearchPage:
    """Return what one scan of each state finds, until the page is full or a scan does not reach its end."""
    rows: list[DeliveryView] = []
    scanned, end = 0, None
    for place, wanted in enumerate(sought.filters):
        found = await scan(ledger, replace(wanted, limit=wanted.limit - len(rows)))
        rows += found.rows
        scanned += found.scanned
        end = sought.end(place, found.before)
        if found.before is not None or len(rows) == wanted.limit:
            break
    return SearchPage(rows, None if end is None else pages.encoded(end), scanned)


async def listed(ledger: Ledger, sought: Sought, pages: SearchPages) -> Deliveries:
    """Scan until the page is full or the end is reached."""
    rows: list[DeliveryView] = []
    end: Where | None = None
    for place, wanted in enumerate(sought.filters):
        room = wanted.limit - len(rows)
        # A full page needs to know whether there is more.
        found = await _scan_on(ledger, replace(wanted, limit=room or 1))
        if not room and found.rows:
            end = sought.end(place - 1, None)
            break
        rows += found.rows
        if found.before is not None:
            end = sought.end(place, found.before)
            break
    return Page(rows, None if end is None else pages.encoded(end))


async def _scan_on(ledger: Ledger, wanted: Filter) -> Matches:
    """Scan until as many are found as the filter allows, or the end is reached."""
    found = await scan(ledger, wanted)
    rows = found.rows
    while found.before is not None and len(rows) < wanted.limit:
        found = await scan(ledger, replace(wanted, before=found.before, limit=wanted.limit - len(rows)))
        rows += found.rows
    return replace(found, rows=rows)


async def scan(ledger: Ledger, wanted: Filter) -> Matches:
    """Scan for deliveries, as far as one page goes."""
    return await ledger.browse(bounded(wanted))


def checked(wanted: Filter) -> Filter:
    """Return the filter if it is valid. Raises BadOption before the database is used."""
    choice(wanted.state, _STATES, "state")
    if wanted.kind is not None:
        choice(wanted.kind, get_args(Kind), "kind")
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
    if wanted.text or wanted.correlation_id is not None or (wanted.state in ALIVE and wanted.topic is not None):
        return _CLOSER
    if wanted.error or wanted.state in ("done", "cancelled"):
        return SCAN
    narrowing = (wanted.group, wanted.held_by, wanted.key, wanted.since, wanted.until, wanted.kind)
    is_narrow = wanted.state == "retrying" or any(each is not None for each in narrowing)
    return _FURTHER if is_narrow else SCAN
