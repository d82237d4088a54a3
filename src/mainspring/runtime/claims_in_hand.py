"""The claims this process holds, from claiming until the verdict is written."""

from __future__ import annotations

import time

from mainspring.model.message import Claim, Delivery
from mainspring.runtime.handler import Run
from mainspring.runtime.service import FOREVER

PROBATION = 1.0
"""Seconds that a suspect runs before the next of its group is taken. Most messages that kill their process do so while
they are decoded or soon after; those that kill later are found by running alone, after their first death."""


def probation(suspect: Delivery, group: str, ran: float | None) -> float:
    """Return for how many seconds a suspect in hand, that has run for ``ran``, blocks the next of this group.

    One that is charged with a death blocks all groups until its end: it may have died beside the message that killed,
    and only a message that kills alone dies again. ``ran`` is None before it has started.
    """
    if suspect.deaths > 0:
        return FOREVER
    if suspect.group != group:
        return 0.0
    return PROBATION if ran is None else max(PROBATION - ran, 0.0)


class ClaimsInHand:
    """The claims in hand. Changed on the worker's loop only; the keeper's thread reads copies."""

    def __init__(self) -> None:
        self._runs: dict[Claim, Run] = {}
        self._suspects: dict[Claim, Run] = {}
        self._aside: set[Claim] = set()
        self.is_reaping: bool = False
        """Whether a fetcher is reaping: two at once might each get a suspect that must run alone."""

    def __len__(self) -> int:
        return len(self._runs)

    def take(self, run: Run) -> bool:
        """Add the run of a claimed delivery. Returns False if it is in hand already, and must not run a second time.

        A promoted database that has no record of the claim in hand may return the same delivery again, under the same
        epoch: that is the claim in hand.
        """
        known = self._runs.setdefault(run.delivery.claim, run)
        if known is not run:
            known.held_until = max(known.held_until, run.held_until)
        elif run.delivery.suspect:
            self._suspects[run.delivery.claim] = run
        return known is run

    def drop(self, claim: Claim) -> Run | None:
        """Remove a claim whose verdict is written, or that is lost."""
        self._suspects.pop(claim, None)
        self._aside.discard(claim)
        return self._runs.pop(claim, None)

    def let_go(self, run: Run) -> None:
        """Remove a run that ended without a verdict, its claim being lost. Its delivery may have been claimed again."""
        if self._runs.get(run.delivery.claim) is run:
            self.drop(run.delivery.claim)

    def put_aside(self, claim: Claim) -> Run | None:
        """Mark a claim whose verdict waits for a locked row: it may lapse, but this process does not reap it.

        Its run has ended, so as a suspect it no longer blocks others.
        """
        run = self._runs.get(claim)
        if run is not None:
            self._aside.add(claim)
            self._suspects.pop(claim, None)
        return run

    @property
    def aside(self) -> list[Claim]:
        """The claims whose verdicts wait for locked rows."""
        return list(self._aside)

    def get(self, claim: Claim) -> Run | None:
        """Return the run of a claim, if it is still in hand."""
        return self._runs.get(claim)

    @property
    def holds_suspects(self) -> bool:
        """Whether suspects are in hand: deliveries whose last holders died."""
        return bool(self._suspects)

    def probation(self, group: str) -> float:
        """Return the seconds until a suspect of this group may be taken; infinite if another run must end first."""
        now = time.monotonic()
        return max((probation(run.delivery, group, _ran(run, now)) for run in self._suspects.values()), default=0.0)

    def overdue(self, now: float) -> bool:
        """Return whether some claim has lapsed unextended: reaping now could take over this process's own work."""
        return any(run.held_until <= now for claim, run in self._runs.items() if claim not in self._aside)

    def runs(self) -> list[Run]:
        """Return a copy, made atomically, so that another thread may use it."""
        return list(self._runs.values())


def _ran(run: Run, now: float) -> float | None:
    """Return how long it has run; a run in a process of its own endangers no other."""
    if run.handler.program is not None:
        return now
    return None if run.started is None else now - run.started
