"""What operators did."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.reading import Before, Limit, Text
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.views import AuditView

_SCANNED, _AT_ONCE = 2_000, 500
"""How many lines are looked at for one page, and how many are read at once."""


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page: ``before`` is where the page before ended."""

    find: Text | None = None
    """Text in who did it, what, on what, or its detail, in either case."""
    before: Before | None = None
    limit: Limit = 50


class AuditLine(Struct, frozen=True):
    """One thing an operator did."""

    id: int
    at: datetime
    by: str
    action: str
    subject: str
    detail: str


class AuditPage(Struct, frozen=True):
    """What operators did, newest first. A page may be short, or even empty, and yet not the last one."""

    rows: list[AuditLine]
    before: int | None
    """Where the next page begins; null: all was looked at."""
    scanned: int


async def audit(visit: Visit, asked: AuditQuery) -> AuditPage:
    """One page of the audit log."""
    found: list[AuditLine] = []
    before, scanned, wanted = asked.before, 0, (asked.find or "").casefold()
    # One more than is shown tells whether there is another page.
    many = _AT_ONCE if wanted else asked.limit + 1
    while scanned < _SCANNED:
        lines = await visit.app.audit(before=before, limit=many)
        for line in lines:
            scanned, before = scanned + 1, line.id
            told = _line(line, visit)
            # What is looked for is what is shown: who may not see it cannot find it either.
            if wanted in f"{told.by}\n{told.action}\n{told.subject}\n{told.detail}".casefold():
                if len(found) == asked.limit:
                    return AuditPage(found, found[-1].id, scanned)
                found.append(told)
        if len(lines) < many:
            return AuditPage(found, None, scanned)
    return AuditPage(found, before, scanned)


def _line(line: AuditView, visit: Visit) -> AuditLine:
    text = visit.redaction.text
    return shown(AuditLine, line, subject=text(line.subject), detail=text(line.detail))


ROUTES = (viewing("/api/audit", audit, "What operators did, newest first", AuditPage, AuditQuery),)
