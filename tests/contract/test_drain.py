"""Workers that are to finish what they have and claim no more."""

import pytest

from mainspring.model.retention import Retention
from mainspring.model.views import Beat, Orders, WorkerView
from mainspring.storage.contract import Storage
from tests.contract.acting import DAY, HOUR, MINUTE, NOON, turn


def beat(
    worker: str = "node-1", start_id: str = "", number: int = 0, *, draining: bool = False, in_hand: int = 0
) -> Beat:
    return Beat(
        worker,
        "shop",
        "host",
        1,
        ("mailer",),
        in_hand,
        "poll",
        start_id=start_id,
        number=number,
        draining=draining,
    )


async def seen(storage: Storage) -> WorkerView:
    (view,) = (await storage.ledger.roster()).workers
    return view


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


async def test_why_a_worker_drains_is_known_until_it_is_resumed_or_starts_again(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="a", number=1))

    async def reason() -> str | None:
        return (await seen(storage)).drain_reason

    unasked = await reason()
    await storage.controls.drain("node-1", "ann", "deploy 7")
    asked = await reason()
    await storage.controls.resume_worker("node-1", "ann")
    resumed = await reason()
    await storage.controls.drain("node-1", "bob", "")
    unexplained = await reason()
    await storage.controls.drain("node-1", "bob", "disk full")
    await storage.upkeep.beat(beat(start_id="b", number=1))

    assert (unasked, asked, resumed, unexplained, await reason()) == (None, "deploy 7", None, "", None)


async def test_a_worker_that_is_resumed_hears_of_it(storage: Storage) -> None:
    await storage.upkeep.beat(beat())
    await storage.controls.drain("node-1", "ann", "")

    told = await storage.controls.resume_worker("node-1", "bob")

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
    await storage.controls.resume_worker("node-1", "bob")

    notes = [(each.by, each.action, each.subject, each.detail) for each in await storage.ledger.audit(None, 10)]
    assert notes == [("bob", "worker resume", "node-1", ""), ("ann", "drain", "node-1", "deploy")]


async def test_who_is_not_there_cannot_be_drained(storage: Storage) -> None:
    await storage.upkeep.beat(beat())
    await storage.upkeep.deregister("node-1")

    assert not await storage.controls.drain("node-1", "ann", "")
    assert not await storage.controls.resume_worker("node-1", "ann")
    assert await storage.ledger.audit(None, 10) == []
    assert await storage.upkeep.beat(beat()) == Orders(), "who comes back is a new one"


async def test_a_worker_that_is_started_anew_begins_undrained(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1))
    await storage.controls.drain("node-1", "ann", "")
    before = await storage.upkeep.beat(beat(start_id="first", number=2))
    await storage.upkeep.beat(beat(start_id="first", number=3, draining=True))

    turn(storage, MINUTE)
    after = await storage.upkeep.beat(beat(start_id="second", number=1))

    assert (before, after) == (Orders(drain=True), Orders())
    assert await drained(storage) == {"node-1": (None, None)}
    view = await seen(storage)
    assert (view.started_at, view.condition) == (NOON + MINUTE, "active")


async def test_a_worker_that_was_silent_for_long_stays_drained(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1))
    await storage.controls.drain("node-1", "ann", "")

    turn(storage, 5 * HOUR)
    heard = await storage.upkeep.beat(beat(start_id="first", number=2))

    assert heard == Orders(drain=True)
    assert (await seen(storage)).started_at == NOON


@pytest.mark.psycopg
async def test_a_worker_that_the_roster_has_forgotten_stays_drained(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1))
    await storage.controls.drain("node-1", "ann", "")
    await storage.upkeep.beat(beat(start_id="first", number=2, draining=True))

    turn(storage, 2 * DAY)
    pruned = await storage.upkeep.prune(Retention(), 10)
    heard = await storage.upkeep.beat(beat(start_id="first", number=3, draining=True))

    assert (pruned.workers, heard) == (1, Orders(drain=True))
    assert await drained(storage) == {"node-1": (NOON + 2 * DAY, None)}


async def test_of_two_at_once_under_one_name_neither_undrains_the_other(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1))
    await storage.upkeep.beat(beat(start_id="second", number=1))

    await storage.controls.drain("node-1", "ann", "")

    assert await storage.upkeep.beat(beat(start_id="first", number=2)) == Orders(drain=True)
    assert await storage.upkeep.beat(beat(start_id="second", number=2)) == Orders(drain=True)


async def test_a_first_beat_that_is_sent_again_undrains_nobody(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1))
    await storage.controls.drain("node-1", "ann", "")

    assert await storage.upkeep.beat(beat(start_id="first", number=1)) == Orders(drain=True)


async def test_a_drain_is_asked_for_until_the_worker_says_that_it_drains(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1, in_hand=2))
    conditions = [(await seen(storage)).condition]
    await storage.controls.drain("node-1", "ann", "")
    for number, (draining, in_hand) in enumerate([(False, 2), (True, 2), (True, 0)], 2):
        conditions.append((await seen(storage)).condition)
        await storage.upkeep.beat(beat(start_id="first", number=number, draining=draining, in_hand=in_hand))
    conditions.append((await seen(storage)).condition)

    # The second beat is of one that does not hear, as a worker of an older release.
    assert conditions == ["active", "drain asked", "drain asked", "draining", "drained"]


async def test_who_is_resumed_counts_as_active_at_once(storage: Storage) -> None:
    await storage.upkeep.beat(beat(start_id="first", number=1, draining=True))

    await storage.controls.resume_worker("node-1", "bob")

    assert (await seen(storage)).condition == "active"
