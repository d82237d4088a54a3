"""Leases and their holders."""

from __future__ import annotations

from msgspec import Struct

from mainspring.app.lease.leases import PAGES
from mainspring.dashboard.api.views import ScannedPage, scan
from mainspring.dashboard.route import Call, Name, PageQuery, Params, Reason, Text, get, post
from mainspring.model.lease import LeaseView

_SCANNED, _AT_ONCE = 5_000, 500
"""How many leases are scanned for one page, and how many are read at a time."""


class LeaseQuery(PageQuery, frozen=True):
    """The page to read."""

    find: Text | None = None
    """Text in the name or the holder, case-insensitive."""


class LeasePage(ScannedPage[LeaseView], frozen=True):
    """Leases, by name. A short or even empty page is not necessarily the last."""


class Release(Params, frozen=True):
    """A lease to release for its holder."""

    name: Name
    reason: Reason = ""


class Released(Struct, frozen=True):
    """Whether it was held."""

    released: bool


async def leases(call: Call, params: LeaseQuery) -> LeasePage:
    """Return one page of leases."""
    wanted = (params.find or "").casefold()

    def keep(row: LeaseView) -> LeaseView | None:
        return row if wanted in f"{row.name}\n{row.holder or ''}".casefold() else None

    at_once = _AT_ONCE if wanted else params.limit
    return LeasePage(*await scan(call.app.leases.list, PAGES.cursor, keep, params, most=_SCANNED, at_once=at_once))


async def release(call: Call, params: Release) -> Released:
    """Release a lease for its holder."""
    return Released(await call.app.leases.release(params.name, by=call.by, reason=params.reason))


ROUTES = (
    get("/api/leases", leases, "Leases, by name"),
    post("/api/leases/release", release, "Release a lease for its holder"),
)
