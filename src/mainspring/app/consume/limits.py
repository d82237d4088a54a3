"""Order, limits and back-pressure of consumers: the options, and counts of what waits."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from mainspring.app.options import choice, flag, whole
from mainspring.model.errors import BadOption
from mainspring.model.limits import Limits, OnFailure, Rate
from mainspring.model.message import Delivery, Draft
from mainspring.runtime.handler import Call, Run
from mainspring.storage.patterns import matches
from mainspring.timing.duration import DurationError, duration, exactly, spell

_MOST = 1_000_000
_SHORTEST, _LONGEST = timedelta(milliseconds=10), timedelta(days=31)
_ON_FAILURE = ("block", "skip")
_BY_KEY = ("ordered", "key_concurrency", "key_rate")


def read_limits(options: Mapping[str, Any], name: str, *, keyless: bool) -> Limits | None:
    """Return the limits among these options, or None. ``keyless``: its messages have no keys."""
    ordered = flag(options.get("ordered", False), "ordered")
    if "on_failure" in options and not ordered:
        raise BadOption(
            f"on_failure={options['on_failure']!r} is for ordered consumers, and {name} has no order: "
            "add ordered=True, or leave on_failure out"
        )
    if keyless and (by_key := [each for each in _BY_KEY if options.get(each)]):
        raise BadOption(
            f"{name} has {by_key[0]}=, which goes by the key of a message, and the occurrences of a schedule have none"
            ": leave it out; overlap= sets what happens when one is due while another runs"
        )
    limits = Limits(
        ordered=ordered,
        on_failure=cast("OnFailure", choice(options.get("on_failure", "block"), _ON_FAILURE, "on_failure")),
        key_concurrency=_number(options, "key_concurrency"),
        global_concurrency=_number(options, "global_concurrency"),
        rate=_rate(options, "rate"),
        key_rate=_rate(options, "key_rate"),
    )
    _refuse_conflicts(limits, name)
    return None if limits == Limits() else limits


def shown_limits(limits: Limits | None) -> dict[str, str]:
    """Return declared options."""
    if limits is None:
        return {}
    return {
        **({"ordered": limits.on_failure} if limits.ordered else {}),
        **({} if limits.key_concurrency is None else {"key_concurrency": str(limits.key_concurrency)}),
        **({} if limits.global_concurrency is None else {"global_concurrency": str(limits.global_concurrency)}),
        **({} if limits.rate is None else {"rate": _spelled(limits.rate)}),
        **({} if limits.key_rate is None else {"key_rate": _spelled(limits.key_rate)}),
    }


def _refuse_conflicts(limits: Limits, name: str) -> None:
    if limits.ordered and limits.key_concurrency is not None and limits.key_concurrency > 1:
        raise BadOption(
            f"{name} has ordered=True, which is one at a time under a key, and key_concurrency="
            f"{limits.key_concurrency}: leave one of them out"
        )
    per_key, overall = limits.key_concurrency, limits.global_concurrency
    if per_key is not None and overall is not None and per_key > overall:
        raise BadOption(
            f"{name} has key_concurrency={per_key}, which its global_concurrency={overall} never lets it reach: lower "
            "the first or raise the second"
        )
    one, all_of_it = limits.key_rate, limits.rate
    if one is not None and all_of_it is not None and one.per <= all_of_it.per and one.count > all_of_it.count:
        raise BadOption(
            f"{name} has key_rate={_spelled(one)!r}, which its rate={_spelled(all_of_it)!r} never lets it reach: lower "
            "the first or raise the second"
        )


def _number(options: Mapping[str, Any], option: str) -> int | None:
    value = options.get(option)
    return None if value is None else whole(value, option, least=1, most=_MOST)


def _rate(options: Mapping[str, Any], option: str) -> Rate | None:
    value = options.get(option)
    if value is None:
        return None
    count, _, per = value.partition("/") if isinstance(value, str) else ("", "", "")
    number, text = count.strip(), per.strip()
    try:
        window = duration(f"1{text}" if text.isalpha() else text, of=option)
    except DurationError:
        window = None
    if window is None or not (number.isascii() and number.isdecimal()):
        raise BadOption(f"{option}={value!r} is not a rate: write how many in what time, as in '100/1m' or '5/1s'")
    if not 1 <= int(number) <= _MOST:
        raise BadOption(f"{option}={value!r} is out of bounds: write how many, from 1 to {_MOST:,}, before the slash")
    if not _SHORTEST <= window <= _LONGEST:
        raise BadOption(
            f"{option}={value!r} is out of bounds: write a time between {spell(_SHORTEST)} and {spell(_LONGEST)} "
            "after the slash"
        )
    return Rate(int(number), window)


def _spelled(rate: Rate) -> str:
    return f"{rate.count}/{exactly(rate.per)}"


WhenFull = Literal["raise", "wait"]
"""What a publish over a group's limit does."""

COUNT_EVERY = 1.0
"""Seconds for which a count is used, with what this process has published since."""
RECOUNT_AFTER = 0.1
"""Seconds until a recount if only what was published since makes a group full: it may be done."""
MOST = 1_000_000
"""The highest limit: a full group is counted up to its limit every second, by every process that publishes to it."""
_WORDS = ("raise", "wait")
_TOPICS = 1_000
_LONG_AGO = float("-inf")

