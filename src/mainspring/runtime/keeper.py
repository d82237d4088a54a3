"""Extends claims from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Claim, Progress
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.handler import Run
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import Service
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

_BATCH = 1_000
_LAG_REPORTED = 2.0
"""Seconds the worker's loop may be blocked before that is logged, with the line that blocks it."""
_FRAMES_SHOWN = 3
_HELD_REPORTED = 5.0
"""Seconds a handler may hold its transaction open before that is logged."""
_PATIENCE = 1.0
"""Seconds to wait for the thread to end. It is a daemon: an unresponsive database cannot keep the process alive."""


class Keeper(Service):
    """Extends every claim in hand, even while a handler blocks the worker's event loop (invariant 8).

    It has its own thread, loop and connections, because driver objects never cross loops. It detects lost claims and
    requested cancels, and reports them on the worker's loop. It also stores the progress of runs.
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
        on_asked: Callable[[Claim], None],
        log: RateLimitedLog,
        clock: Clock,
    ) -> None:
        super().__init__("keeper", log, clock)
        self._shared = storage
        self._storage = storage.sibling()
        self._open: asyncio.AbstractEventLoop | None = None
        """The loop on which it is open."""
        self._in_hand = in_hand
        self._owner = owner
        self._hold = hold
        self._seconds = hold.total_seconds()
        self._tick = min(1.0, self._seconds / 10)
        self._on_lost = on_lost
        self._on_asked = on_asked
        self._everything = False
        self._poked_at = 0.0
        self._worker_loop: asyncio.AbstractEventLoop | None = None
        self._worker_thread = 0
        self._loop_here: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = asyncio.Event()
        self._ping_sent: float | None = None
        self._lag_told = 0.0
        self._held_told: set[object] = set()
        self._reporting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the thread, for a worker on the running loop."""
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._main, name="mainspring-keeper", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """End the current sleep. Safe from any thread."""
        loop = self._loop_here
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(super().wake)

    def poke(self) -> None:
        """Check every claim soon, not only those that need extending: a cancel may have been requested.

        At most once a tick, since a busy file rings often.
        """
        self._everything = True
        if self._clock.monotonic() - self._poked_at >= self._tick:
            self._poked_at = self._clock.monotonic()
            self.wake()

    async def stop(self) -> None:
        """End the thread. Returns within a second even if the database does not respond."""
        self._stopping = True
        self.wake()
        if self._thread is not None:
            await asyncio.wait([asyncio.create_task(self._ended.wait())], timeout=_PATIENCE)

    async def turn(self) -> float:
        """Extend the claims that need it."""
        if self._open is not (loop := asyncio.get_running_loop()):
            if self._open is not None:
                self._storage = self._shared.sibling()  # its loop has ended, and its connections with it
            await self._storage.open()
            self._open = loop
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

    def _main(self) -> None:
        try:
            self._turn_in_thread(self._keep)
        finally:
            self._tell(self._ended.set)

    async def _keep(self) -> None:
        self._loop_here = asyncio.get_running_loop()
        await self._loop()
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])
        await self._storage.close()

    async def _extend_all(self, runs: Sequence[Run]) -> None:
        for start in range(0, len(runs), _BATCH):
            await self._extend(runs[start : start + _BATCH])

    async def _extend(self, runs: Sequence[Run]) -> None:
        sent = self._clock.monotonic()
        by_claim = {run.delivery.claim: run for run in runs}
        answer = await self._storage.mailbox.extend(sorted(by_claim), self._owner, self._hold)
        for claim, run in by_claim.items():
            if claim in answer.lost:
                self._tell(self._on_lost, claim)
            elif claim not in answer.busy:
                run.held_until = sent + self._seconds
        for claim in answer.asked:
            self._tell(self._on_asked, claim)

    def _report(self, runs: Sequence[Run]) -> None:
        """Store progress that has changed; if none has, no statement is sent.

        Not awaited: on SQLite a handler's own transaction may delay it, and claims must be extended in time.
        """
        if self._reporting is not None:
            if not self._reporting.done():
                return
            before, self._reporting = self._reporting, None
            before.result()
        news = [(run, said) for run in runs if (said := run.progress) is not None and said != run.reported]
        if news:
            self._reporting = asyncio.create_task(self._store(news))

    async def _store(self, news: Sequence[tuple[Run, str]]) -> None:
        for start in range(0, len(news), _BATCH):
            batch = news[start : start + _BATCH]
            try:
                told = [Progress(run.delivery.claim, said) for run, said in batch]
                await self._storage.upkeep.report(told, self._owner)
            except StorageUnavailable:
                return  # other services log the outage; retried at the next turn
            for run, said in batch:
                run.reported = said

    def _tell(self, what: Callable[..., None], *args: object) -> None:
        loop = self._worker_loop
        if loop is not None:
            # If the loop closes just now, there is nothing left to notify.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(what, *args)

    def _watch_lag(self) -> None:
        """Log a handler that blocks the worker's loop, with its stack."""
        now = self._clock.monotonic()
        if self._ping_sent is None:
            self._ping_sent = now
            self._tell(self._pong)
            return
        lag = now - self._ping_sent
        if lag < _LAG_REPORTED or now - self._lag_told < max(_LAG_REPORTED, lag / 2):
            return
        self._lag_told = now
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
            if run not in self._held_told:
                self._log.log(
                    logging.WARNING,
                    "%s: message %s has held its transaction open for %.0f s: do slow work before it, or without one",
                    run.handler.group,
                    run.delivery.message_id,
                    now - since,
                )
        self._held_told = long

    def _pong(self) -> None:
        self._ping_sent = None
