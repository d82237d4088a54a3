"""Past bulk actions of all processes, from the audit log."""

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
"""How many audit entries are scanned for one page, and how many are read at a time."""
_ACTIONS: dict[str, Action] = {"revive": "revive", "discard": "discard", "cancel": "cancel", "hasten": "run_now"}
_SUBJECT = re.compile(r"state \w+")
"""The beginning of the subject of a bulk action's entry."""
_DETAIL = re.compile(r"(\d+) [a-z ]+(?:; (.+))?")


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page to read: ``before`` is the end of the previous page."""

    before: Before | None = None
    limit: Limit = 20


class BulkPast(Struct, frozen=True):
    """A bulk action by its audit entry, which is updated with every batch."""

    id: int
    at: datetime
    """When it started."""
    by: str
    action: Literal["revive", "discard", "cancel", "run_now"]
    subject: str
    """The search in words."""
    done: int
    state: BulkState
    """Also ``running`` if its process died: the entry stays at the last batch."""
    error: str | None
    here: bool
    """Whether it is running in this process, which alone can stop it."""


class BulkHistory(Struct, frozen=True):
    """Bulk actions of all processes, newest first. A short or even empty page is not necessarily the last."""

    rows: list[BulkPast]
    before: int | None
    """Where the next page begins; null: there is none."""
    scanned: int


async def history(visit: Visit, asked: HistoryQuery) -> BulkHistory:
    """Return one page of bulk actions."""
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
        going.remove(own)  # one entry per action
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
    """Return the running action of this process that the entry describes. Both are newest first."""
    for each in going:
        named = {f"{name} {getattr(each.filter, name)}" for name in ("state", "group") if getattr(each.filter, name)}
        if (each.by, each.action) == (line.by, action) and named <= set(line.subject.split(", ")):
            return each
    return None


ROUTES = (viewing("/api/bulk/history", history, "Bulk actions of all processes", BulkHistory, HistoryQuery),)
