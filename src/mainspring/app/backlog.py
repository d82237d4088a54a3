"""Back-pressure: how many may wait for a group, and how many this process believes to be waiting."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, cast

from mainspring.app.options import choice, whole
from mainspring.model.errors import BadOption
from mainspring.model.message import Delivery, Draft
from mainspring.runtime.handler import Call, Run
from mainspring.storage.routing import matches

WhenFull = Literal["raise", "wait"]
"""What becomes of a publish that would be more than a group's limit."""

LOOK_EVERY = 1.0
"""Seconds for which a count is gone by, with what this process has published since."""
LOOK_AGAIN = 0.1
"""Seconds after which one is asked for anew where only what was published since makes a group full: it may be done."""
MOST = 1_000_000
"""The highest limit: a full group is counted up to its limit every second, by every process that publishes to it."""
_WORDS = ("raise", "wait")
_TOPICS = 1_000
_LONG_AGO = float("-inf")

_serving: ContextVar[str | None] = ContextVar("mainspring_serving", default=None)
"""The group whose handler runs here, if that group lets its publishers wait."""


@dataclass(frozen=True, slots=True)
class PendingLimit:
    """How many deliveries of a group may wait, and what becomes of a publish that would be more."""

    most: int
    when_full: WhenFull = "raise"

    @property
    def shown(self) -> dict[str, str]:
        """As the group declares it."""
        return {"pending_limit": str(self.most), "when_full": self.when_full}


def read_pending_limit(options: Mapping[str, Any], whose: str) -> PendingLimit | None:
    """The limit among these options, None where there is none."""
    most, when_full = options.get("pending_limit"), options.get("when_full")
    if most is None:
        if when_full is not None:
            raise BadOption(f"{whose} has when_full={when_full!r} and no limit: add pending_limit=10_000, or drop it")
        return None
    word = "raise" if when_full is None else choice(when_full, _WORDS, "when_full")
    return PendingLimit(whole(most, "pending_limit", least=1, most=MOST), cast("WhenFull", word))


@dataclass(slots=True)
class _Count:
    """How many wait for a group, as far as this process knows."""

    asked: float = _LONG_AGO
    learned: float = _LONG_AGO
    waiting: int = 0
    """As it was when somebody looked."""
    since: int = 0
    """What was let through from here since then."""


