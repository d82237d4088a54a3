"""Cancel: what nobody holds is removed, whoever holds the rest is asked to stop."""

from uuid import uuid4

import pytest

from mainspring.model.message import Cancelled, Settled
from mainspring.model.verdict import DONE, Bury, Release, Retry, Snooze, Verdict
from mainspring.storage.contract import Keyed, Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    hold_one,
    listed,
    publish,
    settle,
    statuses,
    the_copy,
    turn,
)

HANDED_BACK: list[Verdict] = [Retry(NOW, failure("no luck")), Snooze(NOW, "later"), Release()]


async def test_a_message_is_cancelled_by_its_id(storage: Storage) -> None:
    message = draft(group="mailer", delay=MINUTE)
    await publish(storage, message)

    turn(storage, SECOND)
    answer = await storage.mailbox.cancel(message.id, "paid in time")

    assert answer == Cancelled(cancelled=1, asked=0)
    view = await found(storage, message.id)
    assert view.deliveries == ()
    (run,) = view.runs
    assert (run.status, run.group, run.error) == ("cancelled", "mailer", "paid in time")
    assert (run.attempt, run.node, run.kind, run.output) == (0, None, None, None)
    assert run.started_at == run.finished_at == NOON + SECOND
    turn(storage, HOUR)
    assert await claim(storage) == []


