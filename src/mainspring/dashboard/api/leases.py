"""Leases: who holds what."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.reading import Limit, Name, Reason
from mainspring.dashboard.route import Visit, acting, viewing
from mainspring.model.lease import LeaseState


class LeaseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page: ``after`` is the name of the last row of the page before."""

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
    """Leases, by name."""

    rows: list[LeaseRow]


class Release(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease to be taken from its holder."""

    name: Name
    reason: Reason = ""


class Released(Struct, frozen=True):
    """Whether somebody held it."""

    released: bool


async def leases(visit: Visit, asked: LeaseQuery) -> LeasePage:
    """One page of leases."""
    rows = await visit.app.leases.list(after=asked.after, limit=asked.limit)
    return LeasePage([shown(LeaseRow, row) for row in rows])


async def release(visit: Visit, asked: Release) -> Released:
    """Release a lease on its holder's behalf."""
    return Released(await visit.app.leases.release(asked.name, by=visit.by, reason=asked.reason))


ROUTES = (
    viewing("/api/leases", leases, "Leases, by name", LeasePage, LeaseQuery),
    acting("/api/leases/release", release, "Release a lease on its holder's behalf", Release, Released),
)
