"""Leases: one holder at a time, by the storage's clock, under an epoch that only ever grows."""

import asyncio
from datetime import timedelta

import pytest

from mainspring.model.lease import Granted, Hold, LeaseView, Renewal, Renewed
from mainspring.model.retention import Pruned, Retention
from mainspring.storage.contract import Storage
from tests.contract.acting import DAY, HOUR, MINUTE, NOON, SECOND, TICK, siblings, turn

NAME = "reports"
TTL = 30 * SECOND
PLAIN = Retention()


async def acquire(storage: Storage, holder: str = "one", name: str = NAME, ttl: timedelta = TTL) -> Granted:
    granted = await storage.leases.acquire(name, holder, ttl)
    assert granted is not None
    return granted


async def found(storage: Storage, name: str = NAME) -> LeaseView:
    view = await storage.leases.find(name)
    assert view is not None
    return view


def renewal(epoch: int, name: str = NAME, ttl: timedelta = TTL) -> Renewal:
    return Renewal(Hold(name, epoch, "one"), ttl)


@pytest.mark.memory
async def test_a_lease_is_acquired_for_its_time(storage: Storage) -> None:
    granted = await acquire(storage)

    assert granted.epoch > 0
    assert granted == Granted(granted.epoch, NOON, NOON + TTL)
    assert await found(storage) == LeaseView(NAME, "held", "one", granted.epoch, NOON, NOON, NOON + TTL)


async def test_a_lease_that_is_held_is_refused_to_everybody_else(storage: Storage) -> None:
    first = await acquire(storage)

    turn(storage, TTL - TICK)
    refused = await storage.leases.acquire(NAME, "two", HOUR)

    assert refused is None
    assert await found(storage) == LeaseView(NAME, "held", "one", first.epoch, NOON, NOON, NOON + TTL)


async def test_leases_of_other_names_are_free(storage: Storage) -> None:
    one = await acquire(storage)
    other = await acquire(storage, "two", "it's 夜")

    assert one.epoch != other.epoch
    assert (await found(storage, "it's 夜")).holder == "two"


async def test_a_lease_that_ran_out_is_acquired_under_a_greater_epoch(storage: Storage) -> None:
    first = await acquire(storage)

    turn(storage, TTL)
    second = await acquire(storage, "two")

    assert second.epoch > first.epoch
    assert second.acquired_at == NOON + TTL


async def test_an_acquire_that_is_sent_again_finds_its_own_hold(storage: Storage) -> None:
    first = await acquire(storage)

    turn(storage, 10 * SECOND)
    again = await acquire(storage)

    # From now on, because the caller counts from when it has sent the last one.
    assert again == Granted(first.epoch, NOON, NOON + 10 * SECOND + TTL)
    assert (await found(storage)).renewed_at == NOON + 10 * SECOND


async def test_an_acquire_that_is_sent_again_too_late_is_a_new_one(storage: Storage) -> None:
    first = await acquire(storage)

    turn(storage, TTL)
    again = await acquire(storage)

    assert again.epoch > first.epoch
    assert again.acquired_at == NOON + TTL


async def test_many_holds_are_renewed_at_once_each_for_its_own_time(storage: Storage) -> None:
    one = await acquire(storage, name="b")
    two = await acquire(storage, name="a", ttl=HOUR)

    turn(storage, 20 * SECOND)
    answer = await storage.leases.renew([renewal(one.epoch, "b"), renewal(two.epoch, "a", MINUTE)])

    assert answer == Renewed()
    now = NOON + 20 * SECOND
    assert await storage.leases.browse(None, 10) == [
        LeaseView("a", "held", "one", two.epoch, NOON, now, now + MINUTE),
        LeaseView("b", "held", "one", one.epoch, NOON, now, now + TTL),
    ]


async def test_nothing_is_renewed_when_nothing_is_asked_for(storage: Storage) -> None:
    assert await storage.leases.renew([]) == Renewed()


