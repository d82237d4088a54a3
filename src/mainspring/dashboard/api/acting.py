"""Operators' actions on single messages: publish, cancel, retry, replace, discard."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.api.editing import PayloadText, edited, refuse_masked_headers
from mainspring.dashboard.reading import Length, Name, Reason, Topic, length
from mainspring.dashboard.route import Visit, acting
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


class Receipt(Struct, frozen=True):
    """The stored message."""

    id: UUID
    status: Literal["stored", "duplicate", "conflict", "replaced"]


class Cancel(Struct, frozen=True, forbid_unknown_fields=True):
    """The deliveries of a message, or that of one group, to cancel."""

    id: UUID
    group: Name | None = None
    reason: Reason = ""


class CancelledShown(Struct, frozen=True):
    """How many were cancelled before they started, and how many running ones were asked to stop."""

    cancelled: int
    asked: int


class ForGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """The deliveries of a message, or that of one group."""

    id: UUID
    group: Name | None = None


class Retried(Struct, frozen=True):
    """How many dead letters were revived, and how many scheduled deliveries are due now."""

    revived: int
    hastened: int


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


async def publish(visit: Visit, asked: Publish) -> Receipt:
    """Publish a message, or a copy of one."""
    refuse_masked_headers(asked.headers)
    receipt = await visit.app.messages.issue(
        asked.topic,
        key=asked.key,
        headers=asked.headers,
        priority=asked.priority,
        delay=None if asked.delay is None else length(asked.delay),
        group=asked.group,
        copy_of=asked.copy_of,
        by=visit.by,
        **edited(asked.payload, asked.payload_text),
    )
    return Receipt(receipt.id, receipt.status)


async def cancel(visit: Visit, asked: Cancel) -> CancelledShown:
    """Cancel the deliveries of a message."""
    view = await _found(visit, asked.id)
    picked = [(asked.id, each.group) for each in _meant(view, asked.group) if each.state != "dead"]
    if not picked:
        return CancelledShown(0, 0)
    done = await visit.app.messages.withdraw(picked, by=visit.by, reason=asked.reason or "cancelled by an operator")
    return CancelledShown(done.cancelled, done.asked)


async def retry(visit: Visit, asked: ForGroup) -> Retried:
    """Revive dead letters of a message, and make its scheduled deliveries due now."""
    view = await _found(visit, asked.id)
    meant = _meant(view, asked.group)
    hastened = revived = 0
    if any(each.state == "dead" for each in meant):
        revived = await visit.app.dead.revive(asked.id, group=asked.group, by=visit.by)
    if scheduled := [(asked.id, each.group) for each in meant if each.state == "scheduled"]:
        hastened = await visit.app.messages.hasten(scheduled, by=visit.by)
    return Retried(revived, hastened)


async def replace(visit: Visit, asked: Replace) -> Replaced:
    """Revive a dead letter with another payload."""
    given = edited(asked.payload, asked.payload_text)
    if not given:
        raise Problem(422, "invalid", "payload is missing: send the new payload")
    await _found(visit, asked.id)
    return Replaced(await visit.app.dead.revive(asked.id, group=asked.group, by=visit.by, **given))


async def discard(visit: Visit, asked: ForGroup) -> Discarded:
    """Permanently delete dead letters of a message."""
    await _found(visit, asked.id)
    return Discarded(await visit.app.dead.discard(asked.id, group=asked.group, by=visit.by))


async def _found(visit: Visit, id: UUID) -> MessageView:
    view = await visit.app.messages.show(id)
    if view is None:
        raise Problem(404, "not_found", "no such message: it was never stored, or was pruned")
    return view


def _meant(view: MessageView, group: str | None) -> list[DeliveryView]:
    return [each for each in view.deliveries if group is None or each.group == group]


ROUTES = (
    acting("/api/messages", publish, "Publish a message, or a copy of one", Publish, Receipt, 201),
    acting("/api/messages/{id}/cancel", cancel, "Cancel the deliveries of a message", Cancel, CancelledShown),
    acting("/api/messages/{id}/retry", retry, "Revive dead letters, run scheduled deliveries now", ForGroup, Retried),
    acting("/api/messages/{id}/replace", replace, "Revive a dead letter with another payload", Replace, Replaced),
    acting("/api/messages/{id}/discard", discard, "Permanently delete dead letters of a message", ForGroup, Discarded),
)
