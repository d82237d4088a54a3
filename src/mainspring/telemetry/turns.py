"""How often the loops of workers have turned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple, Protocol


class Turns(NamedTuple):
    """How often a loop has turned, and how often it failed."""

    turns: int
    failed: int


class Turned(Protocol):
    """What a loop tells of itself."""

    @property
    def turns(self) -> int:
        """How often it has turned."""
        ...

    @property
    def failed(self) -> int:
        """How many of its turns have failed."""
        ...


class Worked(Protocol):
    """A worker, as far as it is told of in numbers."""

    @property
    def in_hand(self) -> int:
        """How many deliveries it holds."""
        ...

    def progress(self) -> Mapping[str, Turned]:
        """How each of its loops is getting on."""
        ...

    def pauses(self) -> Mapping[str, timedelta]:
        """The groups whose breakers are open."""
        ...


def add(total: dict[str, Turns], worker: Worked) -> None:
    """Count what the loops of this worker have turned, too."""
    for loop, report in worker.progress().items():
        before = total.get(loop, Turns(0, 0))
        total[loop] = Turns(before.turns + report.turns, before.failed + report.failed)