async def test_a_lease_that_ran_out_is_lost_even_if_nobody_took_it(storage: Storage) -> None:
    granted = await acquire(storage)
    before = await found(storage)

    turn(storage, TTL)
    answer = await storage.leases.renew([renewal(granted.epoch)])

    assert answer == Renewed(lost=frozenset({Hold(NAME, granted.epoch, "one")}))
    assert await storage.leases.confirm(NAME, granted.epoch, "one") is False
    assert await storage.leases.release(NAME, granted.epoch, "one") is False
    after = await found(storage)
    assert (after.state, after.holder, after.expires_at) == ("expired", "one", before.expires_at)


async def test_renewing_says_which_are_lost_and_renews_the_others(storage: Storage) -> None:
    kept = await acquire(storage, name="kept")
    ran_out = await acquire(storage, name="ran out", ttl=SECOND)
    released = await acquire(storage, name="released")
    await storage.leases.release("released", released.epoch, "one")
    taken = await acquire(storage, name="taken", ttl=SECOND)
    turn(storage, 2 * SECOND)
    newer = await acquire(storage, "two", "taken")

    holds = [
        Hold("taken", taken.epoch, "one"),
        Hold("released", released.epoch, "one"),
        Hold("ran out", ran_out.epoch, "one"),
        Hold("never there", 1, "one"),
        Hold("kept", kept.epoch, "one"),
    ]
    answer = await storage.leases.renew([Renewal(hold, TTL) for hold in holds])

    assert answer == Renewed(lost=frozenset(holds[:-1]))
    assert (await found(storage, "kept")).expires_at == NOON + 2 * SECOND + TTL
    assert await found(storage, "taken") == LeaseView(
        "taken", "held", "two", newer.epoch, NOON + 2 * SECOND, NOON + 2 * SECOND, NOON + 2 * SECOND + TTL
    )


async def test_a_released_lease_is_free_at_once(storage: Storage) -> None:
    first = await acquire(storage)

    turn(storage, SECOND)
    released = await storage.leases.release(NAME, first.epoch, "one")
    view = await found(storage)
    second = await acquire(storage, "two")

    assert released is True
    assert view == LeaseView(NAME, "free", None, first.epoch, NOON, NOON, NOON + SECOND)
    assert second.epoch > first.epoch


async def test_a_lease_is_released_once_and_under_its_own_epoch_only(storage: Storage) -> None:
    first = await acquire(storage)

    wrong = await storage.leases.release(NAME, first.epoch + 1, "one")
    stranger = await storage.leases.release("other", first.epoch, "one")
    right = await storage.leases.release(NAME, first.epoch, "one")
    again = await storage.leases.release(NAME, first.epoch, "one")

    assert (wrong, stranger, right, again) == (False, False, True, False)


async def test_an_old_holder_can_neither_renew_release_nor_confirm(storage: Storage) -> None:
    old = await acquire(storage)
    turn(storage, TTL)
    new = await acquire(storage, "two")

    renewed = await storage.leases.renew([renewal(old.epoch)])
    released = await storage.leases.release(NAME, old.epoch, "one")

    assert renewed.lost == {Hold(NAME, old.epoch, "one")}
    assert released is False
    assert await storage.leases.confirm(NAME, old.epoch, "one") is False
    assert await storage.leases.confirm(NAME, new.epoch, "two") is True
    assert (await found(storage)).holder == "two"


async def test_a_lease_is_confirmed_while_it_is_held(storage: Storage) -> None:
    granted = await acquire(storage)

    turn(storage, TTL - TICK)
    in_time = await storage.leases.confirm(NAME, granted.epoch, "one")
    await storage.leases.release(NAME, granted.epoch, "one")
    released = await storage.leases.confirm(NAME, granted.epoch, "one")

    assert (in_time, released) == (True, False)
    assert await storage.leases.confirm("never there", 1, "one") is False


