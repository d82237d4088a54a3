"""The fetchers of one worker: one for all consumers without limits, one for each of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from datetime import timedelta
from uuid import UUID

from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import Executor
from mainspring.runtime.fetcher import Fetcher
from mainspring.runtime.limited_fetcher import LimitedFetcher
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.service import LoopReport
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.wakeup import Wakeup
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock


class Fetchers:
    """Forwards events of a group to its fetcher."""

    def __init__(self, plain: Fetcher, limited: Mapping[str, LimitedFetcher]) -> None:
        self._context = copy_context()
        self._plain = plain
        self._limited = limited
        self._all: tuple[Fetcher, ...] = (plain, *limited.values())

    @classmethod
    def of(
        cls,
        storage: Storage,
        executors: Sequence[Executor],
        in_hand: ClaimsInHand,
        settings: WorkerSettings,
        owner: str,
        log: RateLimitedLog,
        clock: Clock,
    ) -> Fetchers:
        """Create the fetchers for these executors, all under one owner."""
        hold, poll = settings.claim_time, settings.idle_poll
        limited = {
            each.group: LimitedFetcher(
                storage, each, limits, in_hand, poll, owner=owner, hold=hold, log=log, clock=clock
            )
            for each in executors
            if (limits := each.handler.limits) is not None
        }
        plain = Fetcher(
            storage.mailbox,
            [each for each in executors if each.group not in limited],
            in_hand,
            Wakeup(storage.mailbox, storage.doorbell, poll, clock),
            owner=owner,
            hold=hold,
            log=log,
            clock=clock,
        )
        return cls(plain, limited)

    def start(self) -> None:
        """Start the loops, on the running loop."""
        self._context = copy_context()
        for each in self._all:
            each.start()

    def claim_no_more(self) -> None:
        """Stop claiming for good, immediately."""
        for each in self._all:
            each.claim_no_more()

    def drain(self, *, drains: bool) -> None:
        """Stop claiming until further notice, or resume."""
        for each in self._all:
            each.drain(drains=drains)

    async def stop(self) -> None:
        """Finish the claims on their way and end."""
        await asyncio.gather(*(each.stop() for each in self._all))

    async def last_words(self) -> None:
        """Notify other workers' limited fetchers that everything in hand is settled."""
        if self._limited:
            await next(iter(self._limited.values())).last_words()  # one ring reaches all groups

    def abandon(self) -> None:
        """End at once."""
        for each in self._all:
            each.abandon()

    def reports(self) -> dict[str, LoopReport]:
        """Return a report per loop."""
        return {each.name: each.report() for each in self._all}

    def nudge(self) -> None:
        """Handle a publish in this process."""
        for each in self._all:
            each.nudge()

    def rung(self, group: str) -> None:
        """Handle a ring for this group, or for any (the empty string)."""
        for each in self._all if not group else (self._of(group),):
            each.rung(group)

    def freed(self, group: str) -> None:
        """Note a free slot of this group, or a verdict that was written."""
        self._of(group).freed(group)

    def comes_back(self, group: str, delay: timedelta) -> None:
        """Note that a delivery of this group, or of any for the empty string, is due after this time."""
        for each in self._all if not group else (self._of(group),):
            each.comes_back(delay)

    async def take(self, message_id: UUID, group: str) -> bool:
        """Run this delivery here, now. Returns False if it is held already."""
        # In the worker's own context: coroutines that this wakes outlive the caller, and would keep its context for
        # ever.
        taking = self._of(group).take(message_id, group)
        return await asyncio.create_task(taking, context=self._context.copy())

    def _of(self, group: str) -> Fetcher:
        return self._limited.get(group, self._plain)
