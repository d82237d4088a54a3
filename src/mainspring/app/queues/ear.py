"""Waiting until something may be due: by the bell, by the next due instant, and by polling beneath them."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

from mainspring.model.errors import StorageError
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

EVER = timedelta(days=36_500)
"""How far back something may have come due: further than anything lies."""
_FIRST_POLL = 0.25
_BLIND_POLL = 0.5
"""The longest poll while no bell is proven to ring."""
_REARM = 20.0
_SPACING = 0.002


class Ear:
    """Listens at one storage for all queues behind one door; whoever waits is woken for its own group."""

    def __init__(self, storage: Storage, longest_poll: timedelta, clock: Clock) -> None:
        self._storage = storage
        self._longest_poll = longest_poll.total_seconds()
        self._clock = clock
        self._listening = False
        self._bells: dict[str, set[asyncio.Event]] = {}
        self._armed: dict[str, float] = {}

    async def look(self, group: str) -> timedelta | None:
        """How long until something of the group is due, none or less where it is already; None: there is nothing."""
        return await self._storage.mailbox.upcoming([group], EVER)

    async def wait(self, group: str, seconds: float, hold_off: float) -> bool:
        """Wait, so long at the most. True: something may be due. For ``hold_off`` what is due does not count."""
        if not self._listening:
            self._listening = True
            self._storage.doorbell.listen(self.rung)
        bell = asyncio.Event()
        self._bells.setdefault(group, set()).add(bell)
        try:
            return await self._wait(group, bell, seconds, hold_off)
        finally:
            self._bells[group].discard(bell)
            if not self._bells[group]:
                await self._disarm(group)

    def rung(self, group: str) -> None:
        """Something may be due for this group, or for any (the empty string)."""
        for each, bells in self._bells.items():
            if group in ("", each):
                for bell in bells:
                    bell.set()

    async def _wait(self, group: str, bell: asyncio.Event, seconds: float, hold_off: float) -> bool:
        began = self._clock.monotonic()
        poll = _FIRST_POLL
        if hold_off:
            await asyncio.sleep(min(hold_off, seconds))
        while True:
            bell.clear()
            await self._arm(group)
            # After arming, not before: what was committed in between rang for nobody.
            upcoming = await self.look(group)
            if upcoming is not None and upcoming <= timedelta():
                return True
            left = began + seconds - self._clock.monotonic()
            if left <= 0:
                return False
            longest = self._longest_poll
            if self._storage.doorbell.mode == "poll":
                longest = min(longest, _BLIND_POLL)
            pause = min(poll, longest, left)
            if upcoming is not None:
                pause = min(pause, max(_SPACING, upcoming.total_seconds()))
            poll = min(poll * 2, longest)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await bell.wait()

    async def _arm(self, group: str) -> None:
        now = self._clock.monotonic()
        # Only a proven bell is armed: once it is, whoever waits is woken, and comes by here again.
        if self._storage.doorbell.mode != "poll" and now - self._armed.get(group, -_REARM) >= _REARM:
            await self._storage.doorbell.arm([group])
            self._armed[group] = now

    async def _disarm(self, group: str) -> None:
        if self._armed.pop(group, None) is not None:
            # Only publishers would ring for nothing, and not for long.
            with contextlib.suppress(StorageError):
                await self._storage.doorbell.disarm([group])
