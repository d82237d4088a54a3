"""What was done to everything that a search found: by the audit, and so also what other processes did."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct

from mainspring.dashboard.answers import plain
from mainspring.dashboard.bulk import Action, Bulk, BulkState
from mainspring.dashboard.reading import Before, Limit
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.browsing import GOES_ON
from mainspring.model.views import AuditView

_SCANNED, _AT_ONCE = 2_000, 500
"""How many lines of the audit are looked at for one page, and how many are read at once."""
_ACTIONS: dict[str, Action] = {"revive": "revive", "discard": "discard", "cancel": "cancel", "hasten": "run_now"}
_SUBJECT = re.compile(r"state \w+")
"""What only those lines begin with that tell of a search."""
_DETAIL = re.compile(r"(\d+) [a-z ]+(?:; (.+))?")


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page: ``before`` is where the page before ended."""

    before: Before | None = None
    limit: Limit = 20


class BulkPast(Struct, frozen=True):
    """A bulk action by its line in the audit, which is brought up to date with every batch."""

    id: int
    at: datetime
    """When it began."""
    by: str
    action: Literal["revive", "discard", "cancel", "run_now"]
    subject: str
    """The search in words."""
    done: int
    state: BulkState
    """``running`` is also what was cut off with its process: the line stays at what was done last."""
    error: str | None
    here: bool
    """Whether it goes on in the process that was asked, which alone can stop it."""


class BulkHistory(Struct, frozen=True):
    """Bulk actions of every process, newest first. A page may be short, or even empty, and yet not the last one."""

    rows: list[BulkPast]
    before: int | None
    """Where the next page begins; null: all was looked at."""
    scanned: int


async def history(visit: Visit, asked: HistoryQuery) -> BulkHistory:
    """One page of what was done to everything that matched."""
    going = [each for each in visit.house.bulks if each.state == "running"]
    found: list[BulkPast] = []
    before, scanned = asked.before, 0
    while scanned < _SCANNED:
        lines = await visit.app.audit(before=before, limit=_AT_ONCE)
        for line in lines:
            scanned, before = scanned + 1, line.id
            if (told := _past(line, going, visit)) is not None:
                if len(found) == asked.limit:
                    return BulkHistory(found, found[-1].id, scanned)
                found.append(told)
        if len(lines) < _AT_ONCE:
            return BulkHistory(found, None, scanned)
    return BulkHistory(found, before, scanned)


def _past(line: AuditView, going: list[Bulk], visit: Visit) -> BulkPast | None:
    action, said = _ACTIONS.get(line.action), _DETAIL.fullmatch(line.detail)
    if action is None or said is None or _SUBJECT.match(line.subject) is None:
        return None
    state, error = _standing(said[2] or "")
    own = _own(line, action, going) if state == "running" else None
    if own is not None:
        going.remove(own)  # no other line is about it
    text = visit.redaction.text
    told = (text(line.subject), int(said[1]), state, error if error is None else text(error))
    return BulkPast(line.id, plain(line.at), line.by, action, *told, here=own is not None)


def _standing(told: str) -> tuple[BulkState, str | None]:
    word, _, why = told.partition(": ")
    match word:
        case "stopped" | "cancelled":
            return "stopped", None
        case "failed":
            return "failed", why
        case _:
            return "running" if word == GOES_ON else "done", None


def _own(line: AuditView, action: Action, going: Iterable[Bulk]) -> Bulk | None:
    """Which of those that go on here the line is about. Both are newest first."""
    for each in going:
        named = {f"{name} {getattr(each.filter, name)}" for name in ("state", "group") if getattr(each.filter, name)}
        if (each.by, each.action) == (line.by, action) and named <= set(line.subject.split(", ")):
            return each
    return None


ROUTES = (viewing("/api/bulk/history", history, "What was done to everything that matched", BulkHistory, HistoryQuery),)
