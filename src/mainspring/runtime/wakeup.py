"""When to look again: at once while there is work, by the bell when idle, by polling beneath it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.storage.contract import Doorbell, Mailbox
from mainspring.timing.clock import Clock

_WARM = 0.05
"""Seconds after work in which we look often instead of arming: a bell per message would cost publishers dearly."""
_WARM_PAUSE = 0.005
_SPACING = 0.002
"""Seconds between claims that came back short, however often we are woken."""
_FIRST_POLL = 0.25
_BLIND_POLL = 0.5
"""The longest poll while no bell is proven to ring."""
_REARM = 20.0


class Wakeup:
    """The sleep of a fetcher.

    Going idle it arms the bell, looks once more (something may have been committed in between), and only then
    sleeps: until the bell, the next due instant, or the poll that makes a missed bell harmless.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        doorbell: Doorbell,
        groups: Sequence[str],
        longest_poll: timedelta,
        clock: Clock,
    ) -> None:
        self._mailbox = mailbox
        self._doorbell = doorbell
        self._groups = list(groups)
        self._longest_poll = longest_poll.total_seconds()
        self._clock = clock
        self._worked_at = -_WARM
        self._armed_at: float | None = None
        self._poll = _FIRST_POLL
        self._short = False
        self._returns_at: float | None = None

    async def worked(self, now: float) -> None:
        """A claim brought something: publishers need not ring."""
        self._worked_at = now
        self._poll = _FIRST_POLL
        self._short = False
        if self._armed_at is not None:
            self._armed_at = None
            await self._doorbell.disarm(self._groups)

    def rung(self) -> None:
        """The bell rang: start polling from the beginning again."""
        self._poll = _FIRST_POLL

    def returns(self, delay: timedelta) -> None:
        """Something of ours comes back after ``delay`` (a retry, a snooze): do not sleep past it."""
        at = self._clock.monotonic() + delay.total_seconds()
        if self._returns_at is None or at < self._returns_at:
            self._returns_at = at

    def spacing(self, since_claim: float) -> float:
        """How long to hold back a claim that follows a short one too closely."""
        return _SPACING - since_claim if self._short and since_claim < _SPACING else 0.0

    async def rest(self, now: float, *, found: bool) -> tuple[float, bool]:
        """How long to sleep after a claim that came back short, and whether to look everywhere after it."""
        self._short = True
        if self._returns_at is not None and self._returns_at <= now:
            self._returns_at = None
        if found or now - self._worked_at < _WARM:
            return _WARM_PAUSE, False
        if self._armed_at is None or now - self._armed_at > _REARM:
            await self._doorbell.arm(self._groups)
            self._armed_at = now
            return 0.0, True
        upcoming = await self._mailbox.upcoming(self._groups)
        pause = self._next_poll()
        if upcoming is not None:
            pause = min(pause, upcoming.total_seconds())
        if self._returns_at is not None:
            pause = min(pause, max(_SPACING, self._returns_at - now))
        return pause, False

    def _next_poll(self) -> float:
        pause = self._poll
        longest = self._longest_poll if self._doorbell.mode != "poll" else min(_BLIND_POLL, self._longest_poll)
        self._poll = min(self._poll * 2, longest)
        return min(pause, longest)
