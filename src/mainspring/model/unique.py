"""What makes two messages the same, and when the earlier one counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

Keeps = Literal["first", "last"]
"""Which of two is kept: the earlier one, or the new one in its place."""
Scope = Literal["pending", "running"] | timedelta
"""Which earlier one counts: none of its copies has begun, some copy has not ended, or it is not older than that."""

REPLACED = "replaced"
"""Why what made room for a later message was cancelled."""
LEAST = timedelta(hours=1)
"""How long a likeness is remembered at least, and after how long one that is still needed is looked at again."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """What a message is alike in, hashed, and what becomes of the second one."""

    hash: bytes
    scope: Scope = "running"
    keep: Keeps = "first"

    @property
    def window(self) -> timedelta | None:
        """How long an earlier one counts, whatever became of it; None where that is what counts."""
        return self.scope if isinstance(self.scope, timedelta) else None

    @property
    def remembered(self) -> timedelta:
        """How long it is to be remembered."""
        return max(LEAST, self.window or LEAST)
