"""How many turns the loops of workers have made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple, Protocol


class Turns(NamedTuple):
    """How many turns a loop has made, and how many failed."""

    turns: int
    failed: int


class Turned(Protocol):
    """The report of a loop."""

    @property
    def turns(self) -> int:
        """The number of its turns."""
        ...

    @property
    def failed(self) -> int:
        """The number of its failed turns."""
        ...


class Worked(Protocol):
    """A worker, as far as metrics describe it."""

    @property
    def in_hand(self) -> int:
        """The number of deliveries it holds."""
        ...

    def progress(self) -> Mapping[str, Turned]:
        """Return the state of each loop."""
        ...

    def pauses(self) -> Mapping[str, timedelta]:
        """Return the groups whose breakers are open."""
        ...


def add(total: dict[str, Turns], worker: Worked) -> None:
    """Add the turns of this worker's loops."""
    for loop, report in worker.progress().items():
        before = total.get(loop, Turns(0, 0))
        total[loop] = Turns(before.turns + report.turns, before.failed + report.failed)
