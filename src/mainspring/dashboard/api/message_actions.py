"""Operators' actions on single messages: publish, cancel, retry, replace, discard."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.dashboard.api.payloads import PayloadText, edited, refuse_masked_headers
from mainspring.dashboard.responses import Problem
from mainspring.dashboard.route import Call, Length, Name, Reason, Topic, length, post
from mainspring.model.message import Cancelled, Receipt
from mainspring.model.views import DeliveryView, MessageView

HeaderText = Annotated[str, Meta(max_length=2000)]


class Publish(Struct, frozen=True, forbid_unknown_fields=True):
    """A message to publish: a new one, or a copy of another, with these fields replaced."""

    topic: Topic
    payload: Any | UnsetType = UNSET
    payload_text: PayloadText | None = None
    key: Name | None = None
    headers: Annotated[dict[Name, HeaderText], Meta(max_length=50)] | None = None
    priority: Literal["urgent", "high", "normal", "low"] | Annotated[int, Meta(ge=0, le=3)] | None = None
    delay: Length | None = None
    group: Name | None = None
    """The only group to receive it; without it, all groups that subscribe to its topic."""
    copy_of: UUID | None = None


class Cancel(Struct, frozen=True, forbid_unknown_fields=True):
    """The deliveries of a message, or that of one group, to cancel."""

    id: UUID
    group: Name | None = None
    reason: Reason = ""


class ForGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """The deliveries of a message, or that of one group."""

    id: UUID
    group: Name | None = None


class Retried(Struct, frozen=True):
    """How many dead letters were revived, and how many scheduled deliveries are due now."""

    revived: int
    run_now: int


class Replace(Struct, frozen=True, forbid_unknown_fields=True):
    """A dead letter to revive with another payload: as a value, or as JSON text."""

    id: UUID
    group: Name | None = None
    payload: Any | UnsetType = UNSET
    payload_text: PayloadText | None = None


class Replaced(Struct, frozen=True):
    """How many were replaced: one, or none if the dead letter no longer exists."""

    replaced: int


class Discarded(Struct, frozen=True):
    """How many dead letters were discarded."""

    discarded: int


async def publish(call: Call, asked: Publish) -> Receipt:
    """Publish a message, or a copy of one."""
    refuse_masked_headers(asked.headers)
    return await call.app.messages.publish(
        asked.topic,
        key=asked.key,
        headers=asked.headers,
        priority=asked.priority,
        delay=None if asked.delay is None else length(asked.delay),
        group=asked.group,
        copy_of=asked.copy_of,
        by=call.by,
        **edited(asked.payload, asked.payload_text),
    )


async def cancel(call: Call, asked: Cancel) -> Cancelled:
    """Cancel the deliveries of a message."""
    view = await _found(call, asked.id)
    picked = [(asked.id, each.group) for each in _meant(view, asked.group) if each.state != "dead"]
    if not picked:
        return Cancelled(0, 0)
    return await call.app.messages.cancel(picked, by=call.by, reason=asked.reason or "cancelled by an operator")


async def retry(call: Call, asked: ForGroup) -> Retried:
    """Revive dead letters of a message, and make its scheduled deliveries due now."""
    view = await _found(call, asked.id)
    meant = _meant(view, asked.group)
    run_now = revived = 0
    if any(each.state == "dead" for each in meant):
        revived = await call.app.dead.revive(asked.id, group=asked.group, by=call.by)
    if scheduled := [(asked.id, each.group) for each in meant if each.state == "scheduled"]:
        run_now = await call.app.messages.run_now(scheduled, by=call.by)
    return Retried(revived, run_now)


async def replace(call: Call, asked: Replace) -> Replaced:
    """Revive a dead letter with another payload."""
    given = edited(asked.payload, asked.payload_text)
    if not given:
        raise Problem(422, "invalid", "payload is missing: send the new payload")
    await _found(call, asked.id)
    return Replaced(await call.app.dead.revive(asked.id, group=asked.group, by=call.by, **given))


async def discard(call: Call, asked: ForGroup) -> Discarded:
    """Permanently delete dead letters of a message."""
    await _found(call, asked.id)
    return Discarded(await call.app.dead.discard(asked.id, group=asked.group, by=call.by))


async def _found(call: Call, id: UUID) -> MessageView:
    view = await call.app.messages.get(id)
    if view is None:
        raise Problem(404, "not_found", "no such message: it was never stored, or was pruned")
    return view


def _meant(view: MessageView, group: str | None) -> list[DeliveryView]:
    return [each for each in view.deliveries if group is None or each.group == group]


ROUTES = (
    post("/api/messages", publish, "Publish a message, or a copy of one", Publish, Receipt, 201),
    post("/api/messages/{id}/cancel", cancel, "Cancel the deliveries of a message", Cancel, Cancelled),
    post("/api/messages/{id}/retry", retry, "Revive dead letters, run scheduled deliveries now", ForGroup, Retried),
    post("/api/messages/{id}/replace", replace, "Revive a dead letter with another payload", Replace, Replaced),
    post("/api/messages/{id}/discard", discard, "Permanently delete dead letters of a message", ForGroup, Discarded),
)
