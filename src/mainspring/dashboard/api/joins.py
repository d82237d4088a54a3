"""Open joins, and the members they wait for."""

from __future__ import annotations

from uuid import UUID

from mainspring.dashboard.api.views import RowsPage
from mainspring.dashboard.responses import Problem
from mainspring.dashboard.route import Call, PageQuery, Params, Reason, get, post
from mainspring.model.join import JoinView
from mainspring.model.message import Cancelled
from mainspring.model.views import DeliveryView


class JoinPage(RowsPage[JoinView], frozen=True):
    """Open joins, oldest first."""


class JoinKey(Params, frozen=True):
    """One open join."""

    id: UUID


class MemberQuery(PageQuery, frozen=True, kw_only=True):
    """The page of a join's members to read."""

    id: UUID


class MemberPage(RowsPage[DeliveryView], frozen=True):
    """Members that have not ended, in the order they were published."""


class CancelJoin(JoinKey, frozen=True):
    """A join whose unfinished members to cancel."""

    reason: Reason = ""


async def joins(call: Call, params: PageQuery) -> JoinPage:
    """Return one page of the open joins."""
    found = await call.app.joins.list(cursor=params.cursor, limit=params.limit)
    return JoinPage(found, found.cursor)


async def join(call: Call, params: JoinKey) -> JoinView:
    """Return one open join."""
    return await _open(call, params.id)


async def members(call: Call, params: MemberQuery) -> MemberPage:
    """Return the members of a join that have not ended."""
    await _open(call, params.id)
    found = await call.app.joins.members(params.id, cursor=params.cursor, limit=params.limit)
    return MemberPage(found, found.cursor)


async def cancel(call: Call, params: CancelJoin) -> Cancelled:
    """Cancel the unfinished members of a join; then its failed follow-up is published."""
    await _open(call, params.id)
    return await call.app.joins.cancel(params.id, by=call.by, reason=params.reason or "cancelled by an operator")


async def _open(call: Call, id: UUID) -> JoinView:
    found = await call.app.joins.get(id)
    if found is None:
        raise Problem(404, "not_found", "no such open join: it never was, or is over")
    return found


ROUTES = (
    get("/api/joins", joins, "Open joins, oldest first"),
    get("/api/joins/{id}", join, "One open join"),
    get("/api/joins/{id}/members", members, "The members of a join that have not ended"),
    post("/api/joins/{id}/cancel", cancel, "Cancel the unfinished members of a join"),
)
