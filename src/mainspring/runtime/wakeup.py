"""When a fetcher claims next: at once while there is work, on a ring when idle, by polling as a fallback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta

from mainspring.storage.contract import Doorbell
from mainspring.timing.clock import Clock

_WARM = 0.05
"""Seconds: work that follows work within this time is a stream, during which the fetcher polls often instead of arming
the doorbell. A ring per message of a stream would cost its publishers dearly; for a lone message it is cheap."""
_WARM_PAUSE = 0.005
_SPACING = 0.002
"""Seconds between claims that came back short, however often it is woken."""
_SINCE_CLAIM = timedelta(seconds=1)
"""More than passes between a claim and the query for the next due time, less than a claim goes back behind its mark."""
_FIRST_POLL = 0.25
_BLIND_POLL = 0.5
"""The longest poll while no doorbell is proven to ring."""
_REARM = 20.0
_LONGEST_HOLD_OFF = 1.0


Upcoming = Callable[[Sequence[str], timedelta], Awaitable[timedelta | None]]
"""Returns when the next delivery of these groups is due. See ``Mailbox.upcoming``."""


class Wakeup:
    """The sleep of a fetcher.

    When idle it arms the doorbell, claims once more (a message may have been committed in between), and only then
    sleeps: until a ring, the next due time, or the poll that makes a missed ring harmless.
    """

    def __init__(self, upcoming: Upcoming, doorbell: Doorbell, longest_poll: timedelta, clock: Clock) -> None:
        self._upcoming = upcoming
        self._doorbell = doorbell
        self._longest_poll = longest_poll.total_seconds()
        self._clock = clock
        self._worked_at = -_WARM
        self._streaming = False
        self._armed: frozenset[str] = frozenset()
        self._armed_at = 0.0
        self._poll = _FIRST_POLL
        self._short = False
        self._rung = False
        self._fruitless = 0
        self._arm_from = 0.0
        self._returns_at: float | None = None

    async def worked(self, now: float) -> None:
        """Note a claim that returned deliveries: publishers need not ring."""
        self._streaming = now - self._worked_at < _WARM
        self._worked_at = now
        self._fruitless, self._arm_from = 0, 0.0
        self._poll = _FIRST_POLL
        self._short = False
        await self._disarm()

    def published(self) -> None:
        """Note a publish in this process: restart the polling interval."""
        self._poll = _FIRST_POLL

    def rung(self) -> None:
        """Note a ring."""
        self._poll = _FIRST_POLL
        self._rung = True

    def returns(self, delay: timedelta) -> None:
        """Note that a delivery is due after ``delay`` (a retry, a snooze): do not sleep past it."""
        at = self._clock.monotonic() + delay.total_seconds()
        if self._returns_at is None or at < self._returns_at:
            self._returns_at = at

    def spacing(self, since_claim: float) -> float:
        """Return how long to delay a claim that follows a short one too closely."""
        return _SPACING - since_claim if self._short and since_claim < _SPACING else 0.0

    async def rest(self, now: float, groups: Collection[str]) -> tuple[float, bool]:
        """Return how long to sleep after a claim that came back short, and whether to scan everything after it.

        ``groups`` are those with free slots and nothing to do; the others need no ring.
        """
        self._short = True
        rung, self._rung = self._rung, False
        if self._streaming and now - self._worked_at < _WARM:
            return _WARM_PAUSE, False
        if rung and self._armed:
            await self._hold_off(now)
        if now >= self._arm_from and (not self._armed.issuperset(groups) or now - self._armed_at > _REARM):
            await self._doorbell.arm(groups)
            self._armed = self._armed.union(groups)
            self._armed_at = now
            return 0.0, True
        return await self._until_next(now, groups), False

    async def _disarm(self) -> None:
        if self._armed:
            armed, self._armed = self._armed, frozenset()
            await self._doorbell.disarm(armed)

    async def _hold_off(self, now: float) -> None:
        # Woken for nothing: another worker was faster. Arming again at once would cost that worker's publishers a ring
        # for every message.
        self._fruitless += 1
        self._arm_from = now + min(_LONGEST_HOLD_OFF, _FIRST_POLL * 2.0**self._fruitless / 2)
        await self._disarm()

    async def _until_next(self, now: float, groups: Collection[str]) -> float:
        """Return the seconds until the poll, the next due time or a delivery's return, whichever is first."""
        pause = self._next_poll()
        if self._arm_from > now:
            pause = min(pause, self._arm_from - now)
        # A delivery that came due since the claim must not wait for the poll.
        upcoming = await self._upcoming(list(groups), _SINCE_CLAIM)
        if upcoming is not None:
            pause = min(pause, max(_SPACING, upcoming.total_seconds()))
        if self._returns_at is not None:
            if self._returns_at <= now:
                self._returns_at = None
            else:
                pause = min(pause, max(_SPACING, self._returns_at - now))
        return pause

    def _next_poll(self) -> float:
        pause = self._poll
        longest = self._longest_poll if self._doorbell.mode != "poll" else min(_BLIND_POLL, self._longest_poll)
        self._poll = min(self._poll * 2, longest)
        return min(pause, longest)
