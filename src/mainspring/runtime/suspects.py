"""When a suspect in hand blocks the next one (invariant 15)."""

from __future__ import annotations

from mainspring.model.message import Delivery
from mainspring.runtime.service import FOREVER

PROBATION = 1.0
"""Seconds that a suspect runs before the next of its group is taken. Most messages that kill their process do so while
they are decoded or soon after; those that kill later are found by running alone, after their first death."""


def probation(suspect: Delivery, group: str, ran: float | None) -> float:
    """Return for how many seconds a suspect in hand, that has run for ``ran``, blocks the next of this group.

    One that is charged with a death blocks all groups until its end: it may have died beside the message that killed,
    and only a message that kills alone dies again. ``ran`` is None before it has started.
    """
    if suspect.deaths > 0:
        return FOREVER
    if suspect.group != group:
        return 0.0
    return PROBATION if ran is None else max(PROBATION - ran, 0.0)
