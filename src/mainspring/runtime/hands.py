"""What this process holds: every claim from the moment it was taken until its verdict is written."""

from __future__ import annotations

from mainspring.model.message import Claim
from mainspring.runtime.handler import Run


class Hands:
    """The claims in hand. Changed on the worker's loop only; the keeper's thread reads copies."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int], Run] = {}
        self._suspect: tuple[int, int] | None = None
        self.is_reaping: bool = False
        """Whether somebody asks for a suspect just now: two who ask at once would get one each (invariant 15)."""

    def __len__(self) -> int:
        return len(self._runs)

    def take(self, run: Run) -> None:
        """A delivery was claimed."""
        claim = run.delivery[:2]
        self._runs[claim] = run
        if run.delivery.suspect:
            self._suspect = claim

    def drop(self, claim: tuple[int, int]) -> Run | None:
        """Its verdict is written, or it is lost."""
        if claim == self._suspect:
            self._suspect = None
        return self._runs.pop(claim, None)

    def get(self, claim: Claim) -> Run | None:
        """The run under a claim, if it is still in hand."""
        return self._runs.get(claim)

    @property
    def holds_suspect(self) -> bool:
        """Whether a delivery that may be poisonous is in hand: at most one at a time (invariant 15)."""
        return self._suspect is not None

    def overdue(self, now: float) -> bool:
        """Whether some claim ran out unextended: reaping now could take our own work from ourselves."""
        return any(run.held_until <= now for run in self._runs.values())

    def runs(self) -> list[Run]:
        """A copy, taken in one step, so that another thread may have it."""
        return list(self._runs.values())
