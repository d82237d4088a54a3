"""Everything an app can do, behind one door: the same offices serve coroutines and, in the back, blocking callers."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.app.dead_letters import DeadLetters
from mainspring.app.desk import Groups, Messages
from mainspring.app.door import Door
from mainspring.app.operations import Operations
from mainspring.app.post import Post


@dataclass(frozen=True, slots=True)
class Offices:
    """The offices behind one door. A door belongs to one loop, so an app has two sets of them."""

    door: Door
    post: Post
    messages: Messages
    dead: DeadLetters
    groups: Groups
    operations: Operations
