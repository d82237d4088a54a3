"""What this process holds: every claim from the moment it was taken until its verdict is written."""

from __future__ import annotations

import time

from mainspring.model.message import Claim
from mainspring.runtime.handler import Run
from mainspring.runtime.suspects import probation


class ClaimsInHand:
    """The claims in hand. Changed on the worker's loop only; the keeper's thread reads copies."""

    def __init__(self) -> None:
        self._runs: dict[Claim, Run] = {}
        self._suspects: dict[Claim, Run] = {}
        self._aside: set[Claim] = set()
        self.is_reaping: bool = False
        """Whether a fetcher asks for a suspect just now: of two at once, each might get one that is to be alone."""

    def __len__(self) -> int:
        return len(self._runs)

    def take(self, run: Run) -> bool:
        """A delivery was claimed. False: it is in hand already, and is not to be run a second time.

        A database that has taken over from another, and never heard of the claim in hand, may give this process the
        same delivery once more, under the same epoch: that is the claim in hand.
        """
        known = self._runs.setdefault(run.delivery.claim, run)
        if known is not run:
            known.held_until = max(known.held_until, run.held_until)
        elif run.delivery.suspect:
            self._suspects[run.delivery.claim] = run
        return known is run

    def drop(self, claim: Claim) -> Run | None:
        """Its verdict is written, or it is lost."""
        self._suspects.pop(claim, None)
        self._aside.discard(claim)
        return self._runs.pop(claim, None)

    def let_go(self, run: Run) -> None:
        """The run has ended without a verdict, since its claim is lost. The delivery may have been claimed again."""
        if self._runs.get(run.delivery.claim) is run:
            self.drop(run.delivery.claim)

    def put_aside(self, claim: Claim) -> Run | None:
        """Its verdict waits for a row that another session has locked: its claim may lapse, but we do not reap it.

        It has ended, and is no suspect any more that others have to wait for.
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
        """The run under a claim, if it is still in hand."""
        return self._runs.get(claim)

    @property
    def holds_suspects(self) -> bool:
        """Whether deliveries are in hand that may be poisonous, since their last holders died."""
        return bool(self._suspects)

    def probation(self, group: str) -> float:
        """Seconds until a suspect of this group may be taken, for ever where only the end of another says when."""
        now = time.monotonic()
        return max((probation(run.delivery, group, _ran(run, now)) for run in self._suspects.values()), default=0.0)

    def overdue(self, now: float) -> bool:
        """Whether some claim ran out unextended: reaping now could take our own work from ourselves."""
        return any(run.held_until <= now for claim, run in self._runs.items() if claim not in self._aside)

    def runs(self) -> list[Run]:
        """A copy, taken in one step, so that another thread may have it."""
        return list(self._runs.values())


def _ran(run: Run, now: float) -> float | None:
    """For how long it has run; what runs in a process of its own takes no other with it."""
    if run.handler.program is not None:
        return now
    return None if run.started is None else now - run.started
