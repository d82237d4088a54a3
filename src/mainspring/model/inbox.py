"""The inbox: which messages of others have been let in, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

InboxStatus = Literal["seen", "processing", "done", "dead"]
"""Where a message stands: it failed and may come in again, somebody is at it, it is done, it was given up."""

Entering = Literal["processing", "done"]
"""How a message is let in: somebody is at it from now on, or it is done with the transaction of whoever lets it in."""

Fate = Literal["seen", "done", "dead"]
"""What becomes of a message that was let in."""


class InboxKey(NamedTuple):
    """What makes a message the same one: who receives it, who sent it, and the id the sender gave it."""

    group: str
    source: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a message is let in. True for exactly one of any number of callers."""

    group: str
    source: str
    message_id: str
    admitted: bool
    """Whether this caller is to process it."""
    status: InboxStatus
    """Where the message stands now."""
    attempts: int
    """How often it has been let in, this time included. It is the fence, named with every mark.

    A restored database may count an attempt again: so the admission is known by its time as well.
    """
    first_seen_at: datetime
    mismatch: bool = False
    """Whether the message came with another hash than the first time; it is not let in then."""
    first_mismatch: bool = False
    """Whether that was noticed for the first time just now."""
    admitted_at: datetime | None = field(default=None, compare=False)
    """When this caller was let in, by the database's clock; None for who was not."""

    def __bool__(self) -> bool:
        """Whether this caller is to process it."""
        return self.admitted

    @property
    def key(self) -> InboxKey:
        """What makes it the same message."""
        return InboxKey(self.group, self.source, self.message_id)


@dataclass(frozen=True, slots=True)
class InboxView:
    """One message of the inbox."""

    group: str
    source: str
    message_id: str
    status: InboxStatus
    attempts: int
    first_seen_at: datetime
    changed_at: datetime
    """Since when it stands where it does."""
    hash: bytes | None = None
    error: str | None = None
    """What was said of the last failure."""
    mismatched_at: datetime | None = None
    """When it first came with another hash."""


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """Which messages of the inbox to list; every field given must match. The latest change comes first."""

    group: str | None = None
    source: str | None = None
    message_id: str | None = None
    status: InboxStatus | None = None
    stuck: timedelta | None = None
    """Only those that somebody has been at for longer than this."""
    before: datetime | None = None
    """Only those that changed before this."""
    limit: int = 50


def entered(key: InboxKey, status: Entering, attempts: int, first_seen_at: datetime, now: datetime) -> Admission:
    """A message is let in."""
    return Admission(
        *key, admitted=True, status=status, attempts=attempts, first_seen_at=first_seen_at, admitted_at=now
    )


def refused(known: InboxView, *, mismatch: bool = False) -> Admission:
    """A message that is known is not let in."""
    return Admission(
        known.group,
        known.source,
        known.message_id,
        admitted=False,
        status=known.status,
        attempts=known.attempts,
        first_seen_at=known.first_seen_at,
        mismatch=mismatch,
        first_mismatch=mismatch and known.mismatched_at is None,
    )


def differs(known: InboxView, hash: bytes | None) -> bool:
    """Whether a message came with another hash than the first time; one without any is taken on trust."""
    return known.hash is not None and hash is not None and known.hash != hash


def may_enter(known: InboxView, now: datetime, retry_after: timedelta | None) -> bool:
    """Whether a message that is known is let in again."""
    if known.status == "processing":
        return retry_after is not None and known.changed_at <= now - retry_after
    return known.status == "seen"
