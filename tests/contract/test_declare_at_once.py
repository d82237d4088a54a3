"""Two versions of one app at once: what one has declared, the other does not take away (invariant 26)."""

from datetime import timedelta

import pytest

from mainspring.model.retention import Retention
from mainspring.model.views import Declaration, GroupView
from mainspring.model.worker import SILENT_AFTER, Declarer, DeclareResult
from mainspring.storage.contract import Storage
from tests.contract.acting import MINUTE, NOON, claim, draft, ids, publish, turn

pytestmark = pytest.mark.psycopg

ROUND = timedelta(seconds=30)
OLD, NEW = Declarer("shop/old", "1"), Declarer("shop/new", "2")


def wish(*patterns: str, version: int = 0, handler: str = "shop:mail") -> Declaration:
    return Declaration("mail", "shop", patterns, handler, {"of": handler}, version)


def turn_on(storage: Storage, by: timedelta) -> None:
    storage.now = NOON + by if storage.now is None else storage.now + by


def again(by: Declarer) -> Declarer:
    return Declarer(by.worker, by.start_id, again=True)


async def group(storage: Storage) -> GroupView:
    (found,) = (await storage.ledger.roster()).groups
    return found


async def patterns(storage: Storage) -> set[str]:
    return set((await group(storage)).patterns)


async def rounds(storage: Storage, time: timedelta, *each: tuple[Declaration, Declarer]) -> list[DeclareResult]:
    """Let time pass, in which these declare the same again, as workers do."""
    answers: list[DeclareResult] = []
    for _ in range(int(time / ROUND)):
        turn_on(storage, ROUND)
        answers += [await storage.upkeep.declare([declaration], again(by)) for declaration, by in each]
    return answers


@pytest.mark.parametrize(("older", "newer"), [(0, 0), (1, 2), (0, 7)])
async def test_neither_start_takes_away_what_the_other_has_declared(storage: Storage, older: int, newer: int) -> None:
    old, new = wish("a", "b", version=older), wish("b", "c", version=newer)

    await storage.upkeep.declare([old], OLD)
    await storage.upkeep.declare([new], NEW)
    after_the_new = await patterns(storage)
    await storage.upkeep.declare([old], Declarer("shop/old again", "3"))

    assert after_the_new == await patterns(storage) == {"a", "b", "c"}
    messages = [draft(topic) for topic in ("a", "b", "c")]
    await publish(storage, *messages)
    assert ids(await claim(storage, "mail")) == [each.id for each in messages]


@pytest.mark.parametrize("version", [0, 5])
async def test_what_the_old_one_alone_wanted_goes_in_the_next_round_after_its_farewell(
    storage: Storage, version: int
) -> None:
    old, new = wish("a", "b"), wish("b", "c", version=version)
    await storage.upkeep.declare([old], OLD)
    await storage.upkeep.declare([new], NEW)

    before = await storage.upkeep.declare([new], again(NEW))
    await storage.upkeep.deregister(OLD.worker, OLD.start_id)
    after = await storage.upkeep.declare([new], again(NEW))

    assert before == DeclareResult()
    assert after == DeclareResult(removed=(("mail", "a"),))
    assert await patterns(storage) == {"b", "c"}


async def test_an_older_version_removes_nothing_though_the_newer_one_is_gone(storage: Storage) -> None:
    old, new = wish("a", version=1), wish("a", "b", version=2)
    await storage.upkeep.declare([old], OLD)
    await storage.upkeep.declare([new], NEW)
    await storage.upkeep.deregister(NEW.worker, NEW.start_id)

    await rounds(storage, SILENT_AFTER + MINUTE, (old, OLD))
    await storage.upkeep.declare([old])

    assert await patterns(storage) == {"a", "b"}


async def test_handler_and_options_are_those_of_the_newest_version(storage: Storage) -> None:
    await storage.upkeep.declare([wish("a", version=2, handler="shop:new")], NEW)
    await storage.upkeep.declare([wish("a", version=1, handler="shop:old")], OLD)
    of_the_newest = await group(storage)
    await storage.upkeep.declare([wish("a", version=2, handler="shop:newer")], Declarer("shop/third", "3"))

    assert (of_the_newest.handler, of_the_newest.options) == ("shop:new", {"of": "shop:new"})
    assert (await group(storage)).handler == "shop:newer"


async def test_two_of_one_version_do_not_describe_the_group_by_turns(storage: Storage) -> None:
    one, other = wish("a", handler="shop:one"), wish("a", handler="shop:other")
    await storage.upkeep.declare([one], OLD)
    await storage.upkeep.declare([other], NEW)

    await rounds(storage, MINUTE, (one, OLD), (other, NEW))

    assert (await group(storage)).handler == "shop:other"


async def test_a_worker_that_was_killed_keeps_its_subscriptions_for_a_while_only(storage: Storage) -> None:
    new = wish("b")
    await storage.upkeep.declare([wish("a", "b")], OLD)
    await storage.upkeep.declare([new], NEW)

    early = await rounds(storage, SILENT_AFTER - ROUND, (new, NEW))
    kept = await patterns(storage)
    late = await rounds(storage, 3 * ROUND, (new, NEW))

    assert (set(early), kept) == ({DeclareResult()}, {"a", "b"})
    assert [each.removed for each in late if each.removed] == [(("mail", "a"),)]
    assert await patterns(storage) == {"b"}


