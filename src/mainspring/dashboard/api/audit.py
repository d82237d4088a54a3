"""What operators did."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.reading import Before, Limit
from mainspring.dashboard.route import Visit, viewing


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page."""

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
    """What operators did, newest first."""

    rows: list[AuditLine]


async def audit(visit: Visit, asked: AuditQuery) -> AuditPage:
    """One page of the audit log."""
    rows = await visit.app.audit(before=asked.before, limit=asked.limit)
    text = visit.redaction.text
    return AuditPage([shown(AuditLine, row, subject=text(row.subject), detail=text(row.detail)) for row in rows])


ROUTES = (viewing("/api/audit", audit, "What operators did, newest first", AuditPage, AuditQuery),)
