"""Joins in memory: let go on when all their members have ended."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from mainspring.model.join import continuation
from mainspring.model.message import Conflict, Draft
from mainspring.storage.memory.publishing import publish
from mainspring.storage.memory.state import State


class Fired(NamedTuple):
    """The joins that were complete: how many, what they have published, and what they could not."""

    joined: int
    continuations: tuple[Draft, ...]
    conflicts: tuple[Conflict, ...]


def fire(state: State, limit: int, now: datetime) -> Fired:
    """Let up to ``limit`` complete joins go on, in the order of their ids."""
    complete = sorted(id for id, row in state.joints.items() if row.pending == 0)[:limit]
    # The row goes in the step that publishes: whoever looks next finds nothing to follow.
    over = [state.joints.pop(id) for id in complete]
    following = [continuation(row.join, row.done, row.failed) for row in over]
    drafts = tuple(draft for draft in following if draft is not None)
    published = publish(state, drafts, now)
    return Fired(len(over), drafts, published.conflicting(drafts))


def has_complete(state: State) -> bool:
    """Whether some join is complete."""
    return any(row.pending == 0 for row in state.joints.values())
