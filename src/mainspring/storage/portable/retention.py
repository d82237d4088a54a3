"""Retention: the age at which each kind of record is removed, topic by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.model.retention import CHORES, KINDS, Chore, Kind, Pruned, Retention
from mainspring.storage.patterns import is_wild, matches, specificity
from mainspring.storage.script import Script

STATUSES: dict[Kind, tuple[str, ...]] = {"done": ("done", "snoozed", "cancelled"), "failures": ("failed", "dead")}
"""The runs of each kind."""


STRETCH = 1_000
"""How many topics one call visits."""
CHOICE = 20_000
"""How many parked messages of a stretch are examined to find the oldest."""
_COUNTED: dict[Chore, str] = {"done": "runs", "failures": "runs", "bells": ""}
"""The fields that count them, where it is not their own name."""
Found = tuple[int, str | None]
"""How many were removed, and the topic after which to continue; empty: there is more of the same; None: no more."""
Chores = Callable[[str], Mapping[Chore, Callable[[], Script[Found]]]]
"""The script of each chore, after a topic."""


class Ages:
    """A retention for the topics of a pattern, or for all.

    Where no topic has a retention of its own, a kind is removed by its age alone; otherwise topic by topic, so that
    rows that one topic keeps for years are not scanned for the others.
    """

    def __init__(self, retention: Retention, pattern: str | None) -> None:
        self._pattern = pattern
        self._retention = retention
        self._ranked = sorted(retention.topics.items(), key=lambda rule: specificity(rule[0]))

    def of(self, kind: Kind, topic: str) -> timedelta | None:
        """Return how long this kind is kept on this topic; None: for ever, or the topic does not match."""
        if self._pattern is not None and not matches(self._pattern, topic):
            return None
        kept: timedelta | None = getattr(self._retention, kind)
        own = (ages[kind] for pattern, ages in self._ranked if kind in ages and matches(pattern, topic))
        return next(own, kept)

    def known(self, kind: Kind) -> list[tuple[str | None, timedelta]] | None:
        """Return what to remove without a list of topics: a topic, or None for every one, and its age.

        None when the list of topics is needed.
        """
        age: timedelta | None = getattr(self._retention, kind)
        named = any(kind in ages for _, ages in self._ranked)
        if self._pattern is not None and not is_wild(self._pattern):
            age = self.of(kind, self._pattern)
        elif named or (age is not None and self._pattern is not None):
            return None
        return [] if age is None else [(self._pattern, age)]

    def over(self, kind: Kind, there: Iterable[tuple[str, timedelta]]) -> list[tuple[str | None, timedelta]]:
        """The same, given the existing topics and the age of the oldest of each."""
        ages = ((topic, self.of(kind, topic), oldest) for topic, oldest in there)
        return [(topic, age) for topic, age, oldest in ages if age is not None and oldest > age]


def pruned(topic: str | None, chore: Chore | None, after: str | None, limit: int, chores: Chores) -> Script[Pruned]:
    """Do one chore, after a topic; or all, each to the end of its topics."""

    def prune(chore: Chore, after: str) -> Script[Pruned]:
        removed, last = yield from chores(after)[chore]()
        counted = _COUNTED.get(chore, chore)
        numbers: dict[str, Any] = {counted: removed} if counted else {}
        return Pruned(**numbers, last=last)

    if chore is not None:
        return (yield from prune(chore, after or ""))
    total = Pruned()
    for each in CHORES if topic is None else KINDS:
        last: str | None = ""
        while last is not None:
            done = yield from prune(each, last)
            total += done
            last = None if done.total >= limit else done.last or None
    return replace(total, last=None)
