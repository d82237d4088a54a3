"""What a test sees of its messages: small frozen values, with payloads as objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from mainspring.model.message import Priority, PublishStatus
from mainspring.model.schedule import NEVER
from mainspring.timing.duration import spell

Outcome = Literal["done", "failed", "dead", "snoozed", "cancelled"]
"""What became of an attempt; *failed* is tried again, *dead* is not."""
_MOST = 300


@dataclass(frozen=True, slots=True, repr=False)
class Sent:
    """A message as it was published."""

    topic: str
    payload: Any
    """As the topic's own type where ``@app.message`` gave it one, else as what JSON says."""
    id: UUID
    status: PublishStatus
    group: str | None
    """The one group it was sent to; None: whoever subscribes."""
    key: str | None
    headers: Mapping[str, str]
    priority: Priority
    published_at: datetime
    due_at: datetime
    expires_at: datetime | None
    correlation_id: str | None
    causation_id: UUID | None
    schedule: str | None = None
    """The schedule whose occurrence it is."""

    @property
    def delay(self) -> timedelta:
        """How long it was to wait."""
        return self.due_at - self.published_at

    def __repr__(self) -> str:
        """Where it went, what it was, when it is due."""
        to = f" to {self.group}" if self.group else ""
        later = f", due in {spell(self.delay)}" if self.delay else ""
        again = "" if self.status == "stored" else f", a {self.status}"
        return f"<published {self.topic}{to}: {shown(self.payload)}{later}{again}>"


@dataclass(frozen=True, slots=True, repr=False)
class Ran:
    """One attempt at one delivery."""

    group: str
    topic: str
    payload: Any
    """As the consumer's own type; bytes where they could not be read."""
    message_id: UUID
    attempt: int
    outcome: Outcome
    at: datetime
    took: timedelta
    error: str | None
    """Why it failed, died, was snoozed or cancelled."""
    exception: BaseException | None
    """What the handler raised, with its traceback."""
    output: str | None
    again_at: datetime | None
    """When it is due again, after a failure or a snooze."""
    key: str | None
    headers: Mapping[str, str]
    correlation_id: str | None
    causation_id: UUID | None
    schedule: str | None = None
    """The schedule whose occurrence it was."""
    progress: str | None = None
    """What the handler last said by ``ctx.progress``."""

    def __repr__(self) -> str:
        """Who did what with which message, and how it ended."""
        why = f": {self.error}" if self.error else ""
        again = f", again in {spell(self.again_at - self.at)}" if self.again_at else ""
        return f"<{self.outcome} {self.group}({shown(self.payload)}), attempt {self.attempt}{why}{again}>"


@dataclass(frozen=True, slots=True, repr=False)
class Pending:
    """A delivery that waits for its time."""

    group: str
    topic: str
    payload: Any
    message_id: UUID
    due_at: datetime
    due_in: timedelta
    attempt: int
    """How many attempts it has had."""
    key: str | None

    def __repr__(self) -> str:
        """Whose it is, what it is, when it is due."""
        when = f"due in {spell(self.due_in)}" if self.due_in > timedelta() else "due now"
        if self.due_at == NEVER:
            when = "waits for an earlier run of its schedule"
        tried = f", after attempt {self.attempt}" if self.attempt else ""
        return f"<pending {self.group}({shown(self.payload)}), {when}{tried}>"


@dataclass(frozen=True, slots=True, repr=False)
class DeadLetter:
    """A delivery that was given up."""

    group: str
    topic: str
    payload: Any
    message_id: UUID
    attempt: int
    """How many attempts it had."""
    buried_at: datetime
    error: str
    exception: BaseException | None
    """What the handler raised at last, with its traceback; None where it died before this test."""
    key: str | None

    def __repr__(self) -> str:
        """Whose it is, what it is, why it died."""
        return f"<dead {self.group}({shown(self.payload)}) after attempt {self.attempt}: {self.error}>"


def shown(payload: object) -> str:
    """The payload for a line of text."""
    text = repr(payload)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
