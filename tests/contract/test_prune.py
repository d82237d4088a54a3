"""Pruning: what is over goes after its time, in bounded batches, and nothing else does."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mainspring.model.retention import Pruned, Retention
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Retry, Snooze
from mainspring.model.views import Beat, GroupRuns, RunView
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    TICK,
    bury_one,
    claim_one,
    counts,
    declare,
    draft,
    failure,
    found,
    hold_one,
    listed,
    publish,
    settle,
    statuses,
    turn,
)
from tests.contract.scheduling import keep, schedule

PLAIN = Retention(repeats=HOUR)


async def prune_at(storage: Storage, after: timedelta, retention: Retention = PLAIN) -> Pruned:
    turn(storage, after)
    return await storage.upkeep.prune(retention, 1000)


async def test_there_is_nothing_to_prune_in_an_empty_storage(storage: Storage) -> None:
    pruned = await storage.upkeep.prune(PLAIN, 100)

    assert pruned == Pruned()
    assert pruned.total == 0


async def test_runs_that_succeeded_were_snoozed_or_cancelled_go_after_their_time(storage: Storage) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), Snooze(NOW), keep="all")
    await settle(storage, await claim_one(storage), DONE, keep="all")
    await settle(storage, await hold_one(storage), Cancel("obsolete"))

    in_time = await prune_at(storage, 7 * DAY)
    over = await prune_at(storage, 7 * DAY + TICK)

    assert in_time.runs == 0
    assert over.runs == 3
    assert await storage.ledger.runs(None, None, 10) == []


async def test_runs_that_failed_go_after_their_own_time(storage: Storage) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), Retry(NOW, failure()))
    await settle(storage, await claim_one(storage), DONE, keep="all")
    buried = await bury_one(storage)
    await storage.controls.discard(DeadSelection(), "ann", 10)

    week = await prune_at(storage, 7 * DAY + TICK)
    left = await statuses(storage, message.id), await statuses(storage, buried.message_id)
    month = await prune_at(storage, 30 * DAY)
    over = await prune_at(storage, 30 * DAY + TICK)

    assert (week.runs, month.runs, over.runs) == (1, 0, 2)
    assert left == (["failed"], ["dead"])


async def test_runs_of_what_is_not_over_are_kept_whatever_their_age(storage: Storage) -> None:
    waiting = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=waiting), Snooze(NOW), keep="all")
    await settle(storage, await claim_one(storage), Retry(NOW, failure()))
    dead = await hold_one(storage, "graveyard")
    await settle(storage, dead, Retry(NOW, failure()))
    await settle(storage, await claim_one(storage, "graveyard"), Bury(failure()))

    pruned = await prune_at(storage, 1000 * DAY)

    assert pruned == Pruned()
    assert await statuses(storage, waiting.id) == ["snoozed", "failed"]
    assert await statuses(storage, dead.message_id) == ["failed", "dead"]


async def test_a_group_that_is_not_over_does_not_keep_the_runs_of_another(storage: Storage) -> None:
    await declare(storage, "fine")
    await declare(storage, "waiting")
    message = draft()
    await publish(storage, message)
    await settle(storage, await claim_one(storage, "fine"), DONE, keep="all")

    pruned = await prune_at(storage, 8 * DAY)

    assert pruned == Pruned(runs=1)
    assert [view.group for view in (await found(storage, message.id)).deliveries] == ["waiting"]


async def test_dead_letters_are_kept_for_ever_unless_a_time_is_given(storage: Storage) -> None:
    buried = await bury_one(storage)

    for_ever = await prune_at(storage, 1000 * DAY)
    in_time = await prune_at(storage, 1000 * DAY, Retention(dead=1000 * DAY))
    over = await prune_at(storage, 1000 * DAY + TICK, Retention(dead=1000 * DAY))

    assert (for_ever.dead, in_time.dead, over.dead) == (0, 0, 1)
    assert await listed(storage, "dead") == []
    assert await storage.ledger.find(buried.message_id) is not None


async def test_parked_messages_expire_and_are_counted_for_ever(storage: Storage) -> None:
    message = draft("unknown.topic", delay=DAY)
    await publish(storage, message)

    in_time = await prune_at(storage, 7 * DAY)
    over = await prune_at(storage, 7 * DAY + TICK)
    tally = await storage.ledger.tally()

    assert (in_time.parked, over.parked) == (0, 1)
    assert (tally.parked, tally.expired_parked) == (0, 1)
    (run,) = (await found(storage, message.id)).runs
    assert (run.status, run.group, run.topic) == ("cancelled", "", "unknown.topic")
    assert run.error == "no group subscribed to its topic in time"
    assert run.started_at == run.finished_at == NOON + 7 * DAY + TICK
    assert run.node is None


async def test_parked_messages_that_expire_later_are_added_up(storage: Storage) -> None:
    for day in range(3):
        turn(storage, day * DAY)
        await publish(storage, draft(), draft())

    for day in (8, 9, 10):
        await prune_at(storage, day * DAY)

    assert (await storage.ledger.tally()).expired_parked == 6


async def test_workers_that_fell_silent_go_and_their_work_stays_counted(storage: Storage) -> None:
    await declare(storage, "mailer")
    beat = Beat("node-1", "shop", "host", 1, ("mailer",), 0, "poll", {"mailer": GroupRuns(5, 2)})
    await storage.upkeep.beat(beat)

    in_time = await prune_at(storage, 24 * HOUR)
    over = await prune_at(storage, 24 * HOUR + TICK)

    assert (in_time.workers, over.workers) == (0, 1)
    assert (await storage.ledger.roster()).workers == ()
    assert ((await counts(storage)).handled, (await counts(storage)).failed) == (5, 2)


async def test_a_worker_that_beats_stays(storage: Storage) -> None:
    beat = Beat("node-1", "shop", "host", 1, ("mailer",), 0, "poll")
    await storage.upkeep.beat(beat)
    turn(storage, 20 * HOUR)
    await storage.upkeep.beat(beat)

    pruned = await prune_at(storage, 30 * HOUR)

    assert pruned.workers == 0
    assert len((await storage.ledger.roster()).workers) == 1


async def test_the_audit_goes_after_its_time(storage: Storage) -> None:
    await declare(storage, "mailer")
    await storage.controls.pause("mailer", "ann", "old")
    turn(storage, MINUTE)
    await storage.controls.pause("mailer", "ann", "new")

    in_time = await prune_at(storage, 365 * DAY)
    over = await prune_at(storage, 365 * DAY + TICK)

    assert (in_time.audit, over.audit) == (0, 1)
    assert [each.detail for each in await storage.ledger.audit(None, 10)] == ["new"]


async def test_none_keeps_it_for_ever(storage: Storage) -> None:
    await settle(storage, await hold_one(storage), DONE, keep="all")
    await bury_one(storage)
    await publish(storage, draft())
    await declare(storage, "mailer")
    await storage.controls.pause("mailer", "ann", "old")
    for_ever = Retention(done=None, failures=None, dead=None, parked=None, audit=None)

    pruned = await prune_at(storage, 5000 * DAY, for_ever)

    assert pruned == Pruned()


async def test_the_limit_bounds_each_kind(storage: Storage) -> None:
    await declare(storage, "paused")
    for number in range(3):
        await settle(storage, await hold_one(storage), DONE, keep="all")
        await bury_one(storage)
        await publish(storage, draft("unknown.topic"))
        await storage.upkeep.beat(Beat(f"node-{number}", "shop", "host", number, (), 0, "poll"))
        await storage.controls.pause("paused", "ann", str(number))
    brief = Retention(done=DAY, failures=None, dead=DAY, parked=DAY, audit=DAY)

    turn(storage, 10 * DAY)
    first = await storage.upkeep.prune(brief, 2)
    second = await storage.upkeep.prune(brief, 2)

    assert first == Pruned(runs=2, dead=2, parked=2, workers=2, audit=2)
    assert second == Pruned(runs=1, dead=1, parked=1, workers=1, audit=1)
    assert (first.total, second.total) == (10, 5)


async def test_a_schedule_made_at_run_time_goes_when_it_is_over(storage: Storage) -> None:
    long_ago = NOON - 8 * DAY
    over = schedule("over", origin="api", next_at=None, base_at=long_ago)
    await keep(
        storage,
        over,
        replace(over, name="just over", base_at=NOON - 7 * DAY),
        replace(over, name="to come", next_at=NOON),
        replace(over, name="paused", paused_at=long_ago),
        replace(over, name="code", origin="code"),
    )

    kept = await storage.upkeep.prune(Retention(done=None), 10)
    pruned = await storage.upkeep.prune(Retention(), 10)

    assert (kept, pruned) == (Pruned(), Pruned(schedules=1))
    assert [row.name for row in (await storage.timetable.read()).schedules] == [
        "code",
        "just over",
        "paused",
        "to come",
    ]


@pytest.mark.psycopg
async def test_runs_made_elsewhere_are_recorded_as_they_were(storage: Storage) -> None:
    run = RunView(
        id=0,
        message_id=draft().id,
        group="reports",
        topic="report",
        attempt=1,
        status="failed",
        started_at=NOON - HOUR,
        finished_at=NOON - HOUR + SECOND,
        node="node-7",
        kind="error",
        error="ValueError: no",
        traceback="Traceback: …",
        source="offline",
        schedule="report",
        scheduled_for=NOON - HOUR,
    )
    later = replace(run, message_id=draft().id, status="done", kind=None, error=None, traceback=None, output="42 rows")

    await storage.upkeep.record([run, later])
    await storage.upkeep.record([])

    recorded = await storage.ledger.runs(None, None, 10, "report")
    assert [replace(each, id=0) for each in recorded] == [later, run]


async def test_of_one_topic_only_its_runs_dead_letters_and_parked_messages_go(storage: Storage) -> None:
    for topic in ("orders.placed", "orders.paid"):
        await publish(storage, draft(topic, group="mailer"), draft(topic, group="mailer"), draft(topic))
        await settle(storage, await claim_one(storage), DONE, keep="all")
        await settle(storage, await claim_one(storage), Bury(failure()), keep="none")
    at_once = Retention(done=NOW, failures=NOW, dead=NOW, parked=NOW, workers=NOW, audit=NOW)
    turn(storage, SECOND)

    pruned = await storage.upkeep.prune(at_once, 100, "orders.paid")

    assert (pruned.messages, pruned.dead, pruned.parked) == (0, 1, 1)
    runs = await storage.ledger.runs(None, None, 100)
    assert {run.topic for run in runs if run.status == "done"} == {"orders.placed"}
    assert len(await listed(storage, "dead")) == len(await listed(storage, "parked")) == 1
