"""What a tick publishes with an occurrence, and what it asks about its group."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest

from mainspring.model.join import Join, as_members, follower_id, is_member
from mainspring.model.message import Priority
from mainspring.model.schedule import QUEUE_EMPTY, Due, Occurrence, ScheduleAdvance
from mainspring.model.verdict import DONE, Bury, Settlement, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, NOON, WORKER, claim, claim_one, declare, draft, failure, publish
from tests.contract.scheduling import NAME, NOTE, keep, kept, look, occurrence, schedule

JOIN = UUID(int=7)
THEN, FAILED = draft(group="then", id=JOIN), draft(group="failed", id=JOIN)


def followed(at: datetime) -> Occurrence:
    """An occurrence that something follows."""
    join = Join(JOIN, THEN, FAILED)
    made = occurrence(at)
    return Occurrence(as_members(join, [made.draft])[0], None, join)


def publishing(*occurrences: Occurrence) -> ScheduleAdvance:
    return ScheduleAdvance(NOON, NOON + HOUR, occurrences)


@pytest.mark.psycopg
@pytest.mark.parametrize(("verdict", "group"), [(DONE, "then"), (Bury(failure()), "failed")])
async def test_what_follows_an_occurrence_is_published_once_when_it_has_ended(
    storage: Storage, verdict: Verdict, group: str
) -> None:
    await keep(storage, schedule())
    await look(storage, lambda _due, _now: publishing(followed(NOON)))
    held = await claim_one(storage)

    await storage.mailbox.settle([Settlement(held.claim, verdict, member=is_member(held))], WORKER)
    first, second = await look(storage), await look(storage)

    assert (first.joined, second.joined) == (1, 0)
    (next_one,) = await claim(storage, group)
    assert next_one.message_id == follower_id(JOIN)


@pytest.mark.psycopg
async def test_what_was_asked_for_is_followed_too_and_once(storage: Storage) -> None:
    await keep(storage, schedule(next_at=None))

    await storage.timetable.enter([followed(NOON)], NOTE)
    again = await storage.timetable.enter([followed(NOON)], NOTE)

    assert again.stored == frozenset()
    (open_join,) = await storage.ledger.joins(None, 10)
    assert (open_join.id, open_join.members, open_join.ended) == (JOIN, 1, 0)


@pytest.mark.parametrize(
    ("state", "busy"),
    [
        ("nothing", False),
        ("ready", True),
        ("ready, of low priority", True),
        ("running", True),
        ("delayed", False),
        ("of another group", False),
    ],
)
@pytest.mark.psycopg
async def test_whether_its_group_has_work_is_told_to_those_that_ask(storage: Storage, state: str, busy: bool) -> None:
    await declare(storage, "mailer")
    match state:
        case "ready":
            await publish(storage, draft(group="mailer"))
        case "ready, of low priority":
            await publish(storage, draft(group="mailer", priority=Priority.LOW))
        case "running":
            await publish(storage, draft(group="mailer"))
            await claim_one(storage)
        case "delayed":
            await publish(storage, draft(group="mailer", delay=HOUR))
        case "of another group":
            await publish(storage, draft(group="printer"))
    asked: dict[str, bool] = {}

    def decide(due: Due, _now: datetime) -> ScheduleAdvance:
        asked[due.schedule.name] = due.busy
        return publishing()

    definition = {"rhythm": "every 1h", "group": "mailer"}
    await keep(
        storage,
        schedule("asks", definition={**definition, "only_if": QUEUE_EMPTY}),
        schedule("does not", definition=definition),
        schedule("edited", definition=definition, edits={"only_if": QUEUE_EMPTY}),
    )
    await look(storage, decide)

    assert asked == {"asks": busy, "does not": False, "edited": busy}


async def test_what_was_let_go_is_told_by_the_tick_that_did_it(storage: Storage) -> None:
    advance = replace(publishing(), missed=3, skipped=2, why_missed="late", why_skipped="busy")
    await keep(storage, schedule(), schedule("other"))

    tick = await look(storage, lambda due, _now: advance if due.schedule.name == NAME else publishing())

    assert tick.dropped == ((NAME, advance),)
    row = await kept(storage)
    assert (row.missed, row.skipped) == (3, 2)
