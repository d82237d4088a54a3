"""Leases and their holders."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.reading import Limit, Name, Reason, Text
from mainspring.dashboard.route import Visit, acting, viewing
from mainspring.model.lease import LeaseState

_SCANNED, _AT_ONCE = 5_000, 500
"""How many leases are scanned for one page, and how many are read at a time."""


class LeaseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page to read: ``after`` is the end of the previous page."""

    find: Text | None = None
    """Text in the name or the holder, case-insensitive."""
    after: Name | None = None
    limit: Limit = 50


class LeaseRow(Struct, frozen=True):
    """A lease."""

    name: str
    state: LeaseState
    holder: str | None
    epoch: int
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime


class LeasePage(Struct, frozen=True):
    """Leases, by name. A short or even empty page is not necessarily the last."""

    rows: list[LeaseRow]
    after: str | None
    """Where the next page begins; null: there is none."""
    scanned: int


class Release(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease to release for its holder."""

    name: Name
    reason: Reason = ""


class Released(Struct, frozen=True):
    """Whether it was held."""

    released: bool


async def leases(visit: Visit, asked: LeaseQuery) -> LeasePage:
    """Return one page of leases."""
    found: list[LeaseRow] = []
    after, scanned, wanted = asked.after, 0, (asked.find or "").casefold()
    # One more than is shown, to know whether there is another page.
    many = _AT_ONCE if wanted else asked.limit + 1
    while scanned < _SCANNED:
        rows = await visit.app.leases.list(after=after, limit=many)
        for row in rows:
            scanned, after = scanned + 1, row.name
            if wanted in f"{row.name}\n{row.holder or ''}".casefold():
                if len(found) == asked.limit:
                    return LeasePage(found, found[-1].name, scanned)
                found.append(shown(LeaseRow, row))
        if len(rows) < many:
            return LeasePage(found, None, scanned)
    return LeasePage(found, after, scanned)


async def release(visit: Visit, asked: Release) -> Released:
    """Release a lease for its holder."""
    return Released(await visit.app.leases.release(asked.name, by=visit.by, reason=asked.reason))


ROUTES = (
    viewing("/api/leases", leases, "Leases, by name", LeasePage, LeaseQuery),
    acting("/api/leases/release", release, "Release a lease for its holder", Release, Released),
)
