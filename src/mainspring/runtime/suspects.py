"""What is taken over from holders that died: when one of it stands in the way of the next (invariant 15)."""

from __future__ import annotations

from mainspring.model.message import Delivery
from mainspring.runtime.service import FOREVER

PROBATION = 1.0
"""Seconds that a suspect runs before the next of its group is taken. What a message does to its process it mostly does
while it is read or in its first steps; whatever kills later is found by running alone, after its first death."""


def probation(suspect: Delivery, group: str, ran: float | None) -> float:
    """Seconds for which a suspect in hand, that has run for so long, keeps the process from taking one of this group.

    One that has cost a process already is alone until its end, whatever the group: it may have died in the company of
    what killed, and only what kills alone dies again. ``ran`` is None before it has begun.
    """
    if suspect.deaths > 0:
        return FOREVER
    if suspect.group != group:
        return 0.0
    return PROBATION if ran is None else max(PROBATION - ran, 0.0)
