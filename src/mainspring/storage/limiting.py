"""What fits into the limits of a group: decided here, for every storage, from what it has counted under its lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.model.limits import LimitedClaim, Limits, Rate
from mainspring.model.message import Delivery

WHOLE_GROUP = ""
"""Stands for the whole group where claims are counted by key; no key is empty."""
KEYS = 200
"""How many keys one call walks through: it stays as quick with ten thousand of them."""
DEPTH = 100
"""How many deliveries of one key are looked at for one that may go first."""
_SHORTEST_WINDOW, _LONGEST_WINDOW = 20, 200


class Candidate(NamedTuple):
    """A delivery that is due and that nobody holds."""

    seq: int
    key: str | None


class Spent(NamedTuple):
    """Claims that count until then."""

    key: str
    until: datetime
    claims: int


def window(limit: int) -> int:
    """How many of the first due deliveries are looked at for so many that fit."""
    return min(max(4 * limit, _SHORTEST_WINDOW), _LONGEST_WINDOW)


class Allowance:
    """What may still be taken. It is counted down as candidates are chosen, in the order they are offered."""

    def __init__(self, limits: Limits, limit: int, held: Mapping[str | None, int], now: datetime) -> None:
        self._limits = limits
        self._held = dict(held)
        self._now = now
        self._budgets: dict[str, int] = {}
        self._returns: dict[str, datetime] = {}
        self._again: datetime | None = None
        self._is_rationed = False
        self._room = self._wanted = limit
        if limits.global_concurrency is not None:
            self._room = min(self._room, limits.global_concurrency - sum(held.values()))
        self._offered: dict[int, Candidate] = {}
        self._out_of_reach: set[int | str] = set()
        self.chosen: list[int] = []
        self.left: bool = False

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is taken, whatever there is."""
        return self._room <= len(self.chosen)

    def asks_for(self, keys: Iterable[str | None]) -> list[str]:
        """Of which keys it must know what is spent before they are offered."""
        limits, asked = self._limits, [] if self._limits.rate is None else [WHOLE_GROUP]
        if limits.key_rate is not None:
            asked += {key for key in keys if key is not None}
        return [key for key in asked if key not in self._budgets]

    def learn(self, asked: Iterable[str], spent: Iterable[Spent]) -> None:
        """Take note of what counts at this moment of what was spent under these keys."""
        for key in asked:
            self._budgets[key] = self._rate(key).count
        for each in spent:
            self._budgets[each.key] -= each.claims
            self._returns[each.key] = min(each.until, self._returns.get(each.key, each.until))
        budget = self._budgets.get(WHOLE_GROUP)
        if budget is not None and budget < self._room:
            self._room = budget
            self._is_rationed = True

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Choose what fits."""
        for each in candidates:
            self._offered[each.seq] = each
            if each.seq in self.chosen or not self._out_of_reach.isdisjoint(each):
                continue
            if self.is_used_up or not self._fits(each.key):
                self.left = True
                continue
            self.chosen.append(each.seq)
            if each.key is not None:
                self._held[each.key] = self._held.get(each.key, 0) + 1
                if self._limits.key_rate is not None:
                    self._budgets[each.key] -= 1

    def pass_over(self, seqs: Iterable[int]) -> None:
        """What was chosen cannot be had now: it counts no more, and others that were offered may go in its place.

        Under an order none of its key may: it would go before its first.
        """
        self.left = True
        for seq in seqs:
            key = self._offered[seq].key
            self.chosen.remove(seq)
            self._out_of_reach.add(seq)
            if key is not None:
                self._held[key] -= 1
                if self._limits.key_rate is not None:
                    self._budgets[key] += 1
                if self._limits.ordered:
                    self._out_of_reach.add(key)
        self.offer(list(self._offered.values()))

    def ration(self, deliveries: list[Delivery], next_due: datetime | None, after: str | None) -> LimitedClaim:
        """The answer to the call."""
        if self._is_rationed and self.is_used_up and self.left:
            self._wait_for(WHOLE_GROUP)
        again = min((each for each in (next_due, self._again) if each is not None), default=None)
        again_in = None if again is None else max(again - self._now, timedelta())
        full = self.left and self.is_used_up and self._room < self._wanted
        return LimitedClaim(deliveries, again_in, after, self.left or after is not None, full)

    def _fits(self, key: str | None) -> bool:
        if key is None:
            return True
        most = self._limits.most_of_a_key
        if most is not None and self._held.get(key, 0) >= most:
            return False
        if self._limits.key_rate is not None and self._budgets[key] <= 0:
            self._wait_for(key)
            return False
        return True

    def _rate(self, key: str) -> Rate:
        rate = self._limits.rate if key == WHOLE_GROUP else self._limits.key_rate
        assert rate is not None, "only what has a rate is asked for"
        return rate

    def _wait_for(self, key: str) -> None:
        rate = self._rate(key)
        returns = self._returns.get(key, self._now + rate.per + rate.slot)
        if self._again is None or returns < self._again:
            self._again = returns
