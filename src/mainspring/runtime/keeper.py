"""Extends claims from a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from mainspring.model.errors import NotGranted, StorageUnavailable
from mainspring.model.message import Claim, Progress
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.handler import Run
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import ThreadService, call_on
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

_BATCH = 1_000
_LAG_REPORTED = 2.0
"""Seconds the worker's loop may be blocked before that is logged, with the line that blocks it."""
_FRAMES_SHOWN = 3
_HELD_REPORTED = 5.0
"""Seconds a handler may hold its transaction open before that is logged."""


class Keeper(ThreadService):
    """Extends every claim in hand, even while a handler blocks the worker's event loop (invariant 8).

    It detects lost claims and requested cancels, and reports them on the worker's loop. It also stores the progress of
    runs.
    """

    longest_pause: float = 1.0

    def __init__(
        self,
        storage: Storage,
        in_hand: ClaimsInHand,
        owner: str,
        hold: timedelta,
        *,
        on_lost: Callable[[Claim], None],
        on_cancel: Callable[[Claim], None],
        log: RateLimitedLog,
        clock: Clock,
    ) -> None:
        super().__init__("keeper", storage, log, clock)
        self._in_hand = in_hand
        self._owner = owner
        self._hold = hold
        self._seconds = hold.total_seconds()
        self._tick = min(1.0, self._seconds / 10)
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._everything = False
        self._checked_at = 0.0
        self._worker_loop: asyncio.AbstractEventLoop | None = None
        self._worker_thread = 0
        self._ping_sent: float | None = None
        self._lag_logged_at = 0.0
        self._held_logged: set[object] = set()
        self._reporting: asyncio.Task[None] | None = None
        self._silent = False
        """Whether the missing right to store progress is logged already."""

    def start(self) -> None:
        """Start the thread, for a worker on the running loop."""
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        super().start()

    def check_soon(self) -> None:
        """Check every claim soon, not only those that need extending: a cancel may have been requested.

        At most once a tick, since a busy file rings often.
        """
        self._everything = True
        if self._clock.monotonic() - self._checked_at >= self._tick:
            self._checked_at = self._clock.monotonic()
            self.wake()

    async def turn(self) -> float:
        """Extend the claims that need it."""
        await self.opened()
        everything, self._everything = self._everything, False
        now = self._clock.monotonic()
        runs = in_hand = self._in_hand.runs()
        if not everything:
            # A claim is extended when a third of its time is gone, so two more attempts fit before it lapses.
            runs = [run for run in runs if run.held_until - now < self._seconds * 2 / 3]
        extending = asyncio.ensure_future(self._extend_all(runs))
        try:
            # Check while extending, too: on SQLite it may wait for the very handler that is to be logged.
            while not extending.done():
                self._watch_lag()
                self._watch_transactions()
                await asyncio.wait([extending], timeout=self._tick)
        finally:
            extending.cancel()
        extending.result()
        self._report(in_hand)
        return self._tick

    async def finish(self) -> None:
        """End the report on its way, and close the storage."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])
        await super().finish()

    async def _extend_all(self, runs: Sequence[Run]) -> None:
        for start in range(0, len(runs), _BATCH):
            await self._extend(runs[start : start + _BATCH])

    async def _extend(self, runs: Sequence[Run]) -> None:
        sent = self._clock.monotonic()
        by_claim = {run.delivery.claim: run for run in runs}
        answer = await self._storage.mailbox.extend(sorted(by_claim), self._owner, self._hold)
        for claim, run in by_claim.items():
            if claim in answer.lost:
                self._notify(self._on_lost, claim)
            elif claim not in answer.busy:
                run.held_until = sent + self._seconds
        for claim in answer.asked:
            self._notify(self._on_cancel, claim)

    def _report(self, runs: Sequence[Run]) -> None:
        """Store progress that has changed; if none has, no statement is sent.

        Not awaited: on SQLite a handler's own transaction may delay it, and claims must be extended in time.
        """
        if self._reporting is not None:
            if not self._reporting.done():
                return
            before, self._reporting = self._reporting, None
            before.result()
        news = [(run, text) for run in runs if (text := run.progress) is not None and text != run.reported]
        if news:
            self._reporting = asyncio.create_task(self._store(news))

    async def _store(self, news: Sequence[tuple[Run, str]]) -> None:
        for start in range(0, len(news), _BATCH):
            batch = news[start : start + _BATCH]
            try:
                progress = [Progress(run.delivery.claim, text) for run, text in batch]
                await self._storage.upkeep.report(progress, self._owner)
            except StorageUnavailable:
                return  # other services log the outage; retried at the next turn
            except NotGranted as error:
                if not self._silent:  # claims are extended all the same, so it is no failure of a turn
                    self._silent = True
                    self._log.log(logging.WARNING, "%s: progress is not stored: %s", self.name, error)
                return
            self._silent = False
            for run, text in batch:
                run.reported = text

    def _notify(self, callback: Callable[..., None], *args: object) -> None:
        if self._worker_loop is not None:
            call_on(self._worker_loop, callback, *args)

    def _watch_lag(self) -> None:
        """Log a handler that blocks the worker's loop, with its stack."""
        now = self._clock.monotonic()
        if self._ping_sent is None:
            self._ping_sent = now
            self._notify(self._loop_responded)
            return
        lag = now - self._ping_sent
        if lag < _LAG_REPORTED or now - self._lag_logged_at < max(_LAG_REPORTED, lag / 2):
            return
        self._lag_logged_at = now
        frame = sys._current_frames().get(self._worker_thread)  # noqa: SLF001 - the only way to see another thread's stack
        places = traceback.extract_stack(frame)[-_FRAMES_SHOWN:] if frame is not None else []
        where = " > ".join(f"{Path(each.filename).name}:{each.lineno} {each.name}: {each.line}" for each in places)
        self._log.log(
            logging.WARNING,
            "the event loop has been blocked for %.1f s; claims are kept, but nothing else runs. Blocked at %s",
            lag,
            where,
        )

    def _watch_transactions(self) -> None:
        """Log a transaction that is held long: other sessions and the database's vacuum wait for it."""
        now, long = self._clock.monotonic(), set[object]()
        for run in self._in_hand.runs():
            since = run.tx_since
            if since is None or now - since < _HELD_REPORTED:
                continue
            long.add(run)
            if run not in self._held_logged:
                self._log.log(
                    logging.WARNING,
                    "%s: message %s has held its transaction open for %.0f s: do slow work before it, or without one",
                    run.handler.group,
                    run.delivery.message_id,
                    now - since,
                )
        self._held_logged = long

    def _loop_responded(self) -> None:
        self._ping_sent = None
