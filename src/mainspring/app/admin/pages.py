"""Deliveries, page by page."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Literal, get_args

from mainspring.app.options import choice, whole
from mainspring.model.errors import BadOption
from mainspring.model.search import ALIVE, SCAN, Filter, Page, Sought
from mainspring.model.views import DeliveryView, State
from mainspring.storage.contract import Ledger

Deliveries = list[DeliveryView]
Standing = State | Literal["live", "retrying"]

MOST = 10_000
"""How many rows one call returns at the most; there are pages for more."""
_LAST = 2**63 - 1
_STATES = tuple(word for part in get_args(Sought) for word in get_args(part) or (part,))
_FURTHER = 5 * SCAN
"""How many rows are looked at where their own columns are enough to pass them over."""
_CLOSER = SCAN * 2 // 5
"""How many are where each of their messages has to be looked into."""
_TEXTS = ("group", "topic", "key", "text", "error", "held_by", "fingerprint")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


async def page(ledger: Ledger, wanted: Filter) -> Page:
    """One page of deliveries; it may be short."""
    return await ledger.browse(meant(wanted))


async def listed(ledger: Ledger, wanted: Filter) -> Deliveries:
    """The same, looking on until the page is full or the end is reached."""
    found = await page(ledger, wanted)
    rows = list(found.rows)
    while found.before is not None and len(rows) < wanted.limit:
        found = await page(ledger, replace(wanted, before=found.before, limit=wanted.limit - len(rows)))
        rows += found.rows
    return rows


def checked(wanted: Filter) -> Filter:
    """The filter if it can be asked for. Raises BadOption before any database is."""
    choice(wanted.state, _STATES, "state")
    check_pages(wanted.before, wanted.limit)
    whole(wanted.scan, "scan", least=1, most=_LAST)
    whole(wanted.weight, "weight", least=1, most=_LAST)
    check_texts(**{name: getattr(wanted, name) for name in _TEXTS})
    for name in ("since", "until"):
        _check_instant(getattr(wanted, name), name)
    if wanted.since is not None and wanted.until is not None and wanted.since > wanted.until:
        told = f"since={wanted.since.isoformat()} is after until={wanted.until.isoformat()}"
        raise BadOption(f"{told}: nothing was published between them, change one")
    return wanted


def check_pages(before: object, limit: object, most: int = MOST) -> None:
    """Refuse a page that begins nowhere, or has no rows or too many."""
    if before is not None:
        whole(before, "before", least=0, most=_LAST)
    whole(limit, "limit", least=1, most=most)


def check_texts(**given: object) -> None:
    """Refuse what no database stores as text, and so cannot look for."""
    for option, text in given.items():
        if text is None:
            continue
        if not isinstance(text, str):
            raise BadOption(f"{option}={text!r} must be text, not {type(text).__qualname__}: write str(…) around it")
        if _UNSTORABLE.search(text):
            raise BadOption(f"{option}={text!r} has a NUL character or a lone surrogate: remove it")


def meant(wanted: Filter) -> Filter:
    """The filter as a page of it is asked for: checked, and with how many rows may be looked at."""
    checked(wanted)
    return replace(wanted, scan=_reach(wanted) if wanted.scan == SCAN else wanted.scan)


def _check_instant(at: object, option: str) -> None:
    if at is None:
        return
    if not isinstance(at, datetime):
        raise BadOption(f"{option}={at!r} must be a datetime with a timezone, not {type(at).__qualname__}")
    if at.utcoffset() is None:
        raise BadOption(f"{option}={at!r} has no timezone: add tzinfo=UTC, or the zone that it means")


def _reach(wanted: Filter) -> int:
    """How many rows a page may look at, so that it takes as long whatever is asked for."""
    if wanted.text or (wanted.state in ALIVE and wanted.topic is not None):
        return _CLOSER
    if wanted.error or wanted.state in ("done", "cancelled"):
        return SCAN
    narrowing = (wanted.group, wanted.held_by, wanted.key, wanted.since, wanted.until)
    is_narrow = wanted.state == "retrying" or any(each is not None for each in narrowing)
    return _FURTHER if is_narrow else SCAN
