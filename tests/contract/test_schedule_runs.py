"""What schedules have published keeps their name, and so do its runs, with why there was a run and for when."""

import pytest

from mainspring.model.message import Draft
from mainspring.model.retention import Retention
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Retry, Verdict
from mainspring.model.views import RunTimes, RunView, Source
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    hold_one,
    publish,
    reap,
    settle,
    turn,
)
from tests.contract.scheduling import NAME, keep, look, schedule

SOURCES: dict[Source, Draft] = {
    "schedule": draft(group="mailer", schedule=NAME, at=NOON - MINUTE),
    "manual": draft(group="mailer", schedule=NAME, manual=True, at=NOON),
    "delayed": draft(group="mailer", delay=MINUTE),
    "message": draft(group="mailer", at=NOON - DAY),
}


async def of_schedule(storage: Storage, name: str = NAME) -> list[RunView]:
    return await storage.ledger.runs(None, None, 100, schedule=name)


async def run_all(storage: Storage, verdict: Verdict = DONE) -> None:
    for delivery in await claim(storage):
        await settle(storage, delivery, verdict, keep="all")


@pytest.mark.parametrize("together", [True, False])
async def test_a_run_says_why_it_was_and_for_when(storage: Storage, together: bool) -> None:
    if together:
        await publish(storage, *SOURCES.values())
    else:
        for each in SOURCES.values():
            await publish(storage, each)
    turn(storage, HOUR)
    await run_all(storage)

    runs = {run.message_id: run for run in await storage.ledger.runs(None, None, 100)}

    assert {source: runs[each.id].source for source, each in SOURCES.items()} == {source: source for source in SOURCES}
    assert [runs[each.id].schedule for each in SOURCES.values()] == [NAME, NAME, None, None]
    assert [runs[each.id].scheduled_for for each in SOURCES.values()] == [
        NOON - MINUTE,
        NOON,
        NOON + MINUTE,
        NOON - DAY,
    ]
    seen = await storage.ledger.find(SOURCES["schedule"].id)
    assert seen is not None
    assert seen.runs == (runs[SOURCES["schedule"].id],)


