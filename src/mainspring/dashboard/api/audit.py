"""The audit log."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mainspring.dashboard.api.views import scan
from mainspring.dashboard.route import Before, Call, Limit, Text, get
from mainspring.model.views import AuditView

_SCANNED, _AT_ONCE = 2_000, 500
"""How many entries are scanned for one page, and how many are read at a time."""


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page to read: ``before`` is the end of the previous page."""

    find: Text | None = None
    """Text in the operator, action, subject or detail, case-insensitive."""
    before: Before | None = None
    limit: Limit = 50


class AuditPage(Struct, frozen=True):
    """Entries, newest first. A short or even empty page is not necessarily the last."""

    rows: list[AuditView]
    before: int | None
    """Where the next page begins; null: there is none."""
    scanned: int


async def audit(call: Call, asked: AuditQuery) -> AuditPage:
    """Return one page of the audit log."""
    wanted = (asked.find or "").casefold()

    async def read(before: int | None, limit: int) -> Sequence[AuditView]:
        return await call.app.audit(before=before, limit=limit)

    def keep(line: AuditView) -> AuditView | None:
        # The masked text is searched: a search must not reveal what is masked.
        text = "\n".join((line.by, line.action, *map(call.redaction.text, (line.subject, line.detail))))
        return line if wanted in text.casefold() else None

    # Without a search, one more than is shown, to know whether there is another page.
    bounds = (_SCANNED, _AT_ONCE if wanted else asked.limit + 1)
    return AuditPage(*await scan(read, lambda line: line.id, keep, asked.before, asked.limit, bounds))


ROUTES = (get("/api/audit", audit, "The audit log, newest first", AuditPage, AuditQuery),)
