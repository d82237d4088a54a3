"""Settle: what each verdict does to a delivery, and the runs it leaves."""

import pytest

from mainspring.model.message import Keep
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Release, Retry, Settlement, Snooze, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    WORKER,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    hold_one,
    publish,
    settle,
    statuses,
    the_copy,
    turn,
)

pytestmark = pytest.mark.psycopg
KEEPS: list[Keep] = ["all", "failures", "none"]


async def test_done_ends_the_delivery(storage: Storage) -> None:
    held = await hold_one(storage)

    await settle(storage, held, DONE)

    turn(storage, HOUR)
    assert (await found(storage, held.message_id)).deliveries == ()
    assert await claim(storage) == []


async def test_done_under_keep_all_leaves_a_run_with_its_output(storage: Storage) -> None:
    held = await hold_one(storage)

    turn(storage, 20 * SECOND)
    await settle(storage, held, Done("42 rows"), keep="all", took=5 * SECOND)

    (run,) = (await found(storage, held.message_id)).runs
    assert (run.status, run.output, run.attempt) == ("done", "42 rows", 1)
    assert (run.message_id, run.group, run.topic) == (held.message_id, "mailer", "orders.placed")
    assert (run.kind, run.error, run.traceback, run.node) == (None, None, None, "worker-1")
    assert run.started_at == NOON + 15 * SECOND
    assert run.finished_at == NOON + 20 * SECOND


@pytest.mark.parametrize("keep", ["failures", "none"])
async def test_done_leaves_no_run_unless_all_are_kept(storage: Storage, keep: Keep) -> None:
    held = await hold_one(storage)

    await settle(storage, held, Done("42 rows"), keep=keep)

    assert await statuses(storage, held.message_id) == []


@pytest.mark.parametrize(
    ("keep", "left"),
    [("all", ["failed", "snoozed", "done"]), ("failures", ["failed", "snoozed"]), ("none", [])],
)
async def test_what_done_leaves_of_earlier_runs_is_what_was_asked_to_be_kept(
    storage: Storage, keep: Keep, left: list[str]
) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), Retry(NOW, failure()), keep=keep)
    await settle(storage, await claim_one(storage), Snooze(NOW, "not yet"), keep="all")

    await settle(storage, await claim_one(storage), DONE, keep=keep)

    assert await statuses(storage, message.id) == left


