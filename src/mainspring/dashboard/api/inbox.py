"""The inbox: messages received from external systems."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.dashboard.api.views import RowsPage
from mainspring.dashboard.responses import Problem
from mainspring.dashboard.route import NO_NUL, Call, Name, PageQuery, Params, get, post
from mainspring.model.inbox import InboxStatus, InboxView

ExternalId = Annotated[str, Meta(min_length=1, max_length=255, pattern=NO_NUL)]
"""The sender's id of a message: any text."""


class InboxQuery(PageQuery, frozen=True):
    """The page to read; every given field must match."""

    status: InboxStatus | None = None
    group: Name | None = None
    source: Name | None = None
    message_id: ExternalId | None = None
    stuck: bool = False
    """Only those that have been processing for longer than an hour."""


class InboxPage(RowsPage[InboxView], frozen=True):
    """Messages, the latest change first."""


class Received(Params, frozen=True):
    """One message: its receiver, its sender, and the sender's id."""

    group: Name
    source: Name
    message_id: ExternalId


class ReleaseReceived(Received, frozen=True):
    """A message to release."""


class InboxReleased(Struct, frozen=True):
    """Whether it was processing or given up, so that its redelivery is admitted now."""

    released: bool


async def inbox(call: Call, params: InboxQuery) -> InboxPage:
    """Return one page of the inbox."""
    found = await call.app.inbox.list(
        params.status,
        group=params.group,
        source=params.source,
        message_id=params.message_id,
        stuck=params.stuck,
        cursor=params.cursor,
        limit=params.limit,
    )
    return InboxPage(found, found.cursor)


async def received(call: Call, params: Received) -> InboxView:
    """Return one message of the inbox."""
    found = await call.app.inbox.get(params.message_id, params.source, group=params.group)
    if found is None:
        raise Problem(404, "not_found", "no such message in the inbox: it was never received, or was pruned")
    return found


async def release(call: Call, params: ReleaseReceived) -> InboxReleased:
    """Admit the redelivery of a message that is processing or given up."""
    done = await call.app.inbox.release(params.message_id, params.source, group=params.group, by=call.by)
    return InboxReleased(done)


ROUTES = (
    get("/api/inbox", inbox, "Messages received from external systems, the latest change first"),
    get("/api/inbox/message", received, "One message received from an external system"),
    post("/api/inbox/release", release, "Admit the redelivery of a message that is processing or given up"),
)
