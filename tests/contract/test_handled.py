"""What was handled is found by default, with its group, time and worker, for as long as its batch is kept."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring.model.message import Delivery, Draft, Keep
from mainspring.model.retention import Retention
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import DONE, Bury, Cancel, Done, Retry, Settlement
from mainspring.model.views import DeliveryView
from mainspring.model.worker import holder
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    TICK,
    WORKER,
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
    turn,
)

pytestmark = pytest.mark.psycopg


async def handle(storage: Storage, *drafts: Draft, keep: Keep = "failures") -> list[Delivery]:
    """Publish these, and settle them in one batch."""
    await publish(storage, *drafts)
    claimed = await claim(storage)
    await storage.mailbox.settle([Settlement(each.claim, DONE, keep) for each in claimed], WORKER)
    return claimed


async def all_pages(storage: Storage, wanted: Filter) -> list[UUID]:
    """The ids of every page, each page as long as the filter asks for."""
    ids: list[UUID] = []
    while True:
        page = await storage.ledger.browse(wanted)
        ids += [row.message_id for row in page.rows]
        if page.before is None:
            return ids
        wanted = replace(wanted, before=page.before)


@pytest.mark.parametrize("keep", ["none", "failures", "all"])
async def test_it_is_listed_once_with_group_time_and_worker_whatever_is_kept(storage: Storage, keep: Keep) -> None:
    owner = holder("mailer-7", "0123456789abcdef")
    await publish(storage, draft(group="mailer", key="order-5"))
    mailed = await claim_one(storage, owner=owner)
    turn(storage, MINUTE)
    await settle(storage, mailed, Done("sent"), keep, owner=owner)

    (view,) = (await storage.ledger.browse(Filter("done"))).rows

    assert (view.message_id, view.group, view.topic) == (mailed.message_id, "mailer", "orders.placed")
    assert view.key == "order-5"
    assert (view.state, view.attempt, view.finished_at, view.node) == ("done", 1, NOON + MINUTE, "mailer-7")
    assert view.published_at == NOON


async def test_it_is_found_by_key_topic_group_text_and_time_as_in_other_states(storage: Storage) -> None:
    five = draft(group="mailer", key="5", payload=b'{"to": "Ann"}')
    six = draft("orders.paid", group="mailer", key="6", payload=b'{"to": "Bob"}')
    await handle(storage, five, six)
    turn(storage, HOUR)
    late = draft(group="mailer", key="5", payload=b'{"to": "Cleo"}')
    await handle(storage, late)

    assert await listed(storage, "done", key="5") == [late.id, five.id]
    assert await listed(storage, "done", key="5", topic="orders.placed", group="mailer") == [late.id, five.id]
    assert await listed(storage, "done", key="5", topic="orders.paid") == []
    assert await listed(storage, "done", topic="orders.paid") == [six.id]
    assert await listed(storage, "done", text="ann") == [five.id]
    assert await listed(storage, "done", key="5", text="cleo") == [late.id]
    assert await listed(storage, "done", since=NOON + MINUTE) == [late.id]
    assert set(await listed(storage, "done", until=NOON + MINUTE)) == {five.id, six.id}
    for nothing in ({"group": "analytics"}, {"key": "7"}, {"error": "boom"}, {"held_by": WORKER}):
        assert await listed(storage, "done", **nothing) == []


async def test_it_is_found_by_operation_and_kind_with_the_beginning_of_its_payload(storage: Storage) -> None:
    root = draft(group="mailer", payload=b'{"n": 1}', content_type="application/json")
    caused = draft(group="mailer", correlation_id=str(root.id), delay=SECOND)
    due = draft(group="mailer", schedule="nightly", at=NOON)
    turn(storage, NOW)
    await publish(storage, root, caused, due)
    turn(storage, MINUTE)
    await storage.mailbox.settle([Settlement(each.claim, DONE) for each in await claim(storage)], WORKER)

    assert set(await listed(storage, "done", correlation_id=str(root.id))) == {root.id, caused.id}
    assert await listed(storage, "done", correlation_id="another") == []
    for kind, one in (("immediate", root), ("delayed", caused), ("recurring", due)):
        (view,) = (await storage.ledger.browse(Filter("done", kind=kind, previews=True))).rows  # type: ignore[arg-type]
        assert (view.message_id, view.kind) == (one.id, kind)
        assert (view.preview, view.finished_at) == (one.payload.decode(), NOON + MINUTE)


@pytest.mark.parametrize("by", ["key", "correlation_id"])
async def test_many_messages_of_one_key_or_operation_are_found_however_late_they_were_handled(
    storage: Storage, by: str
) -> None:
    same: dict[str, Any] = {by: "vip"}
    many = [draft(group="mailer", **same) for _ in range(1_000)]
    await publish(storage, *many)
    turn(storage, SECOND)
    for _ in range(101):  # for as many messages, no more than a hundred batches of each are read by an index
        await settle(storage, await hold_one(storage, "other"), DONE)
    turn(storage, MINUTE)
    claimed = await claim(storage, limit=1_000)
    await storage.mailbox.settle([Settlement(each.claim, DONE) for each in claimed[:999]], WORKER)

    handled = await all_pages(storage, Filter("done", **same))

    assert sorted(handled) == sorted(each.message_id for each in claimed[:999])


async def test_each_group_that_has_handled_it_is_listed(storage: Storage) -> None:
    for group in ("mailer", "ledger", "search"):
        await declare(storage, group)
    message = draft(key="order-5")
    await publish(storage, message)
    held = [await claim_one(storage, group) for group in ("mailer", "ledger", "search")]
    await storage.mailbox.settle([Settlement(each.claim, DONE) for each in held[:2]], WORKER)
    await settle(storage, held[2], Bury(failure()))

    rows = (await storage.ledger.browse(Filter("done"))).rows
    by_key = (await storage.ledger.browse(Filter("done", key="order-5"))).rows

    assert sorted(view.group for view in rows) == ["ledger", "mailer"]
    assert sorted(view.group for view in by_key) == ["ledger", "mailer"]
    assert [view.group for view in (await storage.ledger.browse(Filter("done", group="ledger"))).rows] == ["ledger"]
    assert sorted(view.group for view in (await found(storage, message.id)).done) == ["ledger", "mailer"]


async def test_a_message_that_is_found_names_the_groups_that_have_handled_it(storage: Storage) -> None:
    plain, kept = draft(group="mailer", key="a"), draft(group="mailer")
    await handle(storage, plain, draft(group="mailer"))
    turn(storage, MINUTE)
    await handle(storage, kept, keep="all")
    dead = await bury_one(storage)

    (view,) = (await found(storage, plain.id)).done
    (run,) = (await found(storage, kept.id)).done

    assert (view.message_id, view.group, view.key, view.state) == (plain.id, "mailer", "a", "done")
    assert (view.finished_at, view.node, run.finished_at, run.node) == (NOON, WORKER, NOON + MINUTE, WORKER)
    assert (await found(storage, dead.message_id)).done == ()


async def test_what_was_cancelled_or_removed_is_not_listed_as_done(storage: Storage) -> None:
    await settle(storage, await hold_one(storage), Cancel("obsolete"))
    await publish(storage, draft(group="mailer", key="k"))
    (waiting,) = (await storage.ledger.browse(Filter())).rows
    await storage.mailbox.cancel(waiting.message_id, "paid in time")
    await bury_one(storage)
    await storage.controls.discard(DeadSelection(), "ann", 10)
    retried = await hold_one(storage)
    await settle(storage, retried, Retry(HOUR, failure()))

    assert await listed(storage, "done") == []
    assert await listed(storage, "done", key="k") == []
    assert (await found(storage, waiting.message_id)).done == ()


async def test_a_success_after_failures_is_listed_with_its_attempt(storage: Storage) -> None:
    await settle(storage, await hold_one(storage), Retry(NOW, failure()))
    await settle(storage, await claim_one(storage), Retry(NOW, failure()))
    await settle(storage, await claim_one(storage), DONE)

    (view,) = (await storage.ledger.browse(Filter("done"))).rows

    assert view.attempt == 3


async def test_pages_have_every_entry_once_however_long_they_and_the_batches_are(storage: Storage) -> None:
    expected: set[UUID] = set()
    for number in range(7):
        turn(storage, number * MINUTE)
        keep: Keep = "all" if number % 3 == 0 else "failures"
        handled = await handle(storage, *(draft(group="mailer") for _ in range(number + 1)), keep=keep)
        await settle(storage, await hold_one(storage), Cancel())
        expected |= {each.message_id for each in handled}

    for limit in (1, 2, 3, 50):
        for scan in (1, 4, 20_000):
            ids = await all_pages(storage, Filter("done", limit=limit, scan=scan))
            assert len(ids) == len(expected), (limit, scan)
            assert set(ids) == expected, (limit, scan)


async def test_the_newest_is_listed_first_whether_its_run_is_kept_or_not(storage: Storage) -> None:
    order: list[UUID] = []
    keeps: tuple[Keep, ...] = ("all", "failures", "all", "none")
    for number, keep in enumerate(keeps):
        turn(storage, number * SECOND)
        (one,) = await handle(storage, draft(group="mailer"), keep=keep)
        order.append(one.message_id)

    rows: list[DeliveryView] = list((await storage.ledger.browse(Filter("done"))).rows)

    assert [row.message_id for row in rows] == order[::-1]
    assert [row.seq for row in rows] == sorted((row.seq for row in rows), reverse=True)


async def test_kept_runs_are_listed_when_their_batch_is_gone_and_the_others_no_longer(storage: Storage) -> None:
    (plain,) = await handle(storage, draft(group="mailer", key="k"))
    (kept,) = await handle(storage, draft(group="mailer", key="k"), keep="all")

    turn(storage, DAY)
    await storage.upkeep.prune(Retention(), 100)
    a_day_later = await listed(storage, "done")
    turn(storage, DAY + TICK)
    await storage.upkeep.prune(Retention(), 100)

    assert set(a_day_later) == {plain.message_id, kept.message_id}
    assert await listed(storage, "done") == await listed(storage, "done", key="k") == [kept.message_id]
    assert await storage.ledger.find(plain.message_id) is None
    (view,) = (await found(storage, kept.message_id)).done
    assert (view.group, view.finished_at) == ("mailer", NOON)


async def test_ids_that_begin_within_one_another_are_told_apart(storage: Storage) -> None:
    first, second = UUID(int=1), UUID(int=2**64)
    within = UUID(bytes=(first.bytes + second.bytes)[8:24])
    await publish(storage, *(draft(id=each, group="mailer") for each in (first, second)))
    both = await claim(storage)
    await storage.mailbox.settle([Settlement(each.claim, DONE) for each in both], WORKER)
    await publish(storage, draft(id=within, group="mailer"))

    assert set(await listed(storage, "done")) == {first, second}
    for id in (first, second):
        assert [view.message_id for view in (await found(storage, id)).done] == [id]
    assert (await found(storage, within)).done == ()


async def test_an_unknown_id_was_handled_by_none(storage: Storage) -> None:
    await handle(storage, draft(group="mailer"))

    assert await storage.ledger.find(uuid4()) is None
