"""The inbox: which external messages were admitted, and their status."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

InboxStatus = Literal["seen", "processing", "done", "dead"]
"""The status of a message: failed and may be admitted again, being processed, done, or given up."""

AdmitStatus = Literal["processing", "done"]
"""The status on admission: processing, or done with the caller's transaction."""

MarkStatus = Literal["seen", "done", "dead"]
"""The status after an admitted message was processed."""


class InboxKey(NamedTuple):
    """The identity of a message: its receiver, its sender, and the sender's id for it."""

    group: str
    source: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of an admission. True for exactly one of any number of callers."""

    group: str
    source: str
    message_id: str
    admitted: bool
    """Whether this caller has to process it."""
    status: InboxStatus
    """The status of the message now."""
    attempts: int
    """How often it was admitted, this time included. It is the fence, passed with every mark.

    A restored database may count an attempt again: so the admission is identified by its time as well.
    """
    first_seen_at: datetime
    mismatch: bool = False
    """Whether the message arrived with another hash than the first time; it is not admitted then."""
    first_mismatch: bool = False
    """Whether that was detected for the first time just now."""
    admitted_at: datetime | None = field(default=None, compare=False)
    """When this caller was admitted, by the database's clock; None if it was not."""

    def __bool__(self) -> bool:
        """Return whether this caller has to process it."""
        return self.admitted

    @property
    def key(self) -> InboxKey:
        """The identity of the message."""
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
    """Since when it has its status."""
    hash: bytes | None = None
    error: str | None = None
    """The error of the last failure."""
    mismatched_at: datetime | None = None
    """When it first arrived with another hash."""


class InboxReceipt(NamedTuple):
    """What became of messages from outside, by the sender's ids."""

    stored: frozenset[str] = frozenset()
    """The others are repeats."""
    mismatched: frozenset[str] = frozenset()
    """Repeats that have another payload than the first time; each is named once."""


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """A search for messages of the inbox; all given fields must match. The latest change comes first."""

    group: str | None = None
    source: str | None = None
    message_id: str | None = None
    status: InboxStatus | None = None
    stuck: timedelta | None = None
    """Only those that have been processing for longer than this."""
    before: datetime | None = None
    """Only those that changed earlier."""
    limit: int = 50
    past: InboxKey | None = None
    """Also those that changed at ``before`` itself, after this key: by message id, source and group."""

    @property
    def past_columns(self) -> tuple[str | None, str | None, str | None]:
        """Return ``past`` in the order of the list."""
        return (None, None, None) if self.past is None else (self.past.message_id, self.past.source, self.past.group)


def admitted(key: InboxKey, status: AdmitStatus, attempts: int, first_seen_at: datetime, now: datetime) -> Admission:
    """Return the admission of a message that is admitted."""
    return Admission(
        *key, admitted=True, status=status, attempts=attempts, first_seen_at=first_seen_at, admitted_at=now
    )


def rejected(known: InboxView, *, mismatch: bool = False) -> Admission:
    """Return the admission of a known message that is rejected."""
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
    """Return whether a message arrived with another hash than the first time; one without a hash is accepted."""
    return known.hash is not None and hash is not None and known.hash != hash


def may_admit(known: InboxView, now: datetime, retry_after: timedelta | None) -> bool:
    """Return whether a known message is admitted again."""
    if known.status == "processing":
        return retry_after is not None and known.changed_at <= now - retry_after
    return known.status == "seen"
