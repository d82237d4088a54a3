"""The slots that all consumers of a worker share where their number is capped, given out in turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mainspring.runtime.executor import Executor
from mainspring.runtime.service import FOREVER
from mainspring.timing.clock import Clock

LINGER = 0.005
"""Seconds to gather freed slots before a trip for only a few of them."""
PIPELINED_FROM = 64
"""From this many slots on, a claim takes half, so that the next trip overlaps with running this one."""
TAKEN_WITHIN = 1.0
"""Seconds for which a slot is left to the group whose turn it is: its fetcher may be waiting for the database."""


@dataclass(slots=True)
class _Place:
    """A group's place in the line."""

    wake: Callable[[], None]
    woken_at: float = FOREVER
    """When it was woken for a free slot, and has not come since."""


class SharedSlots:
    """At most ``most`` deliveries wait or run in the worker at once, over all of its consumers.

    A group that finds no slot joins a line. A free slot belongs to the first of the line: others take only what the
    line leaves. A group that does not come for its slot within a second keeps it from no other, and stays in the line.
    """

    def __init__(self, most: int, executors: Sequence[Executor], clock: Clock) -> None:
        self.most: int = most
        self._executors = executors
        self._now = clock.monotonic
        self._asked = 0
        """Slots of claims that are on their way."""
        self._line: dict[str, _Place] = {}

    @property
    def free(self) -> int:
        """How many more deliveries may be claimed.

        As for one consumer, a verdict on its way occupies no slot, but the number in hand never exceeds twice the cap.
        """
        begun = self._asked + self._begun
        unsettled = sum(each.unsettled for each in self._executors)
        return min(self.most - begun, 2 * self.most - begun - unsettled)

    @property
    def _begun(self) -> int:
        return sum(each.begun for each in self._executors)

    def share(self, wanted: Mapping[str, int], patient: Collection[str], wake: Callable[[], None]) -> dict[str, int]:
        """Return how many slots each group of one fetcher gets; they are taken until ``give_back``.

        A group that gets none joins the line, and ``wake`` is called when it is its turn. The ``patient`` ones do not:
        they had nothing to do a moment ago.
        """
        shares = self._in_turn(wanted, patient)
        for group in wanted:
            if group in shares:
                self._line.pop(group, None)
            elif group not in patient or group in self._line:
                self._line.setdefault(group, _Place(wake)).woken_at = FOREVER
        self._asked += sum(shares.values())
        self.freed()
        return shares

    def _in_turn(self, wanted: Mapping[str, int], patient: Collection[str]) -> dict[str, int]:
        """Return a slot for each, in the order of the line, as far as they go; what is left is shared evenly."""
        now, free = self._now(), self.free
        if self.most >= PIPELINED_FROM:
            free = min(free, self.most // 2)
        shares: dict[str, int] = {}
        newcomers = [group for group in wanted if group not in self._line]
        for group in (*self._line, *sorted(newcomers, key=patient.__contains__)):
            if free <= 0:
                break
            if group in wanted:
                shares[group] = 1
                free -= 1
            elif now - self._line[group].woken_at <= TAKEN_WITHIN:
                free -= 1  # another fetcher comes for it
        while free > 0 and (short := [group for group in shares if shares[group] < wanted[group]]):
            each = max(1, free // len(short))
            for group in short:
                more = min(each, free, wanted[group] - shares[group])
                shares[group] += more
                free -= more
        return shares

    def is_due(self, groups: Container[str]) -> bool:
        """Return whether a slot is free, and the turn is one of these groups'."""
        return next(iter(self._line), None) in groups and self.free > 0

    def leave(self, groups: Iterable[str]) -> None:
        """Remove groups from the line that can take no slot."""
        for group in groups:
            self._line.pop(group, None)

    def take_one(self) -> None:
        """Take a slot out of turn, until ``give_back``."""
        self._asked += 1

    def give_back(self, count: int) -> None:
        """Return the slots of a claim; the deliveries that it found have theirs by now."""
        self._asked -= count
        self.freed()

    def filled(self) -> None:
        """Let no batch linger if deliveries have every slot: what it waits for could not be claimed.

        Claims on their way do not count: they may find nothing.
        """
        if self._begun >= self.most:
            for each in self._executors:
                each.run_waiting()

    def freed(self) -> None:
        """Wake the group whose turn it is, if a slot is free; and those before it that did not come."""
        if not self._line or self.free <= 0:
            return
        now = self._now()
        for place in self._line.values():
            has_come = now - place.woken_at <= TAKEN_WITHIN
            place.woken_at = min(place.woken_at, now)
            place.wake()
            if has_come:
                return
