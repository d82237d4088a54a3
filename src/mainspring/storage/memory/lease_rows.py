"""The rows of leases in memory, and the one count of their epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from mainspring.model.lease import Hold, LeaseState


@dataclass(slots=True)
class LeaseRow:
    """A lease that somebody holds, or once held. Nobody does where there is no holder, or its time is over."""

    epoch: int
    holder: str | None
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime

    def state(self, now: datetime) -> LeaseState:
        """Who has it, at this instant."""
        if self.holder is None:
            return "free"
        return "held" if self.expires_at > now else "expired"

    def is_under(self, hold: Hold, now: datetime) -> bool:
        """Whether this hold is good, at this instant."""
        return self.epoch == hold.epoch and self.holder == hold.holder and self.state(now) == "held"

    def release(self, now: datetime) -> None:
        """Let nobody hold it."""
        self.holder, self.expires_at = None, now


@dataclass(slots=True)
class LeaseTable:
    """Every lease by its name. Epochs are counted for all of them, so that none forgets where it was (invariant 16)."""

    rows: dict[str, LeaseRow] = field(default_factory=dict)
    epochs: Iterator[int] = field(default_factory=lambda: count(1))
