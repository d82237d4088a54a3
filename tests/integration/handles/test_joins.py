"""Joins in the caller's transaction, through every adapter: all of it, or nothing."""

from uuid import uuid4

import pytest

from mainspring import JoinReceipt, Receipt
from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import Caller, Kind, Undone, one_per_adapter
from tests.integration.handles.conftest import Shop


async def pack(order: str | None) -> None: ...


async def both(caller: Caller, shop: Shop, key: str) -> tuple[JoinReceipt, Receipt]:
    """A join of two, and a chain."""
    consumer = shop.app.consumer("orders.packed", group="packing")(pack)
    members = [(consumer, "a"), (consumer, "ä%s")]
    if caller.blocking:
        joined = shop.app.sync.join(members, then=consumer, key=key, tx=caller.tx)
        return joined, consumer.sync.send("c", then=consumer, key=key, tx=caller.tx)
    joined = await shop.app.join(members, then=consumer, key=key, tx=caller.tx)
    return joined, await consumer.send("c", then=consumer, key=key, tx=caller.tx)


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_a_join_commits_and_rolls_back_with_the_transaction(kind: Kind, shop: Shop) -> None:
    kept, undone = uuid4().hex, uuid4().hex

    async def play() -> tuple[JoinReceipt, Receipt]:
        async with kind.open(shop.address) as caller:
            try:
                async with caller.transaction():
                    await both(caller, shop, undone)
                    raise Undone
            except Undone:
                pass
            async with caller.transaction():
                return await both(caller, shop, kept)

    joined, sent = kind.run(play())

    assert (shop.count(undone), shop.count(kept)) == ((0, 0), (3, 3))
    assert (len(joined.members), sent.status) == (2, "stored")
    assert shop.pending(joined.id) == 2
