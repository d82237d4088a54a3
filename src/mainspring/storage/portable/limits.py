"""Claims under limits: which deliveries fit, and the order of statements that takes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mainspring.model.limits import LimitedClaim, Limits, Rate
from mainspring.model.message import Claim, ClaimRequest, Delivery, Scan
from mainspring.storage.operation import Now, Operation, operation
from mainspring.storage.portable.dialect import SqlOperations, Statements
from mainspring.storage.script import Script

WHOLE_GROUP = ""
"""Stands for the whole group where claims are counted by key; no key is empty."""
KEYS = 200
"""How many keys one call visits, so that ten thousand keys do not slow it down."""
_DEPTH = 100
"""How many deliveries of one key are examined for one that may go first."""
_SHORTEST_WINDOW, _LONGEST_WINDOW = 20, 200


_TRIES = 32
"""How often one call chooses again, where its choice is locked by others."""


class Candidate(NamedTuple):
    """A delivery that is due and unheld."""

    seq: int
    key: str | None


class Spent(NamedTuple):
    """Claims that count until then."""

    key: str
    until: datetime
    claims: int


def window(limit: int) -> int:
    """Return how many of the first due deliveries are examined to find ``limit`` that fit."""
    return min(max(4 * limit, _SHORTEST_WINDOW), _LONGEST_WINDOW)


class Allowance:
    """What may still be taken: counted down as candidates are chosen, in the order of the offer."""

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
        """Return the keys whose spent claims must be learned before their candidates are offered."""
        limits, asked = self._limits, [] if self._limits.rate is None else [WHOLE_GROUP]
        if limits.key_rate is not None:
            asked += {key for key in keys if key is not None}
        return [key for key in asked if key not in self._budgets]

    def learn(self, asked: Iterable[str], spent: Iterable[Spent]) -> None:
        """Record the spent claims that still count under these keys."""
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
        """Drop chosen candidates that are locked, and choose others of the offer in their place.

        Under an order none of the same key is chosen: it would overtake the first.
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
        """Return the result of the call."""
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


class Found(NamedTuple):
    """The state of a group."""

    now: datetime
    due: list[Candidate]
    """The first that are due, in their order."""
    held: Mapping[str | None, int]
    """How many are held under each key, lapsed or not."""
    next_due: datetime | None
    """When the first comes due of those that are not."""


class LimitDialect(ABC):
    """The statements of one call, under the limits of one group."""

    def __init__(self, sql: Statements, group: str, limits: Limits, owner: str, hold: timedelta, now: Now) -> None:
        self._sql = sql
        self._group = group
        self._limits = limits
        self._owner = owner
        self._hold = hold
        self._at: Any = now
        self._skips = limits.on_failure == "skip"
        self._depth = 1 if limits.ordered and not self._skips else _DEPTH

    @abstractmethod
    def turn(self) -> Script[None]:
        """Lock the limits of the group to the end of the transaction: later statements see all earlier claims."""

    @abstractmethod
    def due(self, scans: Sequence[Scan], breadth: int) -> Script[Found | None]:
        """Read the first due deliveries and what is held; None where the group is paused."""

    @abstractmethod
    def lapsed(self, *, accused: bool, aside: Collection[Claim]) -> Script[tuple[datetime, list[Candidate]]]:
        """Read the time and the oldest lapsed claims, as by ``reap``; none where the group is paused."""

    @abstractmethod
    def keyless(self, scans: Sequence[Scan], most: int) -> Script[list[Candidate]]:
        """Read the first that are due and have no key, up to ``most``: they wait for no other."""

    def next_keys(self, after: str) -> Script[list[str]]:
        """Read the next ``KEYS`` keys that have deliveries, in order."""
        return [key for (key,) in (yield self._sql("limited_next_keys", self._group, after, KEYS))]

    @abstractmethod
    def heads(self, keys: Sequence[str], most: int) -> Script[list[Candidate]]:
        """Read the first due and unheld of each key, up to ``most``; under an order only its very first."""

    @abstractmethod
    def spent(self, keys: Sequence[str]) -> Script[list[Spent]]:
        """Read the claims under these keys that still count; the empty key is the whole group."""

    @abstractmethod
    def hold(self, seqs: Sequence[int], *, lapsed: bool = False) -> Script[list[Delivery]]:
        """Claim these, in this order, and count them where there is a rate; leave out what is gone or locked."""


