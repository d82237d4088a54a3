"""The audit log."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.reading import Before, Limit, Text
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.views import AuditView

_SCANNED, _AT_ONCE = 2_000, 500
"""How many entries are scanned for one page, and how many are read at a time."""


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page to read: ``before`` is the end of the previous page."""

    find: Text | None = None
    """Text in the operator, action, subject or detail, case-insensitive."""
    before: Before | None = None
    limit: Limit = 50


class AuditLine(Struct, frozen=True):
    """One entry of the audit log."""

    id: int
    at: datetime
    by: str
    action: str
    subject: str
    detail: str


class AuditPage(Struct, frozen=True):
    """Entries, newest first. A short or even empty page is not necessarily the last."""

    rows: list[AuditLine]
    before: int | None
    """Where the next page begins; null: there is none."""
    scanned: int


async def audit(visit: Visit, asked: AuditQuery) -> AuditPage:
    """Return one page of the audit log."""
    found: list[AuditLine] = []
    before, scanned, wanted = asked.before, 0, (asked.find or "").casefold()
    # One more than is shown, to know whether there is another page.
    many = _AT_ONCE if wanted else asked.limit + 1
    while scanned < _SCANNED:
        lines = await visit.app.audit(before=before, limit=many)
        for line in lines:
            scanned, before = scanned + 1, line.id
            told = _line(line, visit)
            # The masked text is searched: a search must not reveal what is masked.
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


ROUTES = (viewing("/api/audit", audit, "The audit log, newest first", AuditPage, AuditQuery),)
