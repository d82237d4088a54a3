"""A lease confirmed in the transaction of a caller, through every adapter: what is stale never commits."""

from uuid import uuid4

import pytest

from mainspring import Lease, SyncLease
from mainspring.app.lease.lease import held
from mainspring.model.errors import LeaseLost
from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import Caller, Kind, one_per_adapter
from tests.integration.handles.conftest import Shop


async def confirm(shop: Shop, lease: SyncLease, caller: Caller) -> None:
    if caller.blocking:
        lease.confirm(tx=caller.tx)
    else:
        await Lease(held(lease._target), shop.app.leases._operations).confirm(tx=caller.tx)


@pytest.mark.parametrize("kind", one_per_adapter(), ids=str)
def test_what_is_written_under_a_lease_commits_while_it_is_held_and_never_after(kind: Kind, shop: Shop) -> None:
    key = uuid4().hex
    lease = shop.app.sync.leases.acquire(key)
    assert lease is not None

    async def write() -> bool:
        async with kind.open(shop.address) as caller:
            try:
                async with caller.transaction():
                    await caller.publish(shop.app, key)
                    await confirm(shop, lease, caller)
            except LeaseLost:
                return False
            return True

    in_time = kind.run(write())
    written = shop.count(key)
    shop.app.sync.leases.release(key, by="ann")
    other = shop.app.sync.leases.acquire(key)

    too_late = kind.run(write())

    assert (in_time, too_late) == (True, False)
    assert other is not None
    assert other.epoch > lease.epoch
    assert shop.count(key) == written == (1, 1)
    assert lease.lost
    other.release()