class SqlLimits(SqlOperations):
    """``Mailbox.claim_limited`` and ``Mailbox.reap_limited``, for every SQL database."""

    reap: Operation[..., Delivery | None]
    _limited: type[LimitDialect]

    @operation("limited")
    def claim_limited(
        self, want: ClaimRequest, limits: Limits, after: str | None, owner: str, hold: timedelta
    ) -> Script[LimitedClaim]:
        step = self._limited(self._sql, want.group, limits, owner, hold, self.now)
        return claim_limited(step, want, limits, after)

    @operation("limited")
    def reap_limited(
        self,
        group: str,
        limits: Limits,
        owner: str,
        hold: timedelta,
        *,
        accused: bool = True,
        aside: Collection[Claim] = (),
    ) -> Script[Delivery | None]:
        if not limits.is_rated:
            return self.reap.script([group], owner, hold, accused=accused, aside=aside)
        step = self._limited(self._sql, group, limits, owner, hold, self.now)
        return reap_limited(step, limits, accused=accused, aside=aside)


def claim_limited(step: LimitDialect, want: ClaimRequest, limits: Limits, after: str | None) -> Script[LimitedClaim]:
    """See ``Mailbox.claim_limited``."""
    yield from step.turn()
    breadth = window(want.limit)
    found = yield from step.due(want.scans, breadth)
    if found is None:
        return LimitedClaim([], None, None, left=False)
    allowance = Allowance(limits, want.limit, found.held, found.now)
    if not found.due:
        return allowance.ration([], found.next_due, None)
    yield from _ask(step, allowance, (each.key for each in found.due))
    if limits.ordered and not allowance.is_used_up:
        allowance.offer((yield from _first(step, found.due)))
    else:
        allowance.offer(found.due)
    allowance.left |= len(allowance.chosen) < len(found.due)
    taken: list[Delivery] = []
    if allowance.is_used_up:
        yield from _take(step, allowance, taken)
    walked: list[str] = []
    if limits.is_by_key and not allowance.is_used_up and len(found.due) >= breadth:
        # Others may stand behind those that have to wait, or that are locked.
        if after is None:
            allowance.offer((yield from step.keyless(want.scans, want.limit)))
        walked = yield from step.next_keys(after or "")
        yield from _ask(step, allowance, walked)
        allowance.offer((yield from step.heads(walked, 1 if limits.ordered else want.limit)))
    yield from _take(step, allowance, taken)
    return allowance.ration(taken, found.next_due, walked[-1] if len(walked) == KEYS else None)


def reap_limited(
    step: LimitDialect, limits: Limits, *, accused: bool, aside: Collection[Claim]
) -> Script[Delivery | None]:
    """See ``Mailbox.reap_limited``. The delivery is held already: of the limits only the rates apply."""
    yield from step.turn()
    now, lapsed = yield from step.lapsed(accused=accused, aside=aside)
    allowance = Allowance(Limits(rate=limits.rate, key_rate=limits.key_rate), 1, {}, now)
    yield from _ask(step, allowance, (each.key for each in lapsed))
    allowance.offer(lapsed)
    taken: list[Delivery] = []
    yield from _take(step, allowance, taken, lapsed=True)
    return taken[0] if taken else None


def _take(step: LimitDialect, allowance: Allowance, taken: list[Delivery], *, lapsed: bool = False) -> Script[None]:
    """Take what is chosen beyond this, and what fits in the place of those that another session has locked."""
    for _ in range(_TRIES):
        chosen = allowance.chosen[len(taken) :]
        if not chosen:
            return
        held = yield from step.hold(chosen, lapsed=lapsed)
        taken += held
        if len(held) == len(chosen):
            return
        allowance.pass_over(set(chosen).difference(each.id for each in held))


def _first(step: LimitDialect, due: Sequence[Candidate]) -> Script[list[Candidate]]:
    """In the place of what is due, the first of its key, once (invariant 6); what has no key stays as it is."""
    keys = list(dict.fromkeys(each.key for each in due if each.key is not None))
    first = {each.key: each for each in (yield from step.heads(keys, 1))} if keys else {}
    offered = [each if each.key is None else first.pop(each.key, None) for each in due]
    return [each for each in offered if each is not None]


def _ask(step: LimitDialect, allowance: Allowance, keys: Iterable[str | None]) -> Script[None]:
    asked = allowance.asks_for(keys)
    if asked:
        allowance.learn(asked, (yield from step.spent(asked)))
