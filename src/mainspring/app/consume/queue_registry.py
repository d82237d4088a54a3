"""State that all queues of one app share in this process: their groups and suspects."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mainspring.model.errors import Conflict
from mainspring.model.views import Declaration
from mainspring.runtime.claims_in_hand import probation

if TYPE_CHECKING:
    from mainspring.app.queue.item import ClaimState
    from mainspring.app.queue.options import QueueSettings


_CHECK_EVERY = 1.0
"""Seconds between two checks whether a suspect in hand is still held."""


class QueueRegistry:
    """The groups that are queues. A group belongs to exactly one consumer, and a queue is one."""

    def __init__(self) -> None:
        self._settings: dict[str, QueueSettings | None] = {}
        self._suspects: list[ClaimState] = []
        self._lock = threading.Lock()  # app.queue and app.sync.queue share this, from two threads
        self._is_reaping = False

    def __contains__(self, group: str) -> bool:
        """Return whether it is a queue's."""
        return group in self._settings

    @property
    def declarations(self) -> list[Declaration]:
        """The declarations of queues that name their topics."""
        return [settings.declaration for settings in self._settings.values() if settings is not None]

    def take(self, settings: QueueSettings) -> None:
        """Register a queue's group; another one of the same group must name the same topics, or none."""
        known = self._settings.get(settings.group)
        if known is not None and settings.topics and set(known.topics) != set(settings.topics):
            raise Conflict(
                f"app.queue({settings.group!r}) was made for {', '.join(known.topics)} already, and now for "
                f"{', '.join(settings.topics)}: name the same topics, or none, since a group has one set of them"
            )
        self._settings[settings.group] = settings if settings.topics else known

    def holds_suspects(self, now: float) -> bool:
        """Return whether suspects are in hand. A lapsed one is not."""
        return any(now < each.lapses for each in self._suspects)

    @contextmanager
    def reaping(self, group: str, now: float) -> Iterator[bool]:
        """Yield whether no suspect, in hand or on its way, blocks one of this group (invariant 15).

        While a block claims one, no other block may, in any thread: of two at once, each might get one that must run
        alone.
        """
        with self._lock:
            self._suspects = [each for each in self._suspects if now < each.lapses]
            may_reap = not self._is_reaping and all(
                probation(each.delivery, group, now - each.received) <= 0 for each in self._suspects
            )
            self._is_reaping = self._is_reaping or may_reap
        try:
            yield may_reap
        finally:
            if may_reap:
                self._is_reaping = False

    def suspect(self, held: ClaimState, now: float) -> None:
        """Add the claim of a suspect, reaped here or read from a token."""
        held.checked = now
        with self._lock:
            self._suspects = [*(each for each in self._suspects if now < each.lapses), held]

    def unchecked(self, now: float) -> list[ClaimState]:
        """Return the suspects in hand that were not checked in the last second, and count them as checked.

        Another process may have settled them by their tokens.
        """
        with self._lock:
            unchecked = [each for each in self._suspects if each.checked + _CHECK_EVERY <= now < each.lapses]
            for each in unchecked:
                each.checked = now
        return unchecked

    def let_go(self, answered: Collection[ClaimState]) -> None:
        """Forget settled claims: each under whichever item of it, claimed or read from a token."""
        fences = {one.fence for one in answered}
        with self._lock:
            self._suspects = [each for each in self._suspects if each.fence not in fences]
