"""Leases: who holds what."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.reading import Limit, Name, Reason, Text
from mainspring.dashboard.route import Visit, acting, viewing
from mainspring.model.lease import LeaseState

_SCANNED, _AT_ONCE = 5_000, 500
"""How many leases are looked at for one page, and how many are read at once."""


class LeaseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page: ``after`` is where the page before ended."""

    find: Text | None = None
    """Text in the name or the holder, in either case."""
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
    """Leases, by name. A page may be short, or even empty, and yet not the last one."""

    rows: list[LeaseRow]
    after: str | None
    """Where the next page begins; null: all was looked at."""
    scanned: int


class Release(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease to be taken from its holder."""

    name: Name
    reason: Reason = ""


class Released(Struct, frozen=True):
    """Whether somebody held it."""

    released: bool


async def leases(visit: Visit, asked: LeaseQuery) -> LeasePage:
    """One page of leases."""
    found: list[LeaseRow] = []
    after, scanned, wanted = asked.after, 0, (asked.find or "").casefold()
    # One more than is shown tells whether there is another page.
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
    """Release a lease on its holder's behalf."""
    return Released(await visit.app.leases.release(asked.name, by=visit.by, reason=asked.reason))


ROUTES = (
    viewing("/api/leases", leases, "Leases, by name", LeasePage, LeaseQuery),
    acting("/api/leases/release", release, "Release a lease on its holder's behalf", Release, Released),
)