async def test_after_an_outage_in_which_all_were_silent_nothing_is_removed(storage: Storage) -> None:
    old, new = wish("a", "b"), wish("b", "c")
    await storage.upkeep.declare([old], OLD)
    await storage.upkeep.declare([new], NEW)
    await rounds(storage, 2 * SILENT_AFTER, (old, OLD), (new, NEW))

    turn_on(storage, timedelta(hours=3))
    first = await storage.upkeep.declare([new], again(NEW))
    started = await storage.upkeep.declare([new], Declarer("shop/third", "3"))
    by_hand = await storage.upkeep.declare([new])
    await rounds(storage, 2 * SILENT_AFTER, (new, NEW), (old, OLD))

    assert first == started == by_hand == DeclareResult()
    assert await patterns(storage) == {"a", "b", "c"}


async def test_when_all_workers_are_down_nothing_is_removed(storage: Storage) -> None:
    await storage.upkeep.declare([wish("a", "b")], OLD)
    await storage.upkeep.deregister(OLD.worker, OLD.start_id)

    turn(storage, timedelta(days=3))
    await storage.upkeep.prune(Retention(), 1000)

    assert await patterns(storage) == {"a", "b"}


async def test_what_is_missing_is_put_back_and_said(storage: Storage) -> None:
    both = wish("a", "b")
    await storage.upkeep.declare([both], NEW)
    await storage.upkeep.deregister(NEW.worker, NEW.start_id)  # as by a process of the same name that is no more
    await storage.upkeep.declare([wish("a")])

    standing = await storage.upkeep.declare([both], again(NEW))

    assert standing == DeclareResult(added=(("mail", "b"),))
    assert await patterns(storage) == {"a", "b"}
    assert await storage.upkeep.declare([both], again(NEW)) == DeclareResult()


async def test_a_group_that_was_retired_stays_so_until_the_next_start(storage: Storage) -> None:
    await storage.upkeep.declare([wish("a")], NEW)
    await storage.controls.retire("mail", "ann", 100)

    standing = await storage.upkeep.declare([wish("a")], again(NEW))
    groups = (await storage.ledger.roster()).groups
    await storage.upkeep.declare([wish("a")], Declarer("shop/next", "3"))

    assert (standing, groups) == (DeclareResult(retired=("mail",)), ())
    assert await patterns(storage) == {"a"}


async def test_by_hand_it_is_declared_before_the_workers_of_the_new_version_start(storage: Storage) -> None:
    old, new = wish("a"), wish("a", "b")
    await storage.upkeep.declare([old], OLD)

    await storage.upkeep.declare([new])
    await rounds(storage, 2 * SILENT_AFTER, (old, OLD))
    await storage.upkeep.declare([old], Declarer("shop/old again", "3"))

    assert await patterns(storage) == {"a", "b"}


async def test_by_hand_what_no_worker_has_declared_is_removed_at_once(storage: Storage) -> None:
    await storage.upkeep.declare([wish("a", "b", "c")])
    await storage.upkeep.declare([wish("b")], OLD)

    standing = await storage.upkeep.declare([wish("c")])

    assert standing == DeclareResult(removed=(("mail", "a"),))
    assert await patterns(storage) == {"b", "c"}


async def test_a_farewell_of_one_start_leaves_what_another_of_the_same_name_has_declared(storage: Storage) -> None:
    first, second = Declarer("shop/node", "1"), Declarer("shop/node", "2")
    await storage.upkeep.declare([wish("a")], first)
    await storage.upkeep.declare([wish("a", "b")], second)
    await storage.upkeep.deregister("shop/node", "1")

    await storage.upkeep.declare([wish("a")], NEW)

    assert await patterns(storage) == {"a", "b"}


async def test_a_group_that_only_the_other_version_has_is_left_alone(storage: Storage) -> None:
    other = Declaration("audit", "shop", ("#",), "shop:audit", {}, 1)
    await storage.upkeep.declare([wish("a", version=1), other], OLD)
    await storage.upkeep.declare([wish("a", version=2)], NEW)
    await storage.upkeep.deregister(OLD.worker, OLD.start_id)

    await rounds(storage, 2 * SILENT_AFTER, (wish("a", version=2), NEW))

    assert {each.name: each.patterns for each in (await storage.ledger.roster()).groups} == {
        "mail": ("a",),
        "audit": ("#",),
    }


@pytest.mark.parametrize("workers", [timedelta(0), timedelta(seconds=10), SILENT_AFTER])
async def test_what_a_live_worker_has_declared_is_kept_however_soon_workers_are_forgotten(
    storage: Storage, workers: timedelta
) -> None:
    old, new = wish("a"), wish("a", "b")
    await storage.upkeep.declare([new], NEW)
    await storage.upkeep.declare([old], OLD)
    turn_on(storage, timedelta(seconds=15))
    await storage.upkeep.declare([new], again(NEW))

    await storage.upkeep.prune(Retention(workers=workers), 100, chore="workers")
    standing = await storage.upkeep.declare([old], again(OLD))

    assert standing == DeclareResult()
    assert await patterns(storage) == {"a", "b"}


@pytest.mark.parametrize(
    ("workers", "kept"), [(timedelta(0), 2 * SILENT_AFTER), (timedelta(hours=24), timedelta(hours=24))]
)
async def test_what_a_silent_process_has_declared_is_forgotten_in_the_end(
    storage: Storage, workers: timedelta, kept: timedelta
) -> None:
    await storage.upkeep.declare([wish("a", "b")], OLD)
    answers = []

    for by in (kept, timedelta(microseconds=1)):
        turn_on(storage, by)
        await storage.upkeep.prune(Retention(workers=workers), 100, chore="workers")
        answers.append(await storage.upkeep.declare([wish("a")]))

    assert answers == [DeclareResult(), DeclareResult(removed=(("mail", "b"),))]