async def test_of_many_that_ask_at_once_one_gets_it(storage: Storage) -> None:
    async with siblings(storage, 4) as doors:
        for _ in range(3):
            answers = await asyncio.gather(
                *(door.leases.acquire(NAME, f"{number}", TTL) for number, door in enumerate(doors))
            )
            [(holder, granted)] = [(f"{number}", answer) for number, answer in enumerate(answers) if answer is not None]

            assert await storage.leases.release(NAME, granted.epoch, holder) is True


async def test_leases_are_listed_by_name_page_by_page(storage: Storage) -> None:
    for name in ("e", "b", "a", "é", "c", "Z"):
        await acquire(storage, name=name)

    pages = [[view.name for view in await storage.leases.browse(after, 4)] for after in (None, "c", "é")]

    assert pages == [["Z", "a", "b", "c"], ["e", "é"], []]
    assert await storage.leases.find("d") is None


@pytest.mark.psycopg
async def test_an_operator_releases_a_lease_and_it_is_written_down(storage: Storage) -> None:
    granted = await acquire(storage)

    turn(storage, SECOND)
    revoked = await storage.leases.revoke(NAME, "ann", "it's stuck")

    assert revoked is True
    assert await storage.leases.renew([renewal(granted.epoch)]) == Renewed(
        lost=frozenset({Hold(NAME, granted.epoch, "one")})
    )
    assert await found(storage) == LeaseView(NAME, "free", None, granted.epoch, NOON, NOON, NOON + SECOND)
    (note,) = await storage.ledger.audit(None, 10)
    assert (note.at, note.by, note.action, note.subject) == (NOON + SECOND, "ann", "lease release", NAME)
    assert note.detail == "held by one: it's stuck"


async def test_a_lease_that_nobody_holds_cannot_be_released_by_an_operator(storage: Storage) -> None:
    granted = await acquire(storage)
    await storage.leases.release(NAME, granted.epoch, "one")
    await acquire(storage, name="ran out")
    turn(storage, TTL)

    revoked = [await storage.leases.revoke(name, "ann", "") for name in (NAME, "ran out", "never there")]

    assert revoked == [False, False, False]
    assert await storage.ledger.audit(None, 10) == []


async def test_leases_that_nobody_has_held_for_long_are_pruned(storage: Storage) -> None:
    released = await acquire(storage, name="released", ttl=DAY)
    await storage.leases.release("released", released.epoch, "one")
    await acquire(storage, name="ran out")
    await acquire(storage, name="held", ttl=100 * DAY)

    turn(storage, 7 * DAY)
    in_time = await storage.upkeep.prune(PLAIN, 10)
    turn(storage, 7 * DAY + TICK)
    first = await storage.upkeep.prune(PLAIN, 10)
    turn(storage, 7 * DAY + TTL + TICK)
    second = await storage.upkeep.prune(PLAIN, 10)

    assert (in_time, first, second) == (Pruned(), Pruned(leases=1), Pruned(leases=1))
    assert [view.name for view in await storage.leases.browse(None, 10)] == ["held"]


async def test_leases_are_pruned_in_bounded_batches_or_not_at_all(storage: Storage) -> None:
    for number in range(5):
        await acquire(storage, name=f"lease {number}", ttl=(5 - number) * SECOND)

    turn(storage, 100 * DAY)
    kept = await storage.upkeep.prune(Retention(leases=None), 2)
    removed = await storage.upkeep.prune(PLAIN, 2)
    left = [view.name for view in await storage.leases.browse(None, 10)]

    assert (kept, removed) == (Pruned(), Pruned(leases=2))
    assert removed.total == 2
    assert left == ["lease 0", "lease 1", "lease 2"]


async def test_the_epoch_grows_even_where_the_row_was_removed_in_between(storage: Storage) -> None:
    epochs = []
    for day in range(3):
        turn(storage, day * DAY)
        granted = await acquire(storage)
        epochs.append(granted.epoch)
        await storage.leases.release(NAME, granted.epoch, "one")
        turn(storage, day * DAY + TICK)
        assert await storage.upkeep.prune(Retention(leases=timedelta()), 10) == Pruned(leases=1)

    assert epochs == sorted(set(epochs))