async def test_what_is_by_hand_but_of_no_schedule_is_by_hand(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", manual=True))
    await run_all(storage)

    (run,) = await storage.ledger.runs("mailer", None, 10)

    assert (run.source, run.schedule) == ("manual", None)


async def test_the_runs_of_a_schedule_are_paged_newest_first(storage: Storage) -> None:
    for number in range(5):
        await publish(storage, draft(group="mailer", schedule=NAME), draft(group="analytics", schedule=NAME))
        await publish(storage, draft(group="mailer", schedule="another"), draft(group="mailer"))
        turn(storage, number * MINUTE)
        await run_all(storage)
        await settle(storage, await claim_one(storage, "analytics"), DONE, keep="all")

    every = await of_schedule(storage)
    first = await storage.ledger.runs(None, None, 3, schedule=NAME)
    second = await storage.ledger.runs(None, first[-1].id, 100, schedule=NAME)
    mailed = await storage.ledger.runs("mailer", first[-1].id, 2, schedule=NAME)

    assert [run.id for run in every] == sorted((run.id for run in every), reverse=True)
    assert len(every) == 10
    assert [*first, *second] == every
    assert mailed == [run for run in second if run.group == "mailer"][:2]
    assert {run.schedule for run in every} == {NAME}
    assert await of_schedule(storage, "of no schedule") == []


@pytest.mark.psycopg
async def test_the_latest_runs_of_each_schedule_are_found(storage: Storage) -> None:
    for name in (NAME, "another", NAME, "it's 夜", NAME):
        await publish(storage, draft(group="mailer", schedule=name))
        await run_all(storage)

    recent = await storage.ledger.recent([NAME, "it's 夜", "of no schedule", NAME], 2)

    every = await of_schedule(storage)
    assert recent == {NAME: tuple(every[:2]), "it's 夜": tuple(await of_schedule(storage, "it's 夜"))}
    assert (len(every), [run.id for run in every]) == (3, sorted((run.id for run in every), reverse=True))
    assert await storage.ledger.recent([], 5) == {}


@pytest.mark.psycopg
async def test_the_latest_failures_are_found_whatever_they_are_of(storage: Storage) -> None:
    for number, topic in enumerate(("a", "b", "a", "a")):
        turn(storage, number * MINUTE)
        delivery = await hold_one(storage, one=draft(topic, group="mailer"))
        verdict = Retry(HOUR, failure(f"error {number}")) if number % 2 else Bury(failure(f"error {number}"))
        await settle(storage, delivery, verdict)
    await settle(storage, await hold_one(storage, one=draft("a", group="mailer")), DONE, keep="all")

    async def failed(limit: int) -> list[tuple[str | None, str]]:
        return [(run.error, run.status) for run in await storage.ledger.failures(limit)]

    every = [("error 3", "failed"), ("error 2", "dead"), ("error 1", "failed"), ("error 0", "dead")]
    assert await failed(10) == every
    assert [await failed(limit) for limit in (1, 2, 3)] == [every[:1], every[:2], every[:3]]


@pytest.mark.psycopg
async def test_a_page_of_failures_begins_after_a_run_among_those_of_one_instant(storage: Storage) -> None:
    for verdict in (Bury(failure()), Retry(HOUR, failure()), Retry(HOUR, failure()), Bury(failure())):
        await settle(storage, await hold_one(storage, one=draft("a", group="mailer")), verdict)

    every = await storage.ledger.failures(10)
    walked = await storage.ledger.failures(1)
    while page := await storage.ledger.failures(1, (walked[-1].finished_at, walked[-1].id)):
        walked += page

    assert (len(every), walked) == (4, every)


async def test_every_attempt_is_of_the_schedule(storage: Storage) -> None:
    delivery = await hold_one(storage, one=draft(group="mailer", schedule=NAME, at=NOON))
    await settle(storage, delivery, Retry(MINUTE, failure()))
    turn(storage, HOUR)

    await run_all(storage)

    assert [(run.status, run.source, run.scheduled_for) for run in await of_schedule(storage)] == [
        ("done", "schedule", NOON),
        ("failed", "schedule", NOON),
    ]


async def test_a_buried_and_revived_occurrence_is_still_of_its_schedule(storage: Storage) -> None:
    await bury_one(storage, one=draft(group="mailer", schedule=NAME, manual=True, at=NOON))
    turn(storage, HOUR)
    await storage.controls.revive(DeadSelection(), "ann", 10)

    await run_all(storage)

    assert [(run.status, run.source, run.scheduled_for) for run in await of_schedule(storage)] == [
        ("done", "replay", NOON),
        ("dead", "manual", NOON),
    ]


async def test_what_replaces_a_dead_letter_is_a_replay(storage: Storage) -> None:
    buried = await bury_one(storage, one=draft(group="mailer", schedule=NAME))
    successor = draft(group="mailer", schedule=NAME, manual=True)
    await storage.controls.replace(buried.message_id, "mailer", "ann", successor)

    await run_all(storage)

    assert [(run.message_id, run.source) for run in await of_schedule(storage)] == [
        (successor.id, "replay"),
        (buried.message_id, "schedule"),
    ]


async def test_a_parked_and_rerouted_occurrence_is_still_of_its_schedule(storage: Storage) -> None:
    await publish(storage, draft(schedule=NAME, at=NOON), draft(schedule=NAME, manual=True, at=NOON))
    await publish(storage, draft(schedule=NAME, at=NOON))
    turn(storage, HOUR)
    await declare(storage, "mailer")
    await storage.upkeep.reroute(10)
    unfinished: list[int] = []
    await keep(storage, schedule())
    await look(storage, lambda due, _now: unfinished.append(due.unfinished))

    await run_all(storage)

    assert unfinished == [3]
    assert sorted((run.source, run.scheduled_for) for run in await of_schedule(storage)) == [
        ("manual", NOON),
        ("schedule", NOON),
        ("schedule", NOON),
    ]


@pytest.mark.parametrize("ending", ["cancelled", "cancelled while parked", "retired", "given up"])
async def test_an_end_without_a_run_is_of_the_schedule_too(storage: Storage, ending: str) -> None:
    one = draft(schedule=NAME, at=NOON)
    if ending in ("cancelled", "retired"):
        await declare(storage, "mailer")
    await publish(storage, one)

    turn(storage, 30 * DAY)
    match ending:
        case "retired":
            await storage.controls.retire("mailer", "ann", 10)
        case "given up":
            await storage.upkeep.prune(Retention(parked=DAY), 10)
        case _:
            await storage.mailbox.cancel(one.id, "obsolete")

    (run,) = await of_schedule(storage)
    assert (run.message_id, run.status) == (one.id, "cancelled")
    assert (run.source, run.scheduled_for) == ("schedule", NOON)


async def test_a_reaped_run_is_of_the_schedule(storage: Storage) -> None:
    await hold_one(storage, one=draft(group="mailer", schedule=NAME, at=NOON))
    turn(storage, HOUR)
    reaped = await reap(storage)
    assert reaped is not None

    await settle(storage, reaped, Bury(failure(kind="poison")))

    run, lost = await of_schedule(storage)
    assert (run.status, run.kind, run.source) == ("dead", "poison", "schedule")
    assert (lost.status, lost.kind, lost.source, lost.scheduled_for) == ("lost", None, "schedule", NOON)


@pytest.mark.psycopg
async def test_the_lost_run_of_a_revived_one_is_a_replay(storage: Storage) -> None:
    held = await hold_one(storage, one=draft(group="mailer", schedule=NAME, at=NOON))
    await settle(storage, held, Bury(failure()))
    await storage.controls.revive(DeadSelection(), "ann", 10)
    await claim_one(storage)

    turn(storage, HOUR)
    assert await reap(storage) is not None

    assert {(run.status, run.source) for run in await of_schedule(storage)} == {
        ("dead", "schedule"),
        ("lost", "replay"),
    }


@pytest.mark.psycopg
async def test_how_long_the_latest_runs_took_is_found(storage: Storage) -> None:
    verdicts: list[Verdict] = [*[DONE] * 98, Retry(DAY, failure()), Bury(failure())]
    for number, verdict in enumerate(verdicts, start=1):
        await publish(storage, draft(group="mailer", schedule=NAME))
        await settle(storage, await claim_one(storage), verdict, keep="all", took=number * SECOND)
    await publish(storage, draft(group="mailer", schedule=NAME), draft(group="mailer", schedule="another"))
    for delivery in await claim(storage):
        await settle(storage, delivery, Cancel(), keep="all", took=HOUR)

    found = await storage.ledger.run_times(NAME, 1000)
    last = await storage.ledger.run_times(NAME, 1)

    assert found == RunTimes(100, 50 * SECOND, 95 * SECOND, 99 * SECOND, 100 * SECOND)
    assert last == RunTimes(1, *[100 * SECOND] * 4)
    assert await storage.ledger.run_times("another", 1000) is None
