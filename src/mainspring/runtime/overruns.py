"""Runs that continue after being asked to stop: asked again, and reported."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from mainspring.model.schedule import SCHEDULE_HEADER
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.reports import RateLimitedLog
from mainspring.timing.clock import Timers
from mainspring.timing.duration import spell

PATIENCE = 10.0
"""Seconds for a run that was asked to stop to clean up; after them it is overrunning, and asked again."""
_LONGEST = 300.0
"""The maximum of seconds between two such requests."""


@dataclass(frozen=True, slots=True)
class Overrun:
    """A run that was asked to stop and continues."""

    group: str
    message_id: UUID
    reason: str
    """Why it was asked: timeout, cancelled, lost."""
    since: timedelta
    """How long ago."""
    schedule: str | None
    """The schedule whose occurrence it is; with ``overlap="skip"`` no other fires while it runs."""


@dataclass(frozen=True, slots=True)
class Overruns:
    """Asks the runs of one consumer to stop, again and again.

    A coroutine is cancelled again, ever more rarely: a cancellation may interrupt its cleaning up, so that gets time. A
    thread cannot be stopped, and is only reported. It keeps its slot and its claim for as long as it runs.
    """

    handler: Handler
    log: RateLimitedLog
    timers: Timers

    def watch(self, run: Run) -> None:
        """Watch a run that was asked to stop."""
        self.timers.call_later(PATIENCE, self._stop_again, run, PATIENCE)

    def named(self, runs: list[Run]) -> list[Overrun]:
        """Return those that are overrunning."""
        return [each for run in runs if (each := _overrun(run)) is not None]

    def _stop_again(self, run: Run, pause: float) -> None:
        found = _overrun(run)
        if found is None or run.task is None:
            return  # it has ended
        pause = min(2 * pause, _LONGEST)
        self.log.log(
            logging.WARNING,
            "%s: message %s is overrunning: it was asked to stop %s ago (%s) and continues; %s",
            found.group,
            found.message_id,
            spell(found.since),
            found.reason,
            "a thread cannot be stopped"
            if self.handler.threaded
            else "it swallows its cancellation, and is cancelled again",
        )
        if not self.handler.threaded:
            run.cancel()
        self.timers.call_later(pause, self._stop_again, run, pause)


def _overrun(run: Run) -> Overrun | None:
    if run.stopped_at is None or run.stop_reason is None:
        return None
    since = time.monotonic() - run.stopped_at
    if since < PATIENCE:
        return None
    delivery = run.delivery
    schedule = (delivery.headers or {}).get(SCHEDULE_HEADER)
    return Overrun(delivery.group, delivery.message_id, run.stop_reason, timedelta(seconds=since), schedule)
