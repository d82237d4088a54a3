"""Claiming under limits, for every dialect: one after the other, what is there is counted, and what fits is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from mainspring.model.limits import LimitedClaim, Limits
from mainspring.model.message import Claim, ClaimRequest, Delivery, Scan
from mainspring.storage.limiting import KEYS, Allowance, Candidate, Spent, window
from mainspring.storage.script import Script

_TRIES = 32
"""How often one call goes on to what fits, where what it has chosen is locked by others."""


class Found(NamedTuple):
    """What there is of a group."""

    now: datetime
    due: list[Candidate]
    """The first that are due, in their order."""
    held: Mapping[str | None, int]
    """How many are held under each key, lapsed or not."""
    next_due: datetime | None
    """When the first comes due of those that are not."""


class Limiting(Protocol):
    """The statements of one call, under the limits of one group."""

    def turn(self) -> Script[None]:
        """Wait until it is our turn, and keep it to the end of the transaction. What follows sees what was before."""
        ...

    def due(self, scans: Sequence[Scan], breadth: int) -> Script[Found | None]:
        """What there is; None where the group is paused."""
        ...

    def lapsed(self, *, accused: bool, aside: Collection[Claim]) -> Script[tuple[datetime, list[Candidate]]]:
        """What time it is, and the oldest claims that have lapsed, by ``reap``; none where the group is paused."""
        ...

    def keyless(self, scans: Sequence[Scan], most: int) -> Script[list[Candidate]]:
        """The first that are due and have no key, up to ``most``: they wait for no other."""
        ...

    def walk(self, after: str) -> Script[list[str]]:
        """The next ``KEYS`` keys that have deliveries, in their order."""
        ...

    def heads(self, keys: Sequence[str], most: int) -> Script[list[Candidate]]:
        """The first of each key that are due and unheld, up to ``most``; under an order its very first, or none."""
        ...

    def spent(self, keys: Sequence[str]) -> Script[list[Spent]]:
        """What still counts of what was claimed under these keys; the empty one is the whole group."""
        ...

    def hold(self, seqs: Sequence[int], *, lapsed: bool = False) -> Script[list[Delivery]]:
        """Take these, in this order, and count them where there is a rate. What is gone or locked is left out."""
        ...


def claim_limited(step: Limiting, want: ClaimRequest, limits: Limits, after: str | None) -> Script[LimitedClaim]:
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
        # Others may stand behind those that have to wait, or that cannot be had.
        if after is None:
            allowance.offer((yield from step.keyless(want.scans, want.limit)))
        walked = yield from step.walk(after or "")
        yield from _ask(step, allowance, walked)
        allowance.offer((yield from step.heads(walked, 1 if limits.ordered else want.limit)))
    yield from _take(step, allowance, taken)
    return allowance.ration(taken, found.next_due, walked[-1] if len(walked) == KEYS else None)


def reap_limited(step: Limiting, limits: Limits, *, accused: bool, aside: Collection[Claim]) -> Script[Delivery | None]:
    """See ``Mailbox.reap_limited``. It is in hand as it is: of its limits, only the rates have a say."""
    yield from step.turn()
    now, lapsed = yield from step.lapsed(accused=accused, aside=aside)
    allowance = Allowance(Limits(rate=limits.rate, key_rate=limits.key_rate), 1, {}, now)
    yield from _ask(step, allowance, (each.key for each in lapsed))
    allowance.offer(lapsed)
    taken: list[Delivery] = []
    yield from _take(step, allowance, taken, lapsed=True)
    return taken[0] if taken else None


def _take(step: Limiting, allowance: Allowance, taken: list[Delivery], *, lapsed: bool = False) -> Script[None]:
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


def _first(step: Limiting, due: Sequence[Candidate]) -> Script[list[Candidate]]:
    """In the place of what is due, the first of its key, once (invariant 6); what has no key stays as it is."""
    keys = list(dict.fromkeys(each.key for each in due if each.key is not None))
    first = {each.key: each for each in (yield from step.heads(keys, 1))} if keys else {}
    offered = [each if each.key is None else first.pop(each.key, None) for each in due]
    return [each for each in offered if each is not None]


def _ask(step: Limiting, allowance: Allowance, keys: Iterable[str | None]) -> Script[None]:
    asked = allowance.asks_for(keys)
    if asked:
        allowance.learn(asked, (yield from step.spent(asked)))
