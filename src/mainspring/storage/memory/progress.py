"""What handlers say of their runs, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.model.message import Progress
from mainspring.storage.memory.rows import DeliveryRow


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """What was last said of a run."""

    epoch: int
    said: str
    at: datetime


@dataclass(slots=True)
class ProgressTable:
    """A row by seq. It counts while the delivery is held under the same epoch (invariant 2)."""

    rows: dict[int, ProgressRow] = field(default_factory=dict)

    def of(self, row: DeliveryRow) -> ProgressRow | None:
        """What its holder last said."""
        there = self.rows.get(row.seq)
        return there if there is not None and row.held_by is not None and there.epoch == row.epoch else None

    def note(self, progress: Progress, owner: str, deliveries: Mapping[int, DeliveryRow], now: datetime) -> None:
        """Keep it, if it is said by whoever holds the delivery."""
        claim = progress.claim
        row = deliveries.get(claim.id)
        if row is not None and row.held_by == owner and row.is_of(claim):
            self.rows[claim.id] = ProgressRow(claim.epoch, progress.text, now)

    def prune(self, deliveries: Mapping[int, DeliveryRow], limit: int) -> int:
        """Forget what was said of runs that are over."""
        rows = ((seq, deliveries.get(seq)) for seq in sorted(self.rows))
        over = [seq for seq, row in rows if row is None or self.of(row) is None][:limit]
        for seq in over:
            del self.rows[seq]
        return len(over)
