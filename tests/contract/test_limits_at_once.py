"""Claimed, settled, reaped, cancelled and published all at once: no order is broken, and nothing is left standing."""

import asyncio
from itertools import count

import pytest

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.model.verdict import DONE, Release, Retry, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import HOLD, HOUR, NOW, draft, failure, publish, settle, siblings

pytestmark = pytest.mark.psycopg

GROUP = "mailer"
KEYS = 5
EACH = 12


class Desk:
    """What several workers have in hand together. It leaves the hand before its end is written, never after."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.in_hand: list[Delivery] = []
        self.done: dict[str | None, list[bytes]] = {}
        self.most = 0

    def take(self, deliveries: list[Delivery]) -> None:
        self.in_hand += deliveries
        self.most = max(self.most, len(self.in_hand))
        keys = [each.key for each in self.in_hand]
        if self.limits.ordered:
            assert len(keys) == len(set(keys)), "two of one key at once"

    async def end(self, door: Storage, delivery: Delivery, verdict: Verdict, owner: str) -> None:
        self.in_hand.remove(delivery)
        if verdict == DONE:
            self.done.setdefault(delivery.key, []).append(delivery.payload)
        await settle(door, delivery, verdict, owner=owner)

    async def work(self, door: Storage, number: int) -> None:
        """Take and end until all is done; some are tried again, some handed back."""
        verdicts: dict[int, Verdict] = {1: Retry(NOW, failure()), 2: Release()}
        owner, after = f"worker-{number}", None
        for turn in count(number):
            await asyncio.sleep(0)  # memory never lets others come in between
            want = ClaimRequest(GROUP, 1 + turn % 3, ALL_LEVELS)
            ration = await door.mailbox.claim_limited(want, self.limits, after, owner, HOLD)
            after = ration.after
            self.take(ration.deliveries)
            for each in ration.deliveries:
                verdict = DONE if each.attempt > 1 else verdicts.get((each.id + turn) % 4, DONE)
                await self.end(door, each, verdict, owner)
            if sum(map(len, self.done.values())) == KEYS * EACH:
                return


@pytest.mark.parametrize(
    "limits",
    [
        Limits(ordered=True, global_concurrency=4),
        Limits(ordered=True, rate=Rate(100_000, HOUR), key_rate=Rate(100_000, HOUR)),
    ],
)
async def test_whatever_others_do_meanwhile_each_key_is_handled_in_its_order(storage: Storage, limits: Limits) -> None:
    desk = Desk(limits)

    async def publishing(door: Storage) -> None:
        for place in range(EACH):
            batch = [draft(group=GROUP, key=f"k{n}", payload=f"{place:02}".encode()) for n in range(KEYS)]
            obsolete = draft(group="other", key="k0")
            await publish(door, *batch, obsolete)
            await door.mailbox.cancel(obsolete.id, "obsolete")

    async with asyncio.timeout(60), siblings(storage, 4) as (first, second, third, fourth):
        await asyncio.gather(
            publishing(first), *(desk.work(door, number) for number, door in enumerate((second, third, fourth)))
        )

    assert desk.done == {f"k{n}": [f"{place:02}".encode() for place in range(EACH)] for n in range(KEYS)}
    assert desk.most <= (limits.global_concurrency or KEYS)
