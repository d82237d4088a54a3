"""The fetchers of one worker: one for all consumers without limits, one for each of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import copy_context
from datetime import timedelta
from uuid import UUID

from mainspring.model.errors import MainspringError
from mainspring.model.message import ClaimRequest, Delivery
from mainspring.runtime.executor import Executor
from mainspring.runtime.fetcher import Fetcher, FetcherContext
from mainspring.runtime.service import LoopReport

_logger = logging.getLogger("mainspring.worker")
_EVER = timedelta(days=36_500)
_ROUSE_AFTER = 0.05
"""Seconds from the end of a run until waiting workers are notified, once for all that end in that time."""


class LimitedFetcher(Fetcher):
    """Claims for one consumer within its limits, which the database counts across all workers."""

    def __init__(self, executor: Executor, shared: FetcherContext) -> None:
        super().__init__([executor], shared, f"fetcher of {executor.group}")
        assert executor.handler.limits is not None, "others share a fetcher"
        self._limits = executor.handler.limits
        self._doorbell = shared.storage.doorbell
        self._again_at: float | None = None
        """When more may be claimed without a ring, according to the last claim."""
        self._after: str | None = None
        self._found = False
        self._unscanned = False
        self._left = False
        self._is_idle = False
        self._is_at_limit = False
        self._has_ended = False
        self._is_full = False
        self._is_gathering = False
        self._rousing: set[asyncio.Task[None]] = set()

    def nudge(self) -> None:
        """Handle a publish in this process: no reason to claim while the whole group is at its limit."""
        if not self._is_at_limit:
            super().nudge()

    def freed(self, group: str) -> None:
        """Note the end of a run: a delivery that had to wait may run now, here or at another worker."""
        self._has_ended = True
        if self._left:
            self.wake()
        super().freed(group)
        if not self._is_gathering and not self._stopping:
            self._is_gathering = True
            rousing = asyncio.create_task(self._rouse(), name=f"mainspring-rouse-{group}")
            self._rousing.add(rousing)
            rousing.add_done_callback(self._rousing.discard)

    async def stop(self) -> None:
        """Finish the current turn and end."""
        await super().stop()
        if self._rousing:
            for rousing in self._rousing:
                rousing.cancel()
            await asyncio.wait(self._rousing)

    async def notify_others(self) -> None:
        """Notify other workers that the runs here have ended or were released."""
        try:
            await self._doorbell.rouse()
        except MainspringError as error:
            # Only a hint: without it the others poll within seconds.
            _logger.debug("failed to notify other workers that a run has ended: %s", error)

    def abandon(self) -> None:
        """End at once."""
        super().abandon()
        for rousing in self._rousing:
            rousing.cancel()

    @property
    def again_in(self) -> timedelta | None:
        """How long until its limits, or a due time, let more be claimed; None if the last claim did not return that."""
        return None if self._again_at is None else timedelta(seconds=self._again_at - self._clock.monotonic())

    async def _upcoming(self, groups: Sequence[str], back: timedelta) -> timedelta | None:  # noqa: ARG002
        return self.again_in

    def _note_again(self, sent: float, again_in: timedelta | None) -> None:
        self._again_at = None if again_in is None else sent + again_in.total_seconds()

    async def _claim(self, wants: Sequence[ClaimRequest]) -> Sequence[Delivery]:
        (want,) = wants
        if self._left and self._limits.is_by_key:
            # Deliveries that had to wait lie before the mark, which follows those that had not.
            want = want._replace(scans=tuple(each._replace(since=None) for each in want.scans))
        began = self._after
        sent = self._clock.monotonic()
        if self._is_idle and await self._has_nothing(want.group, sent):
            return []
        self._has_ended = False
        limited = await self._mailbox.claim_limited(want, self._limits, began, self._owner, self._hold)
        self._note_again(sent, limited.again_in)
        self._left = limited.left
        self._is_idle = not limited.left and not limited.deliveries
        self._is_at_limit = limited.full
        self._is_full = len(limited.deliveries) >= want.limit
        if limited.left and self._has_ended:
            self.wake()  # it arrived during the claim: the deliveries left may have waited for it
        self._after = limited.after
        self._found |= bool(limited.deliveries)
        # Keys are scanned to their end, and again from the beginning if that claimed something.
        self._unscanned = limited.after is not None or (began is not None and self._found)
        if limited.after is None:
            self._found = False
        return limited.deliveries

    async def _has_nothing(self, group: str, sent: float) -> bool:
        """Return whether nothing is due: checked without a turn, which is a write that others wait for."""
        upcoming = await self._mailbox.upcoming([group], _EVER)
        if upcoming is not None and upcoming <= timedelta():
            return False
        self._note_again(sent, upcoming)
        return True

    async def _reap_one(self, groups: Sequence[str], *, accused: bool) -> Delivery | None:
        (group,) = groups
        aside = self._in_hand.aside
        return await self._mailbox.reap_limited(
            group, self._limits, self._owner, self._hold, accused=accused, aside=aside
        )

    def _has_unscanned(self) -> bool:
        return self._unscanned

    async def _rouse(self) -> None:
        await asyncio.sleep(_ROUSE_AFTER)
        # A run that ends from here on may be missed by this claim.
        self._is_gathering = False
        # A worker that had free slots and has claimed since has taken everything that may run.
        if self._has_ended or self._is_full:
            await self.notify_others()


class Fetchers:
    """Forwards events of a group to its fetcher."""

    def __init__(self, executors: Sequence[Executor], shared: FetcherContext) -> None:
        self._context = copy_context()
        self._slots = shared.slots
        self._limited = {
            each.group: LimitedFetcher(each, shared) for each in executors if each.handler.limits is not None
        }
        self._plain = Fetcher([each for each in executors if each.group not in self._limited], shared)
        self._all: tuple[Fetcher, ...] = (self._plain, *self._limited.values())

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

    async def notify_others(self) -> None:
        """Notify other workers' limited fetchers that everything in hand is settled."""
        if self._limited:
            await next(iter(self._limited.values())).notify_others()  # one ring reaches all groups

    def abandon(self) -> None:
        """End at once."""
        for each in self._all:
            each.abandon()

    @property
    def are_resting(self) -> bool:
        """Whether none of them knows of anything that is due."""
        return all(each.is_resting for each in self._all)

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
        if self._slots is not None:
            self._slots.freed()

    def due_again(self, group: str, delay: timedelta) -> None:
        """Note that a delivery of this group, or of any for the empty string, is due after this time."""
        for each in self._all if not group else (self._of(group),):
            each.due_again(delay)

    async def take(self, message_id: UUID, group: str) -> bool:
        """Run this delivery here, now. Returns False if it is held already."""
        # In the worker's own context: coroutines that this wakes outlive the caller, and would keep its context for
        # ever.
        taking = self._of(group).take(message_id, group)
        return await asyncio.create_task(taking, context=self._context.copy())

    def _of(self, group: str) -> Fetcher:
        return self._limited.get(group, self._plain)
