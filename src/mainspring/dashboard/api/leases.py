"""Leases and their holders."""

from __future__ import annotations

from msgspec import Struct

from mainspring.app.lease.leases import PAGES
from mainspring.app.page import Page
from mainspring.dashboard.api.views import scan
from mainspring.dashboard.route import Call, Cursor, Limit, Name, Reason, Text, get, post
from mainspring.model.lease import LeaseView

_SCANNED, _AT_ONCE = 5_000, 500
"""How many leases are scanned for one page, and how many are read at a time."""


class LeaseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page to read."""

    find: Text | None = None
    """Text in the name or the holder, case-insensitive."""
    cursor: Cursor | None = None
    limit: Limit = 50


class LeasePage(Struct, frozen=True):
    """Leases, by name. A short or even empty page is not necessarily the last."""

    rows: list[LeaseView]
    cursor: str | None
    """The cursor of the next page; null: there is none."""
    scanned: int


class Release(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease to release for its holder."""

    name: Name
    reason: Reason = ""


class Released(Struct, frozen=True):
    """Whether it was held."""

    released: bool


async def leases(call: Call, params: LeaseQuery) -> LeasePage:
    """Return one page of leases."""
    wanted = (params.find or "").casefold()

    async def read(cursor: str | None, limit: int) -> Page[LeaseView]:
        return await call.app.leases.list(cursor=cursor, limit=limit)

    def keep(row: LeaseView) -> LeaseView | None:
        return row if wanted in f"{row.name}\n{row.holder or ''}".casefold() else None

    bounds = (_SCANNED, _AT_ONCE if wanted else params.limit)
    return LeasePage(*await scan(read, PAGES.cursor, keep, params.cursor, params.limit, bounds))


async def release(call: Call, params: Release) -> Released:
    """Release a lease for its holder."""
    return Released(await call.app.leases.release(params.name, by=call.by, reason=params.reason))


ROUTES = (
    get("/api/leases", leases, "Leases, by name", LeasePage, LeaseQuery),
    post("/api/leases/release", release, "Release a lease for its holder", Release, Released),
)
