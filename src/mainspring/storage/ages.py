"""How old what is over may become: by kind, and by topic where a retention says so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from mainspring.model.retention import Kind, Retention
from mainspring.storage.routing import is_wild, matches, specificity

STATUSES: dict[Kind, tuple[str, ...]] = {"done": ("done", "snoozed", "cancelled"), "failures": ("failed", "dead")}
"""The runs of each kind."""


class Ages:
    """A retention, and the topics it is asked for: those of a pattern, or all.

    Where nothing is said of single topics, a kind is removed by its age alone. Otherwise topic by topic: what one of
    them keeps for years must not be waded through to find what is over on the others.
    """

    def __init__(self, retention: Retention, pattern: str | None) -> None:
        self._pattern = pattern
        self._retention = retention
        self._ranked = sorted(retention.topics.items(), key=lambda rule: specificity(rule[0]))

    def of(self, kind: Kind, topic: str) -> timedelta | None:
        """How long this kind is kept on this topic; None for ever, and for a topic that is not asked for."""
        if self._pattern is not None and not matches(self._pattern, topic):
            return None
        kept: timedelta | None = getattr(self._retention, kind)
        said = (ages[kind] for pattern, ages in self._ranked if kind in ages and matches(pattern, topic))
        return next(said, kept)

    def known(self, kind: Kind) -> list[tuple[str | None, timedelta]] | None:
        """What to remove, without asking which topics there are: a topic, or None for every one, and its age.

        None when it has to be asked.
        """
        age: timedelta | None = getattr(self._retention, kind)
        named = any(kind in ages for _, ages in self._ranked)
        if self._pattern is not None and not is_wild(self._pattern):
            age = self.of(kind, self._pattern)
        elif named or (age is not None and self._pattern is not None):
            return None
        return [] if age is None else [(self._pattern, age)]

    def over(self, kind: Kind, there: Iterable[tuple[str, timedelta]]) -> list[tuple[str | None, timedelta]]:
        """The same, of the topics that there are, each with the age of its oldest."""
        ages = ((topic, self.of(kind, topic), oldest) for topic, oldest in there)
        return [(topic, age) for topic, age, oldest in ages if age is not None and oldest > age]
