"""Workers that are to finish what they have and claim no more."""

from mainspring.model.views import Beat, Orders
from mainspring.storage.contract import Storage
from tests.contract.acting import MINUTE, NOON, turn


def beat(worker: str = "node-1") -> Beat:
    return Beat(worker, "shop", "host", 1, ("mailer",), 0, "poll")


async def drained(storage: Storage) -> dict[str, tuple[object, object]]:
    return {each.name: (each.draining_at, each.drained_by) for each in (await storage.ledger.roster()).workers}


async def test_a_worker_hears_with_its_beat_that_it_is_to_drain(storage: Storage) -> None:
    first = await storage.upkeep.beat(beat())
    other = await storage.upkeep.beat(beat("node-2"))
    told = await storage.controls.drain("node-1", "ann", "deploy")

    assert (first, other, told) == (Orders(), Orders(), True)
    assert await storage.upkeep.beat(beat()) == Orders(drain=True)
    assert await storage.upkeep.beat(beat()) == Orders(drain=True)
    assert await storage.upkeep.beat(beat("node-2")) == Orders()
    assert await drained(storage) == {"node-1": (NOON, "ann"), "node-2": (None, None)}


async def test_a_worker_that_is_resumed_hears_of_it(storage: Storage) -> None:
    await storage.upkeep.beat(beat())
    await storage.controls.drain("node-1", "ann", "")

    told = await storage.controls.undrain("node-1", "bob")

    assert told
    assert await storage.upkeep.beat(beat()) == Orders()
    assert await drained(storage) == {"node-1": (None, None)}


async def test_who_drains_already_has_done_so_since_the_first_order(storage: Storage) -> None:
    await storage.upkeep.beat(beat())
    await storage.controls.drain("node-1", "ann", "")
    turn(storage, MINUTE)

    await storage.controls.drain("node-1", "bob", "again")

    assert await drained(storage) == {"node-1": (NOON, "bob")}


async def test_draining_is_audited(storage: Storage) -> None:
    await storage.upkeep.beat(beat())

    await storage.controls.drain("node-1", "ann", "deploy")
    await storage.controls.undrain("node-1", "bob")

    notes = [(each.by, each.action, each.subject, each.detail) for each in await storage.ledger.audit(None, 10)]
    assert notes == [("bob", "undrain", "node-1", ""), ("ann", "drain", "node-1", "deploy")]


async def test_who_is_not_there_cannot_be_drained(storage: Storage) -> None:
    await storage.upkeep.beat(beat())
    await storage.upkeep.farewell("node-1")

    assert not await storage.controls.drain("node-1", "ann", "")
    assert not await storage.controls.undrain("node-1", "ann")
    assert await storage.ledger.audit(None, 10) == []
    assert await storage.upkeep.beat(beat()) == Orders(), "who comes back is a new one"
