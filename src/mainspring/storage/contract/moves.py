"""Moves of a fleet's databases: the record in its home, and what brings the content of one database to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mainspring.model.move import Batch, Fence, Move, Step, Sum


class Moves(Protocol):
    """The record of moves, in the home of a fleet; and the fence of this database."""

    async def browse(self) -> list[Move]:
        """Return all that were begun, the first one first."""
        ...

    async def begin(self, name: str, target: str, origin: str, place: str, epoch: int) -> int:
        """Record one, and return its id. The caller holds the lease of the name, under this epoch."""
        ...

    async def note(self, move: Move, epoch: int, step: Step, counts: Mapping[str, int]) -> bool:
        """Record how far it is. False: a later mover has it."""
        ...

    async def forget(self, move: Move, epoch: int) -> None:
        """Remove the record of a move that has changed nothing."""
        ...

    async def fence(self) -> Fence | None:
        """Return why this database refuses writes; None: it does not."""
        ...


class Transfer(Protocol):
    """Brings the content of one database to another of the same dialect, table by table.

    The owner of the tables does, on a connection of its own without a deadline for statements. What writes needs the
    fence of the mover on this database; it returns False, and changes nothing, once a later mover has it.
    """

    tables: tuple[str, ...]
    """The tables whose rows move."""

    async def whereabouts(self) -> str:
        """Return what is alike for two connections to one database, and differs between databases."""
        ...

    async def raise_fence(self, fence: Fence) -> None:
        """Refuse all writes from now on but the mover's; waits, not long, for transactions that have written.

        Once it returns, none that has written before is open. Raises Misuse if another move has a fence here, and
        StorageUnavailable if a transaction stays open: nothing is changed then, and the caller may try again.
        """
        ...

    async def lift_fence(self, epoch: int) -> bool:
        """Accept writes again, if the fence is this mover's. False: there is none of it."""
        ...

    async def filled(self) -> list[str]:
        """Return the tables that have rows."""
        ...

    async def read(self, table: str, after: Any = None) -> Batch:
        """Return some rows, in the order of the key, after the ``last`` of a batch."""
        ...

    async def write(self, table: str, rows: Sequence[Any], epoch: int) -> bool:
        """Store rows that another database's ``read`` has returned."""
        ...

    async def clear(self, table: str, epoch: int) -> bool:
        """Remove all its rows."""
        ...

    async def sum(self, table: str) -> Sum:
        """Return what tells its content from any other."""
        ...

    async def marks(self) -> Mapping[str, int]:
        """Return the last numbers given out: each is given out once, also after the row has gone."""
        ...

    async def set_marks(self, marks: Mapping[str, int], epoch: int) -> bool:
        """Continue above these numbers."""
        ...

    async def close(self) -> None:
        """End its connection. Idempotent."""
        ...