class Backlogs:
    """The limited groups of one app, by their names.

    It is used by every thread that publishes, and without a lock, which a forked child might inherit locked. What two
    threads add at one instant may count once; the next look puts that right.
    """

    def __init__(self) -> None:
        self.limits: dict[str, PendingLimit] = {}
        """By group. Empty for most apps, which pay for asking just that."""
        self._patterns: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, tuple[str, ...]] = {}
        self._counts: dict[str, _Count] = {}

    def note(self, group: str, patterns: Iterable[str], limit: PendingLimit | None) -> None:
        """Let this be the group's limit, or let it have none."""
        if limit is None:
            self.limits.pop(group, None)
        else:
            self._patterns[group] = tuple(patterns)
            self._counts.setdefault(group, _Count())  # a queue may be asked for again and again
            self.limits[group] = limit  # last: others may publish at the same time, and who finds it finds the rest
        self._reached = {}  # a new one: whoever has looked at the limits before this writes into the old

    def wanted(self, drafts: Iterable[Draft]) -> dict[str, int]:
        """How many of these each limited group would get."""
        wanted: dict[str, int] = {}
        for draft in drafts:
            for group in self._groups(draft):
                wanted[group] = wanted.get(group, 0) + 1
        return wanted

    def _groups(self, draft: Draft) -> tuple[str, ...]:
        if draft.group is not None:
            return (draft.group,) if draft.group in self.limits else ()
        known = self._reached
        reached = known.get(draft.topic)
        if reached is None:
            if len(known) >= _TOPICS:
                known.clear()
            reached = known[draft.topic] = tuple(
                group
                for group in tuple(self.limits)
                if any(matches(each, draft.topic) for each in self._patterns[group])
            )
        return reached

    def due(self, groups: Iterable[str], now: float) -> dict[str, int]:
        """Those that it is time to look at, with how far to count. Who is told of one is to do it: others are not."""
        return self._claimed((group for group in groups if now - self._counts[group].asked >= LOOK_EVERY), now)

    def doubtful(self, full: Iterable[str], now: float) -> dict[str, int]:
        """The same for those that are full, sooner where that is a guess: nobody is to be refused for what is done."""
        return self._claimed(
            (group for group in self.guessed(full) if now - self._counts[group].asked >= LOOK_AGAIN), now
        )

    def guessed(self, groups: Iterable[str]) -> list[str]:
        """Those of which not all was counted."""
        return [group for group in groups if self._counts[group].since > 0]

    def _claimed(self, groups: Iterable[str], now: float) -> dict[str, int]:
        due = set(groups)
        for group in due:
            self._counts[group].asked = now
        return {group: self.limits[group].most for group in due}

    def unknown(self, groups: Iterable[str], now: float) -> dict[str, int]:
        """Those of which nothing is known, or nothing new enough to go by while somebody looks again."""
        old = (group for group in groups if now - self._counts[group].learned > 2 * LOOK_EVERY)
        return {group: self.limits[group].most for group in old}

    def before(self, groups: Iterable[str]) -> dict[str, int]:
        """What is to be left out of the count that is asked for from now on."""
        return {group: self._counts[group].since for group in groups}

    def learn(self, waiting: Mapping[str, int], before: Mapping[str, int], now: float) -> None:
        """So many wait. What was let through ``before`` the look is among them, or never was stored."""
        for group, count in ((group, self._counts[group]) for group in waiting):
            count.asked = count.learned = now
            count.waiting = waiting[group]
            count.since = max(count.since - before[group], 0)

    def not_learned(self, groups: Iterable[str]) -> None:
        """The look failed: the next one may try."""
        for group in groups:
            self._counts[group].asked = _LONG_AGO

    def take(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Let so many through to each group, or none to any; answers how many wait for those that are full."""
        counted = {group: self._counts[group].waiting + self._counts[group].since for group in wanted}
        if full := self.full(wanted, counted):
            return full
        for group, more in wanted.items():
            self._counts[group].since += more
        return {}

    def full(self, wanted: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
        """Of the groups for which so many wait, those that have no room for what is wanted."""
        return {
            group: counted[group] for group, more in wanted.items() if counted[group] + more > self.limits[group].most
        }

    def may_wait(self, wanted: Mapping[str, int], full: Collection[str]) -> bool:
        """Whether waiting can help, and every full group wants it. A handler cannot wait for itself to be done."""
        return _serving.get() not in full and all(
            self.limits[group].when_full == "wait" and wanted[group] <= self.limits[group].most for group in full
        )

    def until_look(self, groups: Collection[str], now: float) -> float:
        """Seconds until it is time to look at one of these again, and a little more."""
        every = LOOK_AGAIN if self.guessed(groups) else LOOK_EVERY
        pause = max(min(self._counts[group].asked for group in groups) + every - now, 0.0)
        # Those who wait come one after the other: the first of them looks, for all.
        return pause + every * random.uniform(0.01, 0.25)


def serving(group: str, call: Call, *, threaded: bool) -> Call:
    """The handler's call, in which whoever asks knows that it is a handler of this group."""

    def called(delivery: Delivery, run: Run) -> object:
        token = _serving.set(group)
        try:
            return call(delivery, run)
        finally:
            _serving.reset(token)

    async def awaited(delivery: Delivery, run: Run) -> object:
        token = _serving.set(group)
        try:
            return await cast("Awaitable[object]", call(delivery, run))
        finally:
            _serving.reset(token)

    return called if threaded else awaited
