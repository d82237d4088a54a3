"""Cancelling: what nobody holds goes, the holders of the rest are asked to stop."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.model.message import Cancelled
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.fan_in import count_dropped
from mainspring.storage.sqlite.values import numbers, storable


def withdraw(sql: Dialect, found: Sequence[Row], parked: Sequence[Row], reason: str, at: int) -> Script[Cancelled]:
    """Remove the deliveries that were found, or ask their holders to stop; and what is nobody's yet."""
    held = [seq for seq, _, is_held, _ in found if is_held]
    free = [(seq, raw) for seq, raw, is_held, _ in found if not is_held]
    why = storable(reason)
    if held:
        yield sql("cancel_ask", numbers(held))
    if free:
        seqs = numbers(seq for seq, _ in free)
        yield sql("delivery_cancelled", seqs, at, why)
        yield sql("delivery_delete", seqs)
        yield from count_dropped(sql, (join_id for _, _, is_held, join_id in found if not is_held))
    if parked:
        seqs = numbers(seq for seq, _ in parked)
        yield sql("parked_cancelled", seqs, at, why)
        yield sql("parked_delete", seqs)
    if free or parked:
        yield sql("ended_enlist", at, 0, b"".join(raw for _, raw in (*free, *parked)))
    return Cancelled(cancelled=len(free) + len(parked), asked=len(held))
