"""Joins: several messages, and a follow-up that is published when all of them have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid5

from mainspring.model.message import REPLACES_HEADER, Delivery, Draft
from mainspring.model.views import DeliveryView

MEMBER_HEADER = "mainspring-join-member"
"""On every member: the id of its join, so that a worker counts its end."""
JOIN_HEADER = "mainspring-join"
DONE_HEADER = "mainspring-join-done"
FAILED_HEADER = "mainspring-join-failed"
"""The outcome of a join, sent with its follow-up."""
_NAMESPACE = UUID("6d61696e-7370-7269-8e67-6a6f696e73ab")


@dataclass(frozen=True, slots=True)
class Join:
    """The follow-ups of a join: ``then`` if all members are done, otherwise ``failed``.

    The id of a follow-up derives from that of its join, so that it cannot be stored twice.
    """

    id: UUID
    then: Draft | None = None
    failed: Draft | None = None


@dataclass(frozen=True, slots=True)
class JoinReceipt:
    """The result of ``app.join``: the ids of the join and of its members."""

    id: UUID
    members: tuple[UUID, ...]

    @property
    def follows(self) -> UUID:
        """The id of the follow-up."""
        return follower_id(self.id)


@dataclass(frozen=True, slots=True)
class JoinOutcome:
    """The outcome of the members of a join, for its follow-up."""

    id: UUID
    done: int
    failed: int
    """Buried, cancelled, expired, or dropped because their group was retired."""


@dataclass(frozen=True, slots=True)
class Follower:
    """The destination of a follow-up."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True)
class JoinView:
    """An open join: some member has not ended, or the last end is not counted yet."""

    id: UUID
    opened_at: datetime
    members: int
    """How many members it has, ended or not."""
    ended: int
    failed: int
    """How many of the ended ones are not done: buried, cancelled, expired, or dropped with their group."""
    then: Follower | None
    """The follow-up if all are done."""
    otherwise: Follower | None
    """The follow-up if all have ended and some are not done."""
    key: str | None
    correlation_id: str | None
    oldest: DeliveryView | None
    """The member stored first among those that have not ended; None if all have."""


@dataclass(frozen=True, slots=True)
class Recount:
    """The result of a recount: how many ends were uncounted, and where to continue; None after the last join."""

    unnoted: int = 0
    last: UUID | None = None


def as_members(join: Join, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts, as members of the join."""
    mark = {MEMBER_HEADER: str(join.id)}
    return [replace(each, join_id=join.id, headers={**(each.headers or {}), **mark}) for each in drafts]


def is_member(delivery: Delivery) -> bool:
    """Return whether its end may have to be counted. True for a revived one, too, which is not counted again."""
    return delivery.headers is not None and MEMBER_HEADER in delivery.headers


def follower_id(join_id: UUID) -> UUID:
    """Return the id of a join's follow-up: not the join's own, under which its caller may publish something else."""
    return uuid5(_NAMESPACE, str(join_id))


def continuation(join: Join, done: int, failed: int) -> Draft | None:
    """Return the follow-up to publish now that all members have ended; None if there is none."""
    draft = join.failed if failed else join.then
    if draft is None:
        return None
    result = {JOIN_HEADER: str(join.id), DONE_HEADER: str(done), FAILED_HEADER: str(failed)}
    return replace(draft, id=follower_id(join.id), headers={**(draft.headers or {}), **result})


def outcome(delivery: Delivery) -> JoinOutcome | None:
    """Return the outcome of a join from its follow-up; None for other messages."""
    headers = delivery.headers or {}
    try:
        result = JoinOutcome(UUID(headers[JOIN_HEADER]), int(headers[DONE_HEADER]), int(headers[FAILED_HEADER]))
    except (KeyError, ValueError):
        return None
    # Headers of a message with any other id are not trusted. Earlier releases used the join's own id.
    known = str(delivery.message_id), headers.get(REPLACES_HEADER)
    return result if str(follower_id(result.id)) in known or str(result.id) in known else None