_serving: ContextVar[str | None] = ContextVar("mainspring_serving", default=None)
"""The group whose handler runs here, if that group makes publishers wait."""


@dataclass(frozen=True, slots=True)
class PendingLimit:
    """How many deliveries of a group may wait, and what a publish over that limit does."""

    most: int
    when_full: WhenFull = "raise"

    @property
    def shown(self) -> dict[str, str]:
        """The declared options."""
        return {"pending_limit": str(self.most), "when_full": self.when_full}


def read_pending_limit(options: Mapping[str, Any], whose: str) -> PendingLimit | None:
    """Return the limit among these options, or None."""
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

    queried: float = _LONG_AGO
    learned: float = _LONG_AGO
    waiting: int = 0
    """As of the last count."""
    since: int = 0
    """What was admitted here since then."""


class Backlogs:
    """The limited groups of one app, by name.

    It is used by every thread that publishes, and without a lock, which a forked child might inherit locked. What two
    threads add at one instant may count once; the next count corrects that.
    """

    def __init__(self) -> None:
        self.limits: dict[str, PendingLimit] = {}
        """By group. Empty for most apps, which only pay for this check."""
        self._patterns: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, tuple[str, ...]] = {}
        self._counts: dict[str, _Count] = {}

    def note(self, group: str, patterns: Iterable[str], limit: PendingLimit | None) -> None:
        """Set the group's limit, or remove it."""
        if limit is None:
            self.limits.pop(group, None)
        else:
            self._patterns[group] = tuple(patterns)
            self._counts.setdefault(group, _Count())  # a queue may be made again and again
            self.limits[group] = limit  # last: a concurrent publish that finds it also finds the rest
        self._reached = {}  # a new one: a thread that read the limits before writes into the old

    def wanted(self, drafts: Iterable[Draft]) -> dict[str, int]:
        """Count these for each limited group."""
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
        """Return the groups that are due, with how far to count. The caller must count them: no other will."""
        return self._claimed((group for group in groups if now - self._counts[group].queried >= COUNT_EVERY), now)

    def doubtful(self, full: Iterable[str], now: float) -> dict[str, int]:
        """Return full groups that are due sooner, being estimates: done messages must not reject a publish."""
        return self._claimed(
            (group for group in self.guessed(full) if now - self._counts[group].queried >= RECOUNT_AFTER), now
        )

    def guessed(self, groups: Iterable[str]) -> list[str]:
        """Return those with an estimate."""
        return [group for group in groups if self._counts[group].since > 0]

    def _claimed(self, groups: Iterable[str], now: float) -> dict[str, int]:
        due = set(groups)
        for group in due:
            self._counts[group].queried = now
        return {group: self.limits[group].most for group in due}

    def unknown(self, groups: Iterable[str], now: float) -> dict[str, int]:
        """Return those without a count, or with none new enough to use during a recount."""
        old = (group for group in groups if now - self._counts[group].learned > 2 * COUNT_EVERY)
        return {group: self.limits[group].most for group in old}

    def before(self, groups: Iterable[str]) -> dict[str, int]:
        """Return what a count from now on will include."""
        return {group: self._counts[group].since for group in groups}

    def learn(self, waiting: Mapping[str, int], before: Mapping[str, int], now: float) -> None:
        """Record a count. What was admitted ``before`` it is included, or was never stored."""
        for group, count in ((group, self._counts[group]) for group in waiting):
            count.queried = count.learned = now
            count.waiting = waiting[group]
            count.since = max(count.since - before[group], 0)

    def not_learned(self, groups: Iterable[str]) -> None:
        """Let the next caller count again."""
        for group in groups:
            self._counts[group].queried = _LONG_AGO

    def take(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Admit so many to each group, or none to any; return how many wait for those that are full."""
        counted = {group: self._counts[group].waiting + self._counts[group].since for group in wanted}
        if full := self.full(wanted, counted):
            return full
        for group, more in wanted.items():
            self._counts[group].since += more
        return {}

    def full(self, wanted: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
        """Return the groups, with their counts, that have no room for what is wanted."""
        return {
            group: counted[group] for group, more in wanted.items() if counted[group] + more > self.limits[group].most
        }

    def may_wait(self, wanted: Mapping[str, int], full: Collection[str]) -> bool:
        """Return whether waiting can help, and every full group allows it. A handler cannot wait for itself."""
        return _serving.get() not in full and all(
            self.limits[group].when_full == "wait" and wanted[group] <= self.limits[group].most for group in full
        )

    def until_count(self, groups: Collection[str], now: float) -> float:
        """Return the seconds until one of these is due again, with jitter."""
        every = RECOUNT_AFTER if self.guessed(groups) else COUNT_EVERY
        pause = max(min(self._counts[group].queried for group in groups) + every - now, 0.0)
        # Waiting calls resume one after the other: the first counts for all.
        return pause + every * random.uniform(0.01, 0.25)


def serving(group: str, call: Call, *, threaded: bool) -> Call:
    """Wrap the handler's call, so that a publish within it knows its group."""

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
