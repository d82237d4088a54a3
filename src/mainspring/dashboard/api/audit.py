"""The audit log."""

from __future__ import annotations

from mainspring.app.maintenance import AUDIT
from mainspring.dashboard.api.views import ScannedPage, scan
from mainspring.dashboard.route import Call, PageQuery, Text, get
from mainspring.model.views import AuditView

_SCANNED, _AT_ONCE = 2_000, 500
"""How many entries are scanned for one page, and how many are read at a time."""


class AuditQuery(PageQuery, frozen=True):
    """The page to read."""

    find: Text | None = None
    """Text in the operator, action, subject or detail, case-insensitive."""
    by: Text | None = None
    """Text in the operator, case-insensitive."""
    subject: Text | None = None
    """Text in the subject, case-insensitive."""


class AuditPage(ScannedPage[AuditView], frozen=True):
    """Entries, newest first. A short or even empty page is not necessarily the last."""


async def audit(call: Call, params: AuditQuery) -> AuditPage:
    """Return one page of the audit log."""
    find, by, subject = ((each or "").casefold() for each in (params.find, params.by, params.subject))

    def keep(line: AuditView) -> AuditView | None:
        # The masked text is searched: a search must not reveal what is masked.
        about, detail = call.redaction.text(line.subject), call.redaction.text(line.detail)
        whole = f"{line.by}\n{line.action}\n{about}\n{detail}"
        hit = find in whole.casefold() and by in line.by.casefold() and subject in about.casefold()
        return line if hit else None

    at_once = _AT_ONCE if find or by or subject else params.limit
    return AuditPage(*await scan(call.app.audit, AUDIT.cursor, keep, params, most=_SCANNED, at_once=at_once))


ROUTES = (get("/api/audit", audit, "The audit log, newest first"),)
