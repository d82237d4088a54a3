"""Histories under limits: claimed as far as they allow, reaped, settled, taken, cancelled and paused."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mainspring.model.limits import LimitedClaim, Limits, Rate
from mainspring.model.message import ClaimRequest, Delivery, Draft, Priority, Scan
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.views import Declaration
from mainspring.storage.contract import Keyed, Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import Twins

GROUP, NEIGHBOUR, TOPIC = "mailer", "analytics", "orders.placed"
KEYS = ["a", "b", "it's 夜"]
CROWD = 21
"""One more than the first due that a claim for a few looks at."""

RATE, BY_KEY = Rate(3, drawing.MINUTE), Rate(2, drawing.MINUTE)
limits = st.sampled_from(
    [
        Limits(ordered=True),
        Limits(ordered=True, on_failure="skip"),
        Limits(key_concurrency=2),
        Limits(global_concurrency=3),
        Limits(rate=RATE),
        Limits(key_rate=BY_KEY),
        Limits(ordered=True, global_concurrency=2, rate=RATE),
        Limits(ordered=True, on_failure="skip", key_rate=BY_KEY),
        Limits(key_concurrency=1, global_concurrency=3, rate=RATE, key_rate=BY_KEY),
    ]
)
"""Few and small, so that each is reached often."""
passing = st.sampled_from([drawing.TICK, drawing.SECOND, 31 * drawing.SECOND, drawing.MINUTE, 2 * drawing.MINUTE])
wanted = st.sampled_from([1, 2, 5])
keys = st.none() | st.sampled_from(KEYS)
backs = st.sampled_from([None, None, None, drawing.SECOND])
"""How far back a claim looks; mostly all the way."""


@dataclass(frozen=True)
class Letter:
    """A message to be, but for its id."""

    key: str | None
    delay: timedelta
    priority: Priority
    group: str | None


letters = st.builds(
    Letter,
    key=keys,
    delay=st.sampled_from([timedelta(), timedelta(), timedelta(), drawing.SECOND, drawing.MINUTE]),
    priority=st.sampled_from([Priority.NORMAL, Priority.NORMAL, Priority.URGENT, Priority.LOW]),
    group=st.sampled_from([GROUP, GROUP, None]),
)


class Limited(Twins):
    """All that is done to the deliveries of a group with limits."""

    @initialize(limits=limits, letters=st.lists(letters, min_size=2, max_size=6))
    def begin(self, limits: Limits, letters: list[Letter]) -> None:
        self.limits = limits
        self.after: str | None = None
        self._numbers = count(1)
        self._sent: list[UUID] = []
        self.declare()
        self.publish(letters)

    @rule(by=passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    @rule(limits=limits)
    def deploy_with_other_limits(self, limits: Limits) -> None:
        self.limits = limits

    @rule(letters=st.lists(letters, min_size=1, max_size=5))
    def publish(self, letters: list[Letter]) -> None:
        drafts = [
            Draft(
                UUID(int=next(self._numbers) << 64 | 9),
                TOPIC,
                b"{}",
                key=each.key,
                delay=each.delay,
                priority=each.priority,
                group=each.group,
            )
            for each in letters
        ]
        self._sent += [each.id for each in drafts]
        self.alike(lambda storage: storage.mailbox.publish(drafts))

    @rule(key=st.sampled_from(KEYS))
    def publish_a_crowd(self, key: str) -> None:
        self.publish([Letter(key, timedelta(), Priority.NORMAL, GROUP)] * CROWD)

    @rule(limit=wanted, hold=drawing.holds, back=backs)
    def claim(self, limit: int, hold: timedelta, back: timedelta | None) -> None:
        since = None if back is None else self.now - back
        want = ClaimRequest(GROUP, limit, tuple(Scan(level, since) for level in Priority))
        sqlite, postgres = self.both(
            lambda storage: storage.mailbox.claim_limited(want, self.limits, self.after, "node-1", hold)
        )
        assert _plain(postgres) == _plain(sqlite)
        for ours, theirs in zip(sqlite.deliveries, postgres.deliveries, strict=True):
            self.holding(ours, theirs)
        self.after = sqlite.after

    @rule(limit=wanted, settlings=st.lists(drawing.settlings, min_size=5, max_size=5))
    def work(self, limit: int, settlings: list[drawing.Settling]) -> None:
        before = len(self.claims)
        self.claim(limit, drawing.HOUR, None)
        self.settle_pairs(list(zip(self.claims[before:], settlings, strict=False)))

    @precondition(lambda self: self.claims)
    @rule(chosen=drawing.some_claims, settlings=st.lists(drawing.settlings, min_size=4, max_size=4))
    def settle(self, chosen: set[int], settlings: list[drawing.Settling]) -> None:
        claims = [self.claims[-1 - number % len(self.claims)] for number in chosen]
        each_once = {ours.id: (ours, theirs) for ours, theirs in claims}.values()
        self.settle_pairs(list(zip(each_once, settlings, strict=False)))

    @rule(hold=drawing.holds, accused=st.booleans(), aside=st.booleans())
    def reap(self, hold: timedelta, *, accused: bool = True, aside: bool = False) -> None:
        limits = self.limits

        async def reaped(storage: Storage) -> Delivery | None:
            ours = [each[storage is self.postgres] for each in self.claims] if aside else []
            return await storage.mailbox.reap_limited(GROUP, limits, "node-2", hold, accused=accused, aside=ours)

        self.holding(*self.both(reaped))

    @rule()
    def freeze(self) -> None:
        self.claim(2, drawing.SECOND, None)
        self.turn(self.now + drawing.SECOND)
        self.reap(drawing.SECOND)

    @rule(age=st.integers(0, 20))
    def take(self, age: int) -> None:
        chosen = self._aged(age)
        self.holding(*self.both(lambda storage: storage.mailbox.take(chosen, GROUP, "node-3", drawing.HOUR)))

    @rule(age=st.integers(0, 20))
    def cancel_one(self, age: int) -> None:
        chosen = self._aged(age)
        self.alike(lambda storage: storage.mailbox.cancel(chosen, "obsolete"))

    @rule(key=st.sampled_from(KEYS))
    def cancel_a_key(self, key: str) -> None:
        self.alike(lambda storage: storage.mailbox.cancel(Keyed(TOPIC, key), "obsolete"))

    @rule()
    def revive(self) -> None:
        self.alike(lambda storage: storage.controls.revive(DeadSelection(), "ann", 1000))

    @rule(limit=wanted)
    def pause_claim_and_resume(self, limit: int) -> None:
        self.alike(lambda storage: storage.controls.pause(GROUP, "ann", "upgrade"))
        self.claim(limit, drawing.HOUR, None)
        self.reap(drawing.HOUR)
        self.alike(lambda storage: storage.controls.resume(GROUP, "ann"))

    @rule()
    def retire(self) -> None:
        self.alike(lambda storage: storage.controls.retire(GROUP, "ann", 1000))
        self.declare()

    def declare(self) -> None:
        declared = [Declaration(group, "shop", (TOPIC,), "old") for group in (GROUP, NEIGHBOUR)]
        self.alike(lambda storage: storage.upkeep.declare(declared))

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        self.alike(_everything)

    def _aged(self, age: int) -> UUID:
        return self._sent[-1 - age % len(self._sent)]


def _plain(ration: LimitedClaim) -> LimitedClaim:
    return ration._replace(deliveries=[alike.delivery(each) for each in ration.deliveries])


async def _everything(storage: Storage) -> dict[str, Any]:
    states: Sequence[Any] = ("live", "dead")
    return {
        state: alike.listing((await storage.ledger.browse(Filter(state=state, limit=1000))).rows) for state in states
    }
