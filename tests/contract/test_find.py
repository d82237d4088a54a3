"""Finding one message with all that is known of it, and reading the kept runs."""

from uuid import uuid4

from mainspring.model.verdict import DONE, Bury, Cancel, Done, Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    NOON,
    NOW,
    SECOND,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    hold_one,
    publish,
    settle,
    turn,
)


async def test_a_message_is_found_as_it_was_published(storage: Storage) -> None:
    cause = uuid4()
    message = draft(
        "staging.orders.placed",
        payload=b"\x00\x01",
        content_type="application/x",
        headers={"a": "b"},
        key="k",
        correlation_id="c",
        causation_id=cause,
        expires_in=HOUR,
    )
    await publish(storage, message)

    view = await found(storage, message.id)

    assert (view.id, view.topic, view.key) == (message.id, "staging.orders.placed", "k")
    assert (view.payload, view.content_type, view.headers) == (b"\x00\x01", "application/x", {"a": "b"})
    assert (view.correlation_id, view.causation_id) == ("c", cause)
    assert (view.published_at, view.expires_at) == (NOON, NOON + HOUR)
    assert view.runs == ()


async def test_a_message_without_headers_has_none_to_show(storage: Storage) -> None:
    message = draft()
    await publish(storage, message)

    view = await found(storage, message.id)

    assert view.headers == {}
    assert (view.key, view.correlation_id, view.causation_id, view.expires_at) == (None, None, None, None)


async def test_an_unknown_message_is_not_found(storage: Storage) -> None:
    assert await storage.ledger.find(uuid4()) is None


async def test_a_message_shows_every_copy_that_is_not_over(storage: Storage) -> None:
    for group in ("done", "dead", "running", "waiting"):
        await declare(storage, group)
    message = draft()
    await publish(storage, message)
    await settle(storage, await claim_one(storage, "done"), DONE)
    await settle(storage, await claim_one(storage, "dead"), Bury(failure("hopeless")))
    await claim_one(storage, "running")

    view = await found(storage, message.id)

    states = {each.group: (each.state, each.error) for each in view.deliveries}
    assert states == {"dead": ("dead", "hopeless"), "running": ("running", None), "waiting": ("ready", None)}


async def test_a_message_shows_its_runs_oldest_first(storage: Storage) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), Retry(NOW, failure("one")))
    await settle(storage, await claim_one(storage), Retry(NOW, failure("two")))
    await settle(storage, await claim_one(storage), Done("three"), keep="all")

    runs = (await found(storage, message.id)).runs

    assert [(run.attempt, run.error or run.output) for run in runs] == [(1, "one"), (2, "two"), (3, "three")]
    assert [run.id for run in runs] == sorted(run.id for run in runs)


async def test_a_message_that_is_over_is_found_until_it_is_pruned(storage: Storage) -> None:
    held = await hold_one(storage)

    await settle(storage, held, DONE, keep="none")

    view = await found(storage, held.message_id)
    assert (view.deliveries, view.runs) == ((), ())


async def test_runs_are_read_newest_first_page_by_page(storage: Storage) -> None:
    for number in range(5):
        turn(storage, number * SECOND)
        await settle(storage, await hold_one(storage), Done(str(number)), keep="all")

    first = await storage.ledger.runs(None, None, 2)
    second = await storage.ledger.runs(None, first[-1].id, 2)
    third = await storage.ledger.runs(None, second[-1].id, 2)

    assert [run.output for run in first + second + third] == ["4", "3", "2", "1", "0"]
    assert first[0].finished_at == NOON + 4 * SECOND


async def test_runs_are_narrowed_to_a_group(storage: Storage) -> None:
    for group in ("mailer", "analytics", "mailer"):
        await settle(storage, await hold_one(storage, group), Cancel(group))

    runs = await storage.ledger.runs("mailer", None, 10)

    assert [(run.group, run.error) for run in runs] == [("mailer", "mailer")] * 2
    assert len(await storage.ledger.runs("mailer", runs[0].id, 10)) == 1
    assert await storage.ledger.runs("nobody", None, 10) == []


async def test_the_run_of_a_parked_message_belongs_to_no_group(storage: Storage) -> None:
    message = draft()
    await publish(storage, message)
    await storage.mailbox.cancel(message.id, "obsolete")

    (run,) = await storage.ledger.runs("", None, 10)

    assert (run.message_id, run.group, run.topic, run.status) == (message.id, "", message.topic, "cancelled")
    assert await claim(storage) == []
