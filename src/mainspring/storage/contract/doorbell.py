"""How sleepers are woken, on every storage."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, Protocol

BellMode = Literal["notify", "watch", "poll"]
"""How work is noticed: told by the database, watched for in the file, or only asked for."""


class Doorbell(Protocol):
    """A hint that work may be due. It may be late, spurious or missing; correctness never needs it."""

    @property
    def mode(self) -> BellMode:
        """How work is noticed now. ``notify`` only while the bell has been proven to ring."""
        ...

    def listen(self, rung: Callable[[str], None]) -> None:
        """Call ``rung(group)`` on this loop when a publisher rings; the empty string means any group."""
        ...

    async def arm(self, groups: Collection[str]) -> None:
        """Ask publishers to ring for these groups. The caller must look once more before it sleeps."""
        ...

    async def disarm(self, groups: Collection[str]) -> None:
        """Enough: we are awake."""
        ...

    async def ring(self) -> None:
        """Wake whoever is asleep anywhere, whatever its groups."""
        ...

    async def rouse(self) -> None:
        """Ring for armed groups that have something due: a transaction was committed after they fell asleep."""
        ...
