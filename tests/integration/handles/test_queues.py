"""Items of a queue settled in the transaction of a caller, through every adapter: with its effects or not at all."""

from typing import Any
from uuid import uuid4

import pytest

from mainspring import Item, SettledItems
from mainspring.app.queue.queue import SyncQueue
from mainspring.model.errors import ClaimLost
from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import Caller, Kind, Undone, one_per_adapter
from tests.integration.handles.conftest import Shop


class Processor:
    """A queue of its own, with one message in it per item."""

    def __init__(self, shop: Shop) -> None:
        self.key = uuid4().hex
        self.shop = shop
        self.queue: SyncQueue[Any] = shop.app.sync.queue(f"queue-{self.key}", f"work.{self.key}")
        self.queue.declare()

    def claimed(self, **options: Any) -> Item[Any]:
        self.shop.app.sync.publish(f"work.{self.key}", 1)
        [item] = self.queue.claim(**options)
        return item

    def states(self, item: Item[Any]) -> list[str]:
        """Where its message stands, for everybody to see."""
        shown = self.shop.app.sync.messages.get(item.message_id)
        return [] if shown is None else [each.state for each in shown.deliveries]

    async def settle(self, caller: Caller, verb: str, item: Item[Any], **options: Any) -> SettledItems[Any]:
        """With an effect of its own, a message under the key."""
        await caller.publish(self.shop.app, self.key)
        if caller.blocking:
            answer: SettledItems[Any] = getattr(self.queue, verb)(item, tx=caller.tx, **options)
            return answer
        awaited: SettledItems[Any] = await getattr(self.shop.app.queue(self.queue.group), verb)(
            item, tx=caller.tx, **options
        )
        return awaited


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_what_is_rolled_back_was_not_settled_and_what_commits_was(kind: Kind, shop: Shop) -> None:
    processor = Processor(shop)
    done, abandoned, failed = (processor.claimed() for _ in range(3))

    async def undone(caller: Caller) -> None:
        async with caller.transaction():
            await processor.settle(caller, "ack", done)
            await processor.settle(caller, "abandon", abandoned)
            await processor.settle(caller, "fail", failed, error="no", retry="none")
            raise Undone

    async def play() -> list[SettledItems[Any]]:
        async with kind.open(shop.address) as caller:
            with pytest.raises(Undone):
                await undone(caller)
            async with caller.transaction():
                return [
                    await processor.settle(caller, "ack", done, output="ä%s"),
                    await processor.settle(caller, "abandon", abandoned, delay="1h"),
                    await processor.settle(caller, "fail", failed, error=ValueError("ä%s"), retry="none"),
                ]

    answers = kind.run(play())

    assert [answer.settled for answer in answers] == [(done,), (abandoned,), (failed,)]
    assert [processor.states(each) for each in (done, abandoned, failed)] == [[], ["scheduled"], ["dead"]]
    assert shop.count(processor.key) == (3, 3)


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_a_lost_claim_rolls_back_what_was_done_for_it(kind: Kind, shop: Shop) -> None:
    processor = Processor(shop)
    late, later = processor.claimed(hold="1ms"), processor.claimed(hold="1ms")
    taken = [reaped(processor), reaped(processor)]
    processor.queue.ack(taken[1])

    async def play() -> None:
        async with kind.open(shop.address) as caller:
            for item in (late, later):
                with pytest.raises(ClaimLost, match="roll this transaction back"):
                    async with caller.transaction():
                        await processor.settle(caller, "ack", item)

    kind.run(play())

    assert shop.count(processor.key) == (0, 0)
    assert (processor.states(late), processor.states(later)) == (["running"], [])


def reaped(processor: Processor) -> Item[Any]:
    # It is handed out again under another claim, so that the next suspect may be had.
    while (item := processor.queue.reap()) is None:
        pass  # a millisecond at the most
    processor.queue.abandon(item, delay="0s")
    again: list[Item[Any]] = []
    while not again:
        again = processor.queue.claim()
    return again[0]
