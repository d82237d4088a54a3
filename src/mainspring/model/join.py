"""Joins: several messages, and the one that follows when all of them have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid5

from mainspring.model.headers import REPLACES_HEADER
from mainspring.model.message import Delivery, Draft
from mainspring.model.views import DeliveryView

MEMBER_HEADER = "mainspring-join-member"
"""On every member: the id of its join. By it a worker knows whose end has to be counted."""
JOIN_HEADER = "mainspring-join"
DONE_HEADER = "mainspring-join-done"
FAILED_HEADER = "mainspring-join-failed"
"""What a continuation's handler learns of its join travels with the message."""
_NAMESPACE = UUID("6d61696e-7370-7269-8e67-6a6f696e73ab")


@dataclass(frozen=True, slots=True)
class Join:
    """What follows when every member has ended: ``then`` if all are done, otherwise ``failed``.

    A continuation's id derives from that of its join, so that it cannot be stored twice, however often it is tried.
    """

    id: UUID
    then: Draft | None = None
    failed: Draft | None = None


@dataclass(frozen=True, slots=True)
class JoinReceipt:
    """What ``app.join`` answers: the id of the join, and those of its members."""

    id: UUID
    members: tuple[UUID, ...]

    @property
    def follows(self) -> UUID:
        """The id that what follows will have."""
        return follower_id(self.id)


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


def follower_id(join_id: UUID) -> UUID:
    """The id of what follows a join. It is not that of the join, under which its caller may publish something else."""
    return uuid5(_NAMESPACE, str(join_id))


def continuation(join: Join, done: int, failed: int) -> Draft | None:
    """What is published now that all members have ended; None: nothing."""
    draft = join.failed if failed else join.then
    if draft is None:
        return None
    told = {JOIN_HEADER: str(join.id), DONE_HEADER: str(done), FAILED_HEADER: str(failed)}
    return replace(draft, id=follower_id(join.id), headers={**(draft.headers or {}), **told})


def outcome(delivery: Delivery) -> JoinOutcome | None:
    """What a continuation was told of its join; None for other messages."""
    headers = delivery.headers or {}
    try:
        told = JoinOutcome(UUID(headers[JOIN_HEADER]), int(headers[DONE_HEADER]), int(headers[FAILED_HEADER]))
    except (KeyError, ValueError):
        return None
    # Of a message with any other id the headers say nothing. Under its own id a join was continued by earlier releases.
    known = str(delivery.message_id), headers.get(REPLACES_HEADER)
    return told if str(follower_id(told.id)) in known or str(told.id) in known else None
