"""Fan-out: slices are planned once under a lease, and cursors never go back."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mainspring.model.fanout import (
    EVERYTHING,
    Batch,
    Candidate,
    CursorKey,
    CursorTally,
    CursorView,
    FanoutPolicy,
    FanoutPolicyView,
    Planning,
    SeekResult,
    identity,
    read_identity,
    slice_id,
    subject,
)
from mainspring.model.lease import Hold
from mainspring.model.message import Published
from mainspring.model.retention import Retention
from mainspring.model.schedule import Note
from mainspring.model.verdict import DONE, Bury
from mainspring.storage.contract import Storage
from tests.contract.acting import DAY, HOUR, MINUTE, NOON, SECOND, claim, declare, draft, failure, settle, turn

SLICES = "fanout:etl:payments"
NOTE = Note("ann", "fanout edit", "every=1h")


def key(shard: str, work: str = "payments") -> CursorKey:
    return CursorKey("etl", work, shard)


async def held(storage: Storage, ttl: timedelta = DAY) -> Hold:
    granted = await storage.leases.acquire(SLICES, "coordinator", ttl)
    assert granted is not None
    return Hold(SLICES, granted.epoch, "coordinator")


class Chooser:
    """Takes every candidate but those left out, and remembers what it was shown."""

    def __init__(self, window: datetime, *but: str) -> None:
        self._window = window
        self._but = but
        self.shown: dict[str, Candidate] = {}

    def __call__(self, candidates: Sequence[Candidate]) -> list[Planning]:
        self.shown = {each.shard: each for each in candidates}
        return [self._planned(each) for each in candidates if each.shard not in self._but]

    def _planned(self, each: Candidate) -> Planning:
        id = slice_id(identity(key(each.shard, each.work), self._window))
        return Planning(each.work, each.shard, draft(SLICES, id=id))


async def plan(
    storage: Storage, hold: Hold, window: datetime, *shards: str, but: Sequence[str] = ()
) -> tuple[Published | None, dict[str, Candidate]]:
    choose = Chooser(window, *but)
    batch = Batch("etl", window, [("payments", shard) for shard in shards], hold)
    return await storage.fanouts.plan(batch, choose), choose.shown


@pytest.mark.memory
async def test_what_is_chosen_is_published_and_noted_as_planned(storage: Storage) -> None:
    await declare(storage, "load", SLICES)

    published, shown = await plan(storage, await held(storage), NOON, "a", "b", "夜|c", but=["b"])

    ids = {shard: slice_id(identity(key(shard), NOON)) for shard in ("a", "夜|c")}
    assert published == Published(frozenset(ids.values()))
    assert shown == {shard: Candidate("payments", shard) for shard in ("a", "b", "夜|c")}
    assert {each.message_id for each in await claim(storage, "load")} == set(ids.values())
    assert await storage.fanouts.cursors("etl", "payments", None, 10) == [
        CursorView("etl", "payments", shard, None, None, NOON, NOON) for shard in ("a", "夜|c")
    ]


async def test_a_window_that_is_planned_again_stores_nothing_twice(storage: Storage) -> None:
    await declare(storage, "load", SLICES)
    hold = await held(storage)
    await plan(storage, hold, NOON, "a")

    again, shown = await plan(storage, hold, NOON, "a", "b")

    assert again == Published(frozenset([slice_id(identity(key("b"), NOON))]))
    assert shown["a"] == Candidate("payments", "a", planned=NOON, unfinished=True)
    assert len(await claim(storage, "load")) == 2


async def test_who_has_lost_the_lease_plans_nothing(storage: Storage) -> None:
    hold = await held(storage, 30 * SECOND)
    turn(storage, MINUTE)

    expired, shown = await plan(storage, hold, NOON, "a")
    successor = await held(storage)
    fenced, _ = await plan(storage, hold, NOON, "a")

    assert (expired, fenced, shown) == (None, None, {})
    assert await storage.fanouts.cursors("etl", "payments", None, 10) == []
    assert (await plan(storage, successor, NOON, "a"))[0] is not None


async def test_a_slice_is_unfinished_until_it_is_done_dead_or_cancelled(storage: Storage) -> None:
    await declare(storage, "load", SLICES)
    hold = await held(storage)
    await plan(storage, hold, NOON, "cancelled", "dead", "done", "ready", "running")
    by_id = {slice_id(identity(key(shard), NOON)): shard for shard in ("cancelled", "dead", "done", "ready")}
    await storage.mailbox.cancel(slice_id(identity(key("cancelled"), NOON)), "asked")
    for delivery in await claim(storage, "load"):
        if by_id.get(delivery.message_id) == "done":
            await settle(storage, delivery, DONE)
        elif by_id.get(delivery.message_id) == "dead":
            await settle(storage, delivery, Bury(failure()))

    _, shown = await plan(storage, hold, NOON + HOUR, *by_id.values(), "running", "new", but=["ready", "running"])

    assert {shard: each.unfinished for shard, each in shown.items()} == {
        "cancelled": False,
        "dead": False,
        "done": False,
        "ready": True,
        "running": True,
        "new": False,
    }


async def test_no_shard_waits_for_a_group_that_only_looks_on(storage: Storage) -> None:
    await declare(storage, "load", SLICES)
    await declare(storage, "onlooker", SLICES)
    hold = await held(storage)
    await plan(storage, hold, NOON, "dead", "running")
    for delivery in await claim(storage, "load"):
        if delivery.message_id == slice_id(identity(key("dead"), NOON)):
            await settle(storage, delivery, Bury(failure()))

    unfinished = []
    for consumers in ({"payments": "load"}, {"refunds": "load"}, {"payments": "onlooker"}):
        choose = Chooser(NOON + HOUR, "dead", "running")
        named = [("payments", "dead"), ("payments", "running")]
        await storage.fanouts.plan(Batch("etl", NOON + HOUR, named, hold, consumers), choose)
        unfinished.append({shard for shard, each in choose.shown.items() if each.unfinished})

    assert unfinished == [{"running"}, {"dead", "running"}, {"dead", "running"}]


async def test_who_has_asked_for_it_by_hand_is_noted_with_it(storage: Storage) -> None:
    hold, note = await held(storage), Note("ann", "fanout run")
    batch = Batch("etl", NOON, [("payments", "a")], hold, note=note, subject="etl|payments")

    await storage.fanouts.plan(batch, Chooser(NOON))
    await storage.fanouts.plan(replace(batch, hold=hold._replace(epoch=hold.epoch + 1)), Chooser(NOON))

    told = [(each.by, each.action, each.subject) for each in await storage.ledger.audit(None, 10)]
    assert told == [("ann", "fanout run", "etl|payments")]


async def test_a_slice_that_nobody_subscribes_to_is_unfinished(storage: Storage) -> None:
    hold = await held(storage)
    await plan(storage, hold, NOON, "a")

    _, shown = await plan(storage, hold, NOON + HOUR, "a", but=["a"])

    assert shown["a"] == Candidate("payments", "a", planned=NOON, unfinished=True)


async def test_a_cursor_only_goes_on(storage: Storage) -> None:
    advance = storage.fanouts.advance
    await plan(storage, await held(storage), NOON + HOUR, "a")
    turn(storage, MINUTE)

    answers = [
        await advance(key("a"), NOON),
        await advance(key("a"), NOON),
        await advance(key("a"), NOON - HOUR),
        await advance(key("a"), NOON + HOUR),
    ]

    assert answers == [True, False, False, True]
    later = NOON + MINUTE
    assert await storage.fanouts.cursors("etl", "payments", None, 10) == [
        CursorView("etl", "payments", "a", NOON + HOUR, later, NOON + HOUR, NOON)
    ]
    _, shown = await plan(storage, await held(storage), NOON + 2 * HOUR, "a")
    assert shown["a"].completed == NOON + HOUR


async def test_a_cursor_goes_no_further_than_what_was_planned(storage: Storage) -> None:
    await plan(storage, await held(storage), NOON, "a")

    answers = [
        await storage.fanouts.advance(key("a"), NOON + HOUR),
        await storage.fanouts.advance(key("never planned"), NOON),
        await storage.fanouts.advance(key("a"), NOON),
    ]

    assert answers == [False, False, True]
    assert [each.shard for each in await storage.fanouts.cursors("etl", "payments", None, 10)] == ["a"]


async def test_a_planned_window_never_goes_back(storage: Storage) -> None:
    hold = await held(storage)
    await plan(storage, hold, NOON + HOUR, "a")

    await plan(storage, hold, NOON, "a")

    [cursor] = await storage.fanouts.cursors("etl", "payments", None, 10)
    assert cursor.planned == NOON + HOUR


@pytest.mark.psycopg
async def test_a_cursor_is_moved_by_hand_back_and_ahead_and_audited(storage: Storage) -> None:
    note = Note("ann", "fanout seek", "to noon")
    hold = await held(storage)
    await plan(storage, hold, NOON + HOUR, "a", "b", "c")
    for shard in ("a", "b", "c"):
        await storage.fanouts.advance(key(shard), NOON + HOUR)
    turn(storage, MINUTE)

    back = await storage.fanouts.seek("etl", "payments", ["b", "a", "gone"], NOON, None, note, "etl|payments")
    ahead = await storage.fanouts.seek("etl", "payments", ["b"], NOON + 2 * HOUR, None, None, "")
    start = await storage.fanouts.seek("etl", "payments", ["c"], None, None, None, "")
    nothing = await storage.fanouts.seek("etl", "refunds", ["a"], NOON, None, note, "etl|refunds")

    assert (back, ahead, start, nothing) == (SeekResult(2), SeekResult(1), SeekResult(1), SeekResult())
    moved, at = NOON + 2 * HOUR, NOON + MINUTE
    assert await storage.fanouts.cursors("etl", "payments", None, 10) == [
        CursorView("etl", "payments", "a", NOON, at, NOON, at),
        CursorView("etl", "payments", "b", moved, at, moved, at),
        CursorView("etl", "payments", "c", None, None, None, None),
    ]
    [line] = await storage.ledger.audit(None, 10)
    assert (line.by, line.action, line.subject, line.detail) == ("ann", "fanout seek", "etl|payments", "to noon")
    _, shown = await plan(storage, hold, NOON + HOUR, "a", "c", but=["a", "c"])
    assert [each.completed for each in shown.values()] == [NOON, None]


async def test_a_cursor_whose_slice_is_unfinished_is_not_moved(storage: Storage) -> None:
    await declare(storage, "load", SLICES)
    await declare(storage, "looks on", SLICES)
    await plan(storage, await held(storage), NOON, "a")

    refused = await storage.fanouts.seek("etl", "payments", ["a"], None, "load", None, "")
    [running] = await claim(storage, "load")
    await settle(storage, running, Bury(failure("no")))
    moved = await storage.fanouts.seek("etl", "payments", ["a"], None, "load", None, "")

    assert (refused, moved) == (SeekResult(unfinished=1), SeekResult(1))


async def test_a_slice_from_before_a_move_back_leaves_the_cursor(storage: Storage) -> None:
    await plan(storage, await held(storage), NOON + HOUR, "a")
    await storage.fanouts.advance(key("a"), NOON + HOUR)
    await storage.fanouts.seek("etl", "payments", ["a"], NOON, None, None, "")

    advanced = await storage.fanouts.advance(key("a"), NOON + HOUR)

    assert not advanced


async def test_the_policy_of_a_shard_goes_before_that_of_its_work(storage: Storage) -> None:
    fanouts = storage.fanouts
    await fanouts.edit("etl", "payments", EVERYTHING, FanoutPolicy(every=HOUR, jitter=MINUTE), NOTE)
    await fanouts.edit("etl", "payments", "a", FanoutPolicy(enabled=False), NOTE)
    set_now = await fanouts.edit("etl", "payments", "a", FanoutPolicy(every=timedelta()), NOTE)
    await fanouts.edit("etl", "refunds", EVERYTHING, FanoutPolicy(enabled=False), NOTE)

    _, shown = await plan(storage, await held(storage), NOON, "a", "b")

    assert set_now == FanoutPolicy(enabled=False, every=timedelta())
    assert shown["a"].policy == FanoutPolicy(enabled=False, every=timedelta(), jitter=MINUTE)
    assert shown["b"].policy == FanoutPolicy(every=HOUR, jitter=MINUTE)


@pytest.mark.psycopg
async def test_policies_are_listed_reset_and_audited(storage: Storage) -> None:
    fanouts = storage.fanouts
    await fanouts.edit("etl", "payments", "b", FanoutPolicy(jitter=30 * DAY), NOTE)
    await fanouts.edit("etl", "payments", EVERYTHING, FanoutPolicy(every=HOUR), NOTE)

    listed = await fanouts.policies("etl", "payments", None, 10)
    assert listed == [
        FanoutPolicyView("etl", "payments", None, FanoutPolicy(every=HOUR), NOON, "ann"),
        FanoutPolicyView("etl", "payments", "b", FanoutPolicy(jitter=30 * DAY), NOON, "ann"),
    ]
    assert await fanouts.policies("etl", "payments", EVERYTHING, 10) == listed[1:]
    assert await fanouts.policies("etl", "payments", None, 1) == listed[:1]
    assert await fanouts.reset("etl", "payments", "b", Note("bob", "fanout reset"))
    assert not await fanouts.reset("etl", "payments", "b", Note("bob", "fanout reset"))
    assert [(each.by, each.action, each.subject, each.detail) for each in await storage.ledger.audit(None, 10)] == [
        ("bob", "fanout reset", "etl|payments|b", ""),
        ("ann", "fanout edit", "etl|payments", "every=1h"),
        ("ann", "fanout edit", "etl|payments|b", "every=1h"),
    ]


@pytest.mark.psycopg
async def test_cursors_are_counted_and_listed_page_by_page(storage: Storage) -> None:
    fanouts = storage.fanouts
    hold = await held(storage)
    await plan(storage, hold, NOON, "a", "b", "c")
    for shard in ("a", "b"):
        await fanouts.advance(key(shard), NOON)
    await plan(storage, hold, NOON + HOUR, "a", "b")
    await fanouts.advance(key("a"), NOON + HOUR)
    await fanouts.plan(Batch("etl", NOON - HOUR, [("refunds", "z")], hold), Chooser(NOON - HOUR))
    await fanouts.advance(key("z", "refunds"), NOON - HOUR)

    pages = [
        [each.shard for each in await fanouts.cursors("etl", "payments", None, 2)],
        [each.shard for each in await fanouts.cursors("etl", "payments", "b", 2)],
        [each.shard for each in await fanouts.cursors("etl", "payments", None, 9, behind=True)],
    ]

    assert pages == [["a", "b"], ["c"], ["b", "c"]]
    payments = CursorTally("etl", "payments", 3, NOON + HOUR, completed=1, behind=2, oldest=NOON)
    refunds = CursorTally("etl", "refunds", 1, NOON - HOUR, completed=1, behind=0, oldest=NOON - HOUR)
    assert await fanouts.tally() == [payments, refunds]
    assert await fanouts.tally("etl", "refunds") == [refunds]
    assert await fanouts.tally("other") == []


@pytest.mark.psycopg
async def test_cursors_of_shards_that_are_gone_are_pruned_a_few_at_a_time(storage: Storage) -> None:
    await plan(storage, await held(storage), NOON, "a", "b", "c", "named", "on its way")
    for shard in ("a", "b", "c", "named"):
        await storage.fanouts.advance(key(shard), NOON)
    turn(storage, 10 * DAY)
    await plan(storage, await held(storage), NOON + DAY, "named", "on its way", but=["named", "on its way"])
    turn(storage, 405 * DAY)

    removed = [(await storage.upkeep.prune(Retention(), 2)).cursors for _ in range(3)]

    assert removed == [2, 1, 0]
    assert [each.shard for each in await storage.fanouts.cursors("etl", "payments", None, 9)] == ["named", "on its way"]
    turn(storage, 411 * DAY)
    assert (await storage.upkeep.prune(Retention(cursors=None), 2)).cursors == 0


def test_an_identity_is_read_as_it_was_written() -> None:
    for shard in ("a", "a|b", "||", "夜"):
        assert read_identity(identity(key(shard), NOON + SECOND)) == (key(shard), NOON + SECOND)


def test_a_note_says_what_it_is_about() -> None:
    assert [subject("etl", *rest) for rest in ((None, None), ("a", ""), ("a", "s"), (None, "s"))] == [
        "etl",
        "etl|a",
        "etl|a|s",
        "etl|*|s",
    ]