async def test_keep_none_forgets_the_runs_of_its_own_group_alone(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    message, other = draft(), draft()
    await publish(storage, message, other)
    for delivery in await claim(storage, "mailer") + await claim(storage, "analytics"):
        await settle(storage, delivery, Retry(NOW, failure()), keep="none")

    first, _ = await claim(storage, "mailer")
    await settle(storage, first, DONE, keep="none")

    assert [run.group for run in (await found(storage, message.id)).runs] == ["analytics"]
    assert await statuses(storage, other.id) == ["failed", "failed"]


@pytest.mark.parametrize("keep", KEEPS)
async def test_retry_brings_it_back_after_its_delay_and_always_keeps_the_error(storage: Storage, keep: Keep) -> None:
    held = await hold_one(storage)

    turn(storage, SECOND)
    await settle(storage, held, Retry(MINUTE, failure("no luck", "timeout", "line 1\nline 2")), keep=keep, took=SECOND)

    copy = await the_copy(storage, held.message_id)
    assert (copy.state, copy.held_by, copy.attempt) == ("scheduled", None, 1)
    assert copy.due_at == NOON + SECOND + MINUTE
    (run,) = (await found(storage, held.message_id)).runs
    assert (run.status, run.attempt, run.node) == ("failed", 1, "worker-1")
    assert (run.kind, run.error, run.traceback) == ("timeout", "no luck", "line 1\nline 2")
    assert (run.started_at, run.finished_at, run.output) == (NOON, NOON + SECOND, None)
    turn(storage, SECOND + MINUTE)
    assert (await claim_one(storage)).attempt == 2


async def test_snooze_brings_it_back_without_counting_an_attempt(storage: Storage) -> None:
    held = await hold_one(storage)

    await settle(storage, held, Snooze(MINUTE, "rate limited"))
    turn(storage, MINUTE)
    again = await claim_one(storage)

    assert (again.attempt, again.epoch) == (1, 2)
    assert again.due_at == NOON + MINUTE
    assert again.scheduled_for == NOON


@pytest.mark.parametrize(("keep", "kept"), [("all", True), ("failures", False), ("none", False)])
async def test_snooze_leaves_a_run_only_where_all_are_kept(storage: Storage, keep: Keep, kept: bool) -> None:
    held = await hold_one(storage)

    await settle(storage, held, Snooze(MINUTE, "rate limited"), keep=keep, took=SECOND)

    runs = (await found(storage, held.message_id)).runs
    assert [(run.status, run.output, run.attempt) for run in runs] == ([("snoozed", "rate limited", 1)] if kept else [])


@pytest.mark.parametrize("keep", KEEPS)
async def test_release_hands_it_back_at_once_and_leaves_no_trace(storage: Storage, keep: Keep) -> None:
    held = await hold_one(storage)

    turn(storage, SECOND)
    await settle(storage, held, Release(), keep=keep)
    again = await claim_one(storage)

    assert (again.attempt, again.epoch, again.due_at) == (1, 2, NOON + SECOND)
    assert await statuses(storage, held.message_id) == []


async def test_release_may_wait_a_little(storage: Storage) -> None:
    held = await hold_one(storage)

    await settle(storage, held, Release(5 * SECOND))

    copy = await the_copy(storage, held.message_id)
    assert (copy.state, copy.attempt, copy.due_at) == ("scheduled", 0, NOON + 5 * SECOND)


@pytest.mark.parametrize("keep", KEEPS)
async def test_bury_moves_it_to_the_dead_letters_with_its_error(storage: Storage, keep: Keep) -> None:
    held = await hold_one(storage, one=draft(group="mailer", key="order:1"))

    turn(storage, MINUTE)
    await settle(storage, held, Bury(failure("hopeless", "poison", "trace")), keep=keep, took=SECOND)

    copy = await the_copy(storage, held.message_id)
    assert (copy.state, copy.seq, copy.key) == ("dead", held.id, "order:1")
    assert (copy.error, copy.buried_at, copy.held_by) == ("hopeless", NOON + MINUTE, None)
    assert (copy.attempt, copy.deaths, copy.scheduled_for) == (1, 0, NOON)
    (run,) = (await found(storage, held.message_id)).runs
    assert (run.status, run.kind, run.error, run.traceback) == ("dead", "poison", "hopeless", "trace")
    assert (run.started_at, run.finished_at) == (NOON + 59 * SECOND, NOON + MINUTE)
    turn(storage, HOUR)
    assert await claim(storage) == []


async def test_a_dead_letter_has_every_error_that_led_to_it(storage: Storage) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), Retry(NOW, failure("first")), keep="none")
    await settle(storage, await claim_one(storage), Retry(NOW, failure("second")), keep="none")
    await settle(storage, await claim_one(storage), Bury(failure("third")), keep="none")

    runs = (await found(storage, message.id)).runs

    assert [(run.attempt, run.status, run.error) for run in runs] == [
        (1, "failed", "first"),
        (2, "failed", "second"),
        (3, "dead", "third"),
    ]


@pytest.mark.parametrize("keep", KEEPS)
async def test_cancel_ends_the_delivery_and_keeps_the_reason(storage: Storage, keep: Keep) -> None:
    held = await hold_one(storage)

    await settle(storage, held, Cancel("obsolete"), keep=keep, took=NOW)

    message = await found(storage, held.message_id)
    assert message.deliveries == ()
    assert [(run.status, run.error, run.attempt) for run in message.runs] == [("cancelled", "obsolete", 1)]


async def test_a_batch_of_every_verdict_is_written_together(storage: Storage) -> None:
    verdicts: list[Verdict] = [
        DONE,
        Retry(MINUTE, failure()),
        Snooze(2 * MINUTE),
        Release(3 * MINUTE),
        Bury(failure()),
        Cancel(),
    ]
    await publish(storage, *(draft(group="mailer") for _ in verdicts))
    held = await claim(storage)

    answer = await storage.mailbox.settle(
        [Settlement(delivery.claim, verdict) for delivery, verdict in zip(held, verdicts, strict=True)], WORKER
    )

    left = [(await found(storage, each.message_id)).deliveries for each in held]
    assert (answer.lost, answer.gone) == (frozenset(), frozenset())
    assert [[view.state for view in views] for views in left] == [
        [], ["scheduled"], ["scheduled"], ["scheduled"], ["dead"], [],
    ]  # fmt: skip
    assert [views[0].due_at - NOON for views in left[1:4]] == [MINUTE, 2 * MINUTE, 3 * MINUTE]
