"""The inbox: a message of somebody else's is let in once, and only whoever was let in last says what became of it."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from mainspring.model.inbox import Admission, AdmitStatus, InboxFilter, InboxKey, InboxStatus, InboxView
from mainspring.model.retention import Pruned, Retention
from mainspring.storage.contract import Storage
from tests.contract.acting import DAY, HOUR, MINUTE, NOON, SECOND, TICK, turn
from tests.faults.report import Report

KEY = InboxKey("shop", "stripe", "evt_1")
CALLERS = 100
PLAIN = InboxFilter()


async def admit(
    storage: Storage,
    key: InboxKey = KEY,
    hash: bytes | None = None,
    status: AdmitStatus = "processing",
    retry_after: timedelta | None = None,
) -> Admission:
    return await storage.inbox.admit(key, hash, status, retry_after)


async def listed(storage: Storage, wanted: InboxFilter = PLAIN) -> list[str]:
    return [each.message_id for each in await storage.inbox.browse(wanted)]


async def stands(storage: Storage, key: InboxKey = KEY) -> InboxView:
    (view,) = await storage.inbox.browse(InboxFilter(group=key.group, source=key.source, message_id=key.message_id))
    return view


def answer(admitted: bool, status: InboxStatus, attempts: int) -> Admission:
    return Admission(*KEY, admitted=admitted, status=status, attempts=attempts, first_seen_at=NOON)


@pytest.mark.memory
async def test_the_first_is_let_in_and_the_second_is_not(storage: Storage) -> None:
    first = await admit(storage)
    turn(storage, MINUTE)
    second = await admit(storage)

    assert first == answer(True, "processing", 1)
    assert second == answer(False, "processing", 1)
    assert (bool(first), bool(second)) == (True, False)
    assert await stands(storage) == InboxView(*KEY, "processing", 1, NOON, NOON)


async def test_what_ends_with_a_transaction_is_done_at_once(storage: Storage) -> None:
    assert await admit(storage, status="done") == answer(True, "done", 1)
    assert await admit(storage, status="done") == answer(False, "done", 1)
    assert await admit(storage, retry_after=SECOND) == answer(False, "done", 1)


@pytest.mark.parametrize(
    "other",
    [KEY._replace(group="crm"), KEY._replace(source="paypal"), KEY._replace(message_id="evt_2")],
    ids=["group", "source", "message id"],
)
async def test_another_group_source_or_id_is_another_message(storage: Storage, other: InboxKey) -> None:
    await admit(storage)

    assert await admit(storage, other)


async def test_parts_of_a_key_do_not_run_into_each_other(storage: Storage) -> None:
    assert await admit(storage, InboxKey("a", "b", "c"))
    assert await admit(storage, InboxKey("a", "bc", ""))
    assert await admit(storage, InboxKey("ab", "", "c"))


async def test_one_of_a_hundred_at_once_is_let_in(storage: Storage, request: pytest.FixtureRequest) -> None:
    storage.now = None
    answers = await asyncio.gather(*(admit(storage) for _ in range(CALLERS)))

    Report(request.node)(
        f"inbox, {CALLERS} at once, {request.node.callspec.params['blank']}", f"admitted={sum(map(bool, answers))}"
    )
    assert sum(map(bool, answers)) == 1
    assert {(each.status, each.attempts) for each in answers} == {("processing", 1)}


async def test_one_of_a_hundred_is_let_in_again_after_a_failure(storage: Storage) -> None:
    await admit(storage)
    await storage.inbox.mark(KEY, 1, "seen", "boom")

    answers = await asyncio.gather(*(admit(storage) for _ in range(CALLERS)))

    assert sum(map(bool, answers)) == 1
    assert {each.attempts for each in answers} == {2}


async def test_one_of_a_hundred_takes_over_from_who_died(storage: Storage) -> None:
    await admit(storage)
    turn(storage, HOUR)

    answers = await asyncio.gather(*(admit(storage, retry_after=HOUR) for _ in range(CALLERS)))

    assert sum(map(bool, answers)) == 1
    assert {each.attempts for each in answers} == {2}


# What became of it


async def test_what_is_done_stays_done(storage: Storage) -> None:
    await admit(storage)
    turn(storage, MINUTE)

    assert await storage.inbox.mark(KEY, 1, "done", None)
    assert await admit(storage, retry_after=SECOND) == answer(False, "done", 1)
    assert await stands(storage) == InboxView(*KEY, "done", 1, NOON, NOON + MINUTE)


async def test_what_failed_is_let_in_again_and_the_attempts_grow(storage: Storage) -> None:
    await admit(storage)
    assert await storage.inbox.mark(KEY, 1, "seen", "no money")
    failed = await stands(storage)
    turn(storage, MINUTE)

    assert (failed.status, failed.error) == ("seen", "no money")
    assert await admit(storage) == answer(True, "processing", 2)
    assert not await admit(storage)
    assert await storage.inbox.mark(KEY, 2, "done", None)
    assert replace(await stands(storage), changed_at=NOON) == InboxView(*KEY, "done", 2, NOON, NOON)


async def test_what_was_given_up_is_never_let_in_again(storage: Storage) -> None:
    await admit(storage)

    assert await storage.inbox.mark(KEY, 1, "dead", "unreadable \x00 \ud800")
    turn(storage, 1000 * DAY)
    assert await admit(storage, retry_after=SECOND) == answer(False, "dead", 1)
    assert "unreadable" in str((await stands(storage)).error)


async def test_somebody_is_at_it_for_ever_unless_told_otherwise(storage: Storage) -> None:
    await admit(storage)
    turn(storage, 1000 * DAY)

    assert not await admit(storage)


async def test_who_has_been_at_it_for_too_long_is_followed_by_another(storage: Storage) -> None:
    await admit(storage)

    turn(storage, 10 * MINUTE - TICK)
    assert not await admit(storage, retry_after=10 * MINUTE)
    turn(storage, 10 * MINUTE)
    assert await admit(storage, retry_after=10 * MINUTE) == answer(True, "processing", 2)
    assert not await admit(storage, retry_after=10 * MINUTE)
    turn(storage, 20 * MINUTE)
    assert await admit(storage, retry_after=10 * MINUTE) == answer(True, "processing", 3)


@pytest.mark.parametrize("fate", ["done", "seen", "dead"])
async def test_who_was_frozen_cannot_overrule_who_came_later(storage: Storage, fate: str) -> None:
    await admit(storage)
    turn(storage, HOUR)
    await admit(storage, retry_after=MINUTE)
    before = await stands(storage)

    assert not await storage.inbox.mark(KEY, 1, fate, "late")  # type: ignore[arg-type]
    assert await stands(storage) == before
    assert await storage.inbox.mark(KEY, 2, "done", None)
    assert not await storage.inbox.mark(KEY, 1, fate, "later still")  # type: ignore[arg-type]
    assert (await stands(storage)).status == "done"


async def test_the_same_said_again_is_true_and_changes_nothing(storage: Storage) -> None:
    await admit(storage)
    await storage.inbox.mark(KEY, 1, "done", None)
    before = await stands(storage)
    turn(storage, MINUTE)

    assert await storage.inbox.mark(KEY, 1, "done", None)
    assert await stands(storage) == before


async def test_one_verdict_is_not_replaced_by_another(storage: Storage) -> None:
    await admit(storage)
    await storage.inbox.mark(KEY, 1, "done", None)

    assert not await storage.inbox.mark(KEY, 1, "seen", "boom")
    assert not await storage.inbox.mark(KEY, 1, "dead", "boom")
    assert (await stands(storage)).status == "done"


async def test_nobody_can_say_what_became_of_a_message_that_never_came(storage: Storage) -> None:
    assert not await storage.inbox.mark(KEY, 1, "done", None)
    assert await storage.inbox.browse(PLAIN) == []


# Hashes


async def test_another_hash_is_a_mismatch_told_once_and_not_let_in(storage: Storage) -> None:
    await admit(storage, hash=b"one")
    await storage.inbox.mark(KEY, 1, "seen", "boom")
    turn(storage, MINUTE)

    first, second = await admit(storage, hash=b"two"), await admit(storage, hash=b"three")

    assert first == replace(answer(False, "seen", 1), mismatch=True, first_mismatch=True)
    assert second == replace(answer(False, "seen", 1), mismatch=True)
    seen = await stands(storage)
    assert (seen.hash, seen.mismatched_at) == (b"one", NOON + MINUTE)
    assert await admit(storage, hash=b"one")


async def test_one_of_a_hundred_hears_first_of_a_mismatch(storage: Storage) -> None:
    await admit(storage, hash=b"one")

    answers = await asyncio.gather(*(admit(storage, hash=b"two") for _ in range(CALLERS)))

    assert sum(each.first_mismatch for each in answers) == 1
    assert all(each.mismatch and not each for each in answers)


async def test_a_message_without_a_hash_is_taken_on_trust(storage: Storage) -> None:
    await admit(storage)
    assert not (await admit(storage, hash=b"one")).mismatch
    await storage.inbox.mark(KEY, 1, "seen", None)

    assert await admit(storage, hash=b"two")
    assert not (await admit(storage)).mismatch
    assert (await admit(storage, hash=b"one")).mismatch


# Operators


@pytest.mark.parametrize("fate", ["processing", "dead"])
async def test_what_an_operator_releases_is_let_in_again(storage: Storage, fate: str) -> None:
    await admit(storage)
    if fate == "dead":
        await storage.inbox.mark(KEY, 1, "dead", "boom")
    turn(storage, MINUTE)

    assert await storage.inbox.release(KEY, "ann")
    assert (await stands(storage)).changed_at == NOON + MINUTE
    assert not await storage.inbox.mark(KEY, 1, "done", None)
    assert await admit(storage) == answer(True, "processing", 2)
    (note,) = await storage.ledger.audit(None, 10)
    assert (note.at, note.by, note.action) == (NOON + MINUTE, "ann", "inbox release")
    assert (note.subject, note.detail) == ("evt_1", "stripe in shop")


@pytest.mark.psycopg
async def test_what_is_done_failed_or_unknown_is_not_released(storage: Storage) -> None:
    other = KEY._replace(message_id="evt_2")
    await admit(storage)
    await storage.inbox.mark(KEY, 1, "done", None)
    await admit(storage, other)
    await storage.inbox.mark(other, 1, "seen", "boom")

    for key in (KEY, other, KEY._replace(source="paypal")):
        assert not await storage.inbox.release(key, "ann")
    assert (await stands(storage)).status == "done"
    assert await storage.ledger.audit(None, 10) == []


@pytest.mark.psycopg
async def test_messages_are_listed_by_what_is_asked_the_latest_change_first(storage: Storage) -> None:
    for number, status in enumerate(("processing", "done", "dead", "seen"), 1):
        turn(storage, number * HOUR)
        key = InboxKey("shop" if number % 2 else "crm", "stripe" if number < 3 else "paypal", f"evt_{number}")
        await admit(storage, key)
        if status != "processing":
            await storage.inbox.mark(key, 1, status, None)  # type: ignore[arg-type]

    assert await listed(storage) == ["evt_4", "evt_3", "evt_2", "evt_1"]
    assert await listed(storage, InboxFilter(limit=2)) == ["evt_4", "evt_3"]
    assert await listed(storage, InboxFilter(before=NOON + 3 * HOUR)) == ["evt_2", "evt_1"]
    assert await listed(storage, InboxFilter(group="shop")) == ["evt_3", "evt_1"]
    assert await listed(storage, InboxFilter(source="stripe")) == ["evt_2", "evt_1"]
    assert await listed(storage, InboxFilter(status="dead")) == ["evt_3"]
    assert await listed(storage, InboxFilter(status="processing", group="crm")) == []
    assert await listed(storage, InboxFilter(message_id="evt_2")) == ["evt_2"]
    assert await listed(storage, InboxFilter(message_id="evt_2", status="seen")) == []
    assert await listed(storage, InboxFilter(message_id="evt_1", stuck=3 * HOUR)) == []


@pytest.mark.psycopg
async def test_a_page_begins_after_a_key_among_those_of_one_instant(storage: Storage) -> None:
    keys = [InboxKey(group, source, "evt_1") for source in ("paypal", "stripe") for group in ("crm", "shop")]
    for key in keys:
        await admit(storage, key, status="processing" if key.group == "crm" else "done")

    for number, key in enumerate(keys, 1):
        for id in (None, "evt_1"):
            later = await storage.inbox.browse(InboxFilter(message_id=id, before=NOON, past=key))
            assert [InboxKey(each.group, each.source, each.message_id) for each in later] == keys[number:]


async def test_only_what_somebody_is_at_is_ever_stuck(storage: Storage) -> None:
    done, late = KEY._replace(message_id="evt_2"), KEY._replace(message_id="evt_3")
    await admit(storage)
    await admit(storage, done, status="done")
    turn(storage, TICK)
    await admit(storage, late)
    turn(storage, HOUR + TICK)

    assert await listed(storage, InboxFilter(stuck=HOUR)) == ["evt_1"]
    assert await listed(storage, InboxFilter(stuck=HOUR, message_id="evt_1")) == ["evt_1"]
    assert await listed(storage, InboxFilter(stuck=MINUTE)) == ["evt_3", "evt_1"]


async def test_groups_are_listed_together_or_one_alone(storage: Storage) -> None:
    for group in ("shop", "shop-2", "sho"):
        await admit(storage, InboxKey(group, "stripe", f"of {group}"))

    assert await listed(storage) == ["of sho", "of shop", "of shop-2"]
    assert await listed(storage, InboxFilter(group="shop")) == ["of shop"]
    assert await listed(storage, InboxFilter(group="shop", message_id="of shop-2")) == []


async def test_the_longest_names_there_may_be_are_told_apart(storage: Storage) -> None:
    long = InboxKey("n" * 33 + "🎉" * 200, "日" * 200, "🦊" * 200)

    assert await admit(storage, long, b"\xff" * 128)
    assert not await admit(storage, long, b"\xff" * 128)
    assert (await admit(storage, long, b"\xff" * 127)).mismatch
    assert await admit(storage, long._replace(message_id="🦊" * 199 + "🐺"))


# Pruning


async def prune_at(storage: Storage, after: timedelta, retention: Retention | None = None, limit: int = 1000) -> Pruned:
    turn(storage, after)
    return await storage.upkeep.prune(retention or Retention(), limit)


async def test_what_is_over_is_forgotten_after_its_time(storage: Storage) -> None:
    for status in ("done", "seen", "dead", "processing"):
        key = KEY._replace(message_id=status)
        await admit(storage, key)
        if status != "processing":
            await storage.inbox.mark(key, 1, status, None)  # type: ignore[arg-type]

    in_time = await prune_at(storage, 30 * DAY)
    over = await prune_at(storage, 30 * DAY + TICK)

    assert (in_time.inbox, over.inbox, over.total) == (0, 3, 3)
    assert await listed(storage) == ["processing"]
    assert await admit(storage, KEY._replace(message_id="done"))


async def test_the_time_counts_from_the_last_change(storage: Storage) -> None:
    await admit(storage)
    turn(storage, 10 * DAY)
    await storage.inbox.mark(KEY, 1, "done", None)

    assert (await prune_at(storage, 40 * DAY)).inbox == 0
    assert (await prune_at(storage, 40 * DAY + TICK)).inbox == 1


async def test_the_oldest_are_forgotten_first_and_not_too_many_at_once(storage: Storage) -> None:
    for number in range(5):
        turn(storage, number * SECOND)
        await admit(storage, KEY._replace(message_id=f"evt_{number}"), status="done")

    first = await prune_at(storage, 31 * DAY, limit=2)

    assert first.inbox == 2
    assert await listed(storage) == ["evt_4", "evt_3", "evt_2"]
    assert [(await prune_at(storage, 31 * DAY, limit=2)).inbox for _ in range(3)] == [2, 1, 0]


async def test_the_inbox_may_be_kept_for_ever_and_is_of_no_topic(storage: Storage) -> None:
    await admit(storage, status="done")
    turn(storage, 1000 * DAY)

    assert (await storage.upkeep.prune(Retention(inbox=None), 1000)).inbox == 0
    assert (await storage.upkeep.prune(Retention(), 1000, "orders.placed")).inbox == 0
    assert (await storage.upkeep.prune(Retention(inbox=DAY), 1000)).inbox == 1
