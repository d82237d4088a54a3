"""Unique keys: when two messages count as the same, and which is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

Keeps = Literal["first", "last"]
"""Which of two is kept: the earlier one, or the new one in its place."""
Scope = Literal["pending", "running"] | timedelta
"""Which earlier one counts: no copy has started, some copy has not ended, or it is not older than this."""

REPLACED = "replaced"
"""Why a message replaced by a later one was cancelled."""
LEAST = timedelta(hours=1)
"""The minimum time a unique key is stored, and the interval at which one still needed is checked again."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """The hashed key of a message, and what happens to a second one."""

    hash: bytes
    scope: Scope = "running"
    keep: Keeps = "first"

    @property
    def window(self) -> timedelta | None:
        """How long an earlier one counts, whatever its state; None if the state decides."""
        return self.scope if isinstance(self.scope, timedelta) else None

    @property
    def remembered(self) -> timedelta:
        """How long it has to be stored."""
        return max(LEAST, self.window or LEAST)
