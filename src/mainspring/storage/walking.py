"""Walks over topics, of which there may be hundreds of thousands: a stretch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mainspring.model.retention import CHORES, KINDS, Chore, Pruned
from mainspring.storage.script import Script

STRETCH = 1_000
"""How many topics are looked at in one go."""
CHOICE = 20_000
"""How many parked messages of a stretch are looked at to find the oldest."""
_COUNTED: dict[Chore, str] = {"done": "runs", "failures": "runs", "bells": ""}
"""By what they are counted, where it is not their own name."""


Found = tuple[int, str | None]
"""How many were removed, and after which topic to go on; empty: there is more of the same; None: there is no more."""
Chores = Callable[[str], Mapping[Chore, Callable[[], Script[Found]]]]
"""How each chore is done, after a topic."""


def pruned(topic: str | None, chore: Chore | None, after: str | None, limit: int, chores: Chores) -> Script[Pruned]:
    """One chore, after a topic; or all there are, each to the end of its topics."""

    def prune(chore: Chore, after: str) -> Script[Pruned]:
        removed, last = yield from chores(after)[chore]()
        counted = _COUNTED.get(chore, chore)
        numbers: dict[str, Any] = {counted: removed} if counted else {}
        return Pruned(**numbers, last=last)

    if chore is not None:
        return (yield from prune(chore, after or ""))
    total = Pruned()
    for each in CHORES if topic is None else KINDS:
        last: str | None = ""
        while last is not None:
            done = yield from prune(each, last)
            total += done
            last = None if done.total >= limit else done.last or None
    return replace(total, last=None)
