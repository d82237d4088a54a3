"""The move of a fleet's database to another one: its record, and the fence that both databases have while it lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

Step = Literal["prepare", "pause", "copy", "verify", "reroute", "resume", "finished", "undo", "undone"]
"""What a move is doing, in this order; ``undo`` and ``undone`` may follow on each of the first four."""

REROUTED: frozenset[Step] = frozenset(("reroute", "resume", "finished"))
"""The steps in which the name leads to the target: nothing goes back from there."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move, as the home of the fleet records it."""

    id: int
    name: str
    """The database that moves, by its name in the fleet."""
    target: str
    """The name that its new place has, or had, in the fleet."""
    step: Step
    began_at: datetime
    changed_at: datetime
    """When it was last heard of."""
    epoch: int
    """That of the mover's lease: a mover that has lost it changes nothing any more."""
    origin: str
    """What identifies the database that it leaves, without a password."""
    place: str
    """What identifies the database of the target."""
    counts: Mapping[str, int]
    """The rows of each table that is copied."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.step in ("finished", "undone")


@dataclass(frozen=True, slots=True)
class Fence:
    """Why a database refuses all writes, from whatever session: its content moves, or has moved, to another one."""

    name: str
    target: str
    epoch: int
    """That of the mover, which alone may write."""
    is_over: bool = False
    """Whether the content is served in the target by now."""

    def __str__(self) -> str:
        """Return the error of a refused write, which ``DatabaseMoved.read`` reads."""
        moves = "has moved" if self.is_over else "moves"
        return f"database '{self.name}' {moves} to '{self.target}': nothing is stored"


OF_WORKERS = frozenset(
    (
        "groups",
        "subscription",
        "worker",
        "tally",
        "declaration",
        "measure",
        "measure_slot",
        "counter",
        "setting",
        "limits",
    )
)
"""Tables in which any database has rows that was migrated, or looked at by a worker, without a message."""


class Batch(NamedTuple):
    """Some rows of a table, as the same dialect writes them."""

    rows: list[Any]
    last: Any
    """After which to continue."""


class Sum(NamedTuple):
    """What tells two tables apart."""

    rows: int
    checksum: str
    """Of all rows, in any order."""
