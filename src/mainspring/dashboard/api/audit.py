"""The audit log."""

from __future__ import annotations

from msgspec import Struct

from mainspring.app.maintenance import AUDIT
from mainspring.app.page import Page
from mainspring.dashboard.api.views import scan
from mainspring.dashboard.route import Call, Cursor, Limit, Text, get
from mainspring.model.views import AuditView

_SCANNED, _AT_ONCE = 2_000, 500
"""How many entries are scanned for one page, and how many are read at a time."""


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page to read."""

    find: Text | None = None
    """Text in the operator, action, subject or detail, case-insensitive."""
    cursor: Cursor | None = None
    limit: Limit = 50


class AuditPage(Struct, frozen=True):
    """Entries, newest first. A short or even empty page is not necessarily the last."""

    rows: list[AuditView]
    cursor: str | None
    """The cursor of the next page; null: there is none."""
    scanned: int


async def audit(call: Call, params: AuditQuery) -> AuditPage:
    """Return one page of the audit log."""
    wanted = (params.find or "").casefold()

    async def read(cursor: str | None, limit: int) -> Page[AuditView]:
        return await call.app.audit(cursor=cursor, limit=limit)

    def keep(line: AuditView) -> AuditView | None:
        # The masked text is searched: a search must not reveal what is masked.
        text = "\n".join((line.by, line.action, *map(call.redaction.text, (line.subject, line.detail))))
        return line if wanted in text.casefold() else None

    bounds = (_SCANNED, _AT_ONCE if wanted else params.limit)
    return AuditPage(*await scan(read, AUDIT.cursor, keep, params.cursor, params.limit, bounds))


ROUTES = (get("/api/audit", audit, "The audit log, newest first", AuditPage, AuditQuery),)
