"""Claims for a consumer with limits: in a loop of its own, so that it does not delay the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.errors import MainspringError
from mainspring.model.limits import Limits
from mainspring.model.message import ClaimRequest, Delivery
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import Executor
from mainspring.runtime.fetcher import Fetcher
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.wakeup import Wakeup
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.worker")
_EVER = timedelta(days=36_500)
_ROUSE_AFTER = 0.05
"""Seconds from the end of a run until waiting workers are notified, once for all that end in that time."""


class LimitedFetcher(Fetcher):
    """Claims for one consumer within its limits, which the database counts across all workers."""

    def __init__(
        self,
        storage: Storage,
        executor: Executor,
        limits: Limits,
        in_hand: ClaimsInHand,
        longest_poll: timedelta,
        *,
        owner: str,
        hold: timedelta,
        log: RateLimitedLog,
        clock: Clock,
    ) -> None:
        self._foresight = _Foresight(clock)
        super().__init__(
            storage.mailbox,
            [executor],
            in_hand,
            Wakeup(self._foresight, storage.doorbell, longest_poll, clock),
            owner=owner,
            hold=hold,
            log=log,
            clock=clock,
            name=f"fetcher of {executor.group}",
        )
        self._doorbell = storage.doorbell
        self._limits = limits
        self._after: str | None = None
        self._found = False
        self._more_to_see = False
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

    async def last_words(self) -> None:
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

    async def _claim(self, wants: Sequence[ClaimRequest]) -> Sequence[Delivery]:
        (want,) = wants
        if self._left and self._limits.is_by_key:
            # Deliveries that had to wait lie before the mark, which follows those that had not.
            want = want._replace(scans=tuple(each._replace(since=None) for each in want.scans))
        began = self._after
        asked = self._clock.monotonic()
        if self._is_idle and await self._has_nothing(want.group, asked):
            return []
        self._has_ended = False
        ration = await self._mailbox.claim_limited(want, self._limits, began, self._owner, self._hold)
        self._foresight.learn(asked, ration.again_in)
        self._left = ration.left
        self._is_idle = not ration.left and not ration.deliveries
        self._is_at_limit = ration.full
        self._is_full = len(ration.deliveries) >= want.limit
        if ration.left and self._has_ended:
            self.wake()  # it arrived during the claim: the deliveries left may have waited for it
        self._after = ration.after
        self._found |= bool(ration.deliveries)
        # Keys are scanned to their end, and again from the beginning if that claimed something.
        self._more_to_see = ration.after is not None or (began is not None and self._found)
        if ration.after is None:
            self._found = False
        return ration.deliveries

    async def _has_nothing(self, group: str, asked: float) -> bool:
        """Return whether nothing is due: checked without a turn, which is a write that others wait for."""
        upcoming = await self._mailbox.upcoming([group], _EVER)
        if upcoming is not None and upcoming <= timedelta():
            return False
        self._foresight.learn(asked, upcoming)
        return True

    async def _reap_one(self, groups: Sequence[str], *, accused: bool) -> Delivery | None:
        (group,) = groups
        aside = self._in_hand.aside
        return await self._mailbox.reap_limited(
            group, self._limits, self._owner, self._hold, accused=accused, aside=aside
        )

    def _has_more_to_see(self) -> bool:
        return self._more_to_see

    async def _rouse(self) -> None:
        await asyncio.sleep(_ROUSE_AFTER)
        # A run that ends from here on may be missed by this claim.
        self._is_gathering = False
        # A worker that had free slots and has claimed since has taken everything that may run.
        if self._has_ended or self._is_full:
            await self.last_words()


class _Foresight:
    """When more may be claimed without a ring, according to the last claim."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: float | None = None

    def learn(self, asked: float, again_in: timedelta | None) -> None:
        self._at = None if again_in is None else asked + again_in.total_seconds()

    async def upcoming(self, groups: Sequence[str], back: timedelta = timedelta()) -> timedelta | None:  # noqa: ARG002
        return None if self._at is None else timedelta(seconds=self._at - self._clock.monotonic())