async def test_every_group_loses_its_copy(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    message = draft()
    await publish(storage, message)

    answer = await storage.mailbox.cancel(message.id, "obsolete")

    assert answer == Cancelled(cancelled=2, asked=0)
    assert {run.group for run in (await found(storage, message.id)).runs} == {"mailer", "analytics"}


async def test_messages_are_cancelled_by_topic_and_key(storage: Storage) -> None:
    meant = [draft("payments.timeout", group="mailer", key="order:42") for _ in range(2)]
    others = [
        draft("payments.timeout", group="mailer", key="order:43"),
        draft("payments.timeout", group="mailer"),
        draft("payments.timeout.late", group="mailer", key="order:42"),
        draft("staging.payments.timeout", group="mailer", key="order:42"),
    ]
    await publish(storage, *meant, *others)

    answer = await storage.mailbox.cancel(Keyed("payments.timeout", "order:42"), "paid")

    assert answer == Cancelled(cancelled=2, asked=0)
    assert sorted(await listed(storage, "ready")) == sorted(each.id for each in others)


async def test_a_topic_is_meant_literally_not_as_a_pattern(storage: Storage) -> None:
    await publish(storage, draft("payments.timeout", group="mailer", key="k"))

    answer = await storage.mailbox.cancel(Keyed("payments.*", "k"), "paid")

    assert answer == Cancelled(cancelled=0, asked=0)


async def test_what_is_unknown_is_not_cancelled(storage: Storage) -> None:
    assert await storage.mailbox.cancel(uuid4(), "why") == Cancelled(0, 0)
    assert await storage.mailbox.cancel(Keyed("no.topic", "no key"), "why") == Cancelled(0, 0)


async def test_a_parked_message_is_cancelled(storage: Storage) -> None:
    by_id, by_key = draft(), draft(key="k")
    await publish(storage, by_id, by_key)

    first = await storage.mailbox.cancel(by_id.id, "one")
    second = await storage.mailbox.cancel(Keyed(by_key.topic, "k"), "two")

    assert first == second == Cancelled(cancelled=1, asked=0)
    assert await listed(storage, "parked") == []
    (run,) = (await found(storage, by_key.id)).runs
    assert (run.status, run.group, run.error, run.node) == ("cancelled", "", "two", None)


async def test_a_dead_letter_is_left_as_it_is(storage: Storage) -> None:
    buried = await bury_one(storage, one=draft(group="mailer", key="k"))

    assert await storage.mailbox.cancel(buried.message_id, "why") == Cancelled(0, 0)
    assert await storage.mailbox.cancel(Keyed(buried.topic, "k"), "why") == Cancelled(0, 0)
    assert (await the_copy(storage, buried.message_id)).state == "dead"


async def test_what_is_held_is_asked_for_and_goes_on(storage: Storage) -> None:
    held = await hold_one(storage, one=draft(group="mailer", key="k"))

    by_id = await storage.mailbox.cancel(held.message_id, "obsolete")
    by_key = await storage.mailbox.cancel(Keyed(held.topic, "k"), "obsolete")

    assert by_id == by_key == Cancelled(cancelled=0, asked=1)
    copy = await the_copy(storage, held.message_id)
    assert (copy.state, copy.cancel_asked, copy.held_by) == ("running", True, "worker-1")
    assert await statuses(storage, held.message_id) == []


async def test_a_lapsed_claim_is_asked_too(storage: Storage) -> None:
    held = await hold_one(storage)

    turn(storage, HOUR)
    answer = await storage.mailbox.cancel(held.message_id, "obsolete")

    assert answer == Cancelled(cancelled=0, asked=1)


async def test_held_and_waiting_copies_of_one_message_are_treated_each_in_its_way(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    message = draft()
    await publish(storage, message)
    await claim_one(storage, "mailer")

    answer = await storage.mailbox.cancel(message.id, "obsolete")

    assert answer == Cancelled(cancelled=1, asked=1)
    assert [view.group for view in (await found(storage, message.id)).deliveries] == ["mailer"]


@pytest.mark.parametrize("verdict", HANDED_BACK, ids=lambda verdict: type(verdict).__name__)
async def test_what_was_asked_to_be_cancelled_never_runs_again(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)
    await storage.mailbox.cancel(held.message_id, "obsolete")

    turn(storage, SECOND)
    answer = await settle(storage, held, verdict, keep="all", took=SECOND)

    assert answer == Settled()
    message = await found(storage, held.message_id)
    assert message.deliveries == ()
    last = message.runs[-1]
    assert (last.status, last.error, last.attempt) == ("cancelled", "cancelled while running", 1)
    assert (last.node, last.started_at, last.finished_at) == ("worker-1", NOON, NOON + SECOND)
    assert (last.kind, last.traceback, last.output) == (None, None, None)
    failed = [run.error for run in message.runs if run.status == "failed"]
    assert failed == (["no luck"] if isinstance(verdict, Retry) else [])
    assert len(message.runs) == 1 + len(failed)
    assert await claim(storage) == []


async def test_what_was_asked_to_be_cancelled_may_still_succeed_or_be_buried(storage: Storage) -> None:
    done, buried = await hold_one(storage, "a"), await hold_one(storage, "b")
    await storage.mailbox.cancel(done.message_id, "obsolete")
    await storage.mailbox.cancel(buried.message_id, "obsolete")

    await settle(storage, done, DONE, keep="all")
    await settle(storage, buried, Bury(failure()), keep="all")

    assert await statuses(storage, done.message_id) == ["done"]
    assert await statuses(storage, buried.message_id) == ["dead"]
    assert (await the_copy(storage, buried.message_id, "b")).state == "dead"


async def test_a_cancelled_message_is_a_duplicate_when_it_is_published_again(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)
    await storage.mailbox.cancel(message.id, "obsolete")

    again = await publish(storage, message)

    assert again == frozenset()
    assert await claim(storage) == []


async def test_a_new_message_under_a_cancelled_key_is_delivered(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", key="k"))
    await storage.mailbox.cancel(Keyed("orders.placed", "k"), "obsolete")

    stored = await publish(storage, draft(group="mailer", key="k"))

    assert len(stored) == 1
    assert (await claim_one(storage)).key == "k"


async def test_an_attempt_that_was_counted_stays_with_the_cancelled_run(storage: Storage) -> None:
    held = await hold_one(storage)
    await settle(storage, held, Retry(MINUTE, failure()))

    await storage.mailbox.cancel(held.message_id, "obsolete")

    runs = (await found(storage, held.message_id)).runs
    assert [(run.status, run.attempt) for run in runs] == [("failed", 1), ("cancelled", 1)]
