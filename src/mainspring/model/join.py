"""Joins: several messages, and the one that follows when all of them have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from mainspring.model.message import Delivery, Draft
from mainspring.model.views import DeliveryView

MEMBER_HEADER = "mainspring-join-member"
"""On every member: the id of its join. By it a worker knows whose end has to be counted."""
JOIN_HEADER = "mainspring-join"
DONE_HEADER = "mainspring-join-done"
FAILED_HEADER = "mainspring-join-failed"
"""What a continuation's handler learns of its join travels with the message."""


@dataclass(frozen=True, slots=True)
class Join:
    """What follows when every member has ended: ``then`` if all are done, otherwise ``failed``.

    A continuation has the id of its join, so that it cannot be stored twice, however often somebody tries.
    """

    id: UUID
    then: Draft | None = None
    failed: Draft | None = None


@dataclass(frozen=True, slots=True)
class JoinReceipt:
    """What ``app.join`` answers: the id of the join, which its continuation will have, and those of its members."""

    id: UUID
    members: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class JoinOutcome:
    """What became of the members of a join, as its continuation is told."""

    id: UUID
    done: int
    failed: int
    """Buried, cancelled, expired, or dropped because their group was retired."""


@dataclass(frozen=True, slots=True)
class Follower:
    """Where a continuation will go."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True)
class JoinView:
    """A join that is open: some member has not ended, or nobody has looked since the last one did."""

    id: UUID
    opened_at: datetime
    members: int
    """How many it has, ended or not."""
    ended: int
    failed: int
    """How many of the ended ones are not done: buried, cancelled, expired, or dropped with their group."""
    then: Follower | None
    """What follows when all are done."""
    otherwise: Follower | None
    """What follows when all have ended and some are not done."""
    key: str | None
    correlation_id: str | None
    oldest: DeliveryView | None
    """Of the members that have not ended the one that was stored first; None when all have."""


@dataclass(frozen=True, slots=True)
class Recount:
    """What became of a recount: how many ends nobody had noted, and where to go on; None after the last join."""

    unnoted: int = 0
    last: UUID | None = None


def as_members(join: Join, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, as members of the join."""
    mark = {MEMBER_HEADER: str(join.id)}
    return [replace(each, join_id=join.id, headers={**(each.headers or {}), **mark}) for each in drafts]


def is_member(delivery: Delivery) -> bool:
    """Whether its end may have to be counted. A revived one says so too, and is counted no more."""
    return delivery.headers is not None and MEMBER_HEADER in delivery.headers


def continuation(join: Join, done: int, failed: int) -> Draft | None:
    """What is published now that all members have ended; None: nothing."""
    draft = join.failed if failed else join.then
    if draft is None:
        return None
    told = {JOIN_HEADER: str(join.id), DONE_HEADER: str(done), FAILED_HEADER: str(failed)}
    return replace(draft, id=join.id, headers={**(draft.headers or {}), **told})


def outcome(delivery: Delivery) -> JoinOutcome | None:
    """What a continuation was told of its join; None for other messages."""
    headers = delivery.headers or {}
    try:
        return JoinOutcome(UUID(headers[JOIN_HEADER]), int(headers[DONE_HEADER]), int(headers[FAILED_HEADER]))
    except (KeyError, ValueError):  # not one of ours: anybody may write headers
        return None
