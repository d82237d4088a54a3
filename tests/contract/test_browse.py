"""Browsing: every state, every filter, page by page."""

from uuid import UUID

import pytest

from mainspring.model.message import Priority
from mainspring.model.search import DeadSelection, Filter, SearchState
from mainspring.model.verdict import DONE, Cancel, Done
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    WORKER,
    bury_one,
    claim,
    claim_one,
    draft,
    hold_one,
    listed,
    publish,
    settle,
    the_copy,
    turn,
)

pytestmark = pytest.mark.psycopg


async def test_each_state_lists_its_own(storage: Storage) -> None:
    done = await hold_one(storage)
    await settle(storage, done, DONE, keep="all")
    cancelled = await hold_one(storage)
    await settle(storage, cancelled, Cancel("obsolete"))
    dead = await bury_one(storage)
    running = await hold_one(storage)
    ready, scheduled, parked = draft(group="mailer"), draft(group="mailer", delay=HOUR), draft()
    await publish(storage, ready, scheduled, parked)

    assert await listed(storage, "done") == [done.message_id]
    assert await listed(storage, "cancelled") == [cancelled.message_id]
    assert await listed(storage, "dead") == [dead.message_id]
    assert await listed(storage, "running") == [running.message_id]
    assert await listed(storage, "ready") == [ready.id]
    assert await listed(storage, "scheduled") == [scheduled.id]
    assert await listed(storage, "parked") == [parked.id]
    live = (await storage.ledger.browse(Filter())).rows
    assert [(view.message_id, view.state) for view in live] == [
        (scheduled.id, "scheduled"),
        (ready.id, "ready"),
        (running.message_id, "running"),
    ]


async def test_a_claim_that_lapsed_is_shown_as_lapsed_and_runs_no_more(storage: Storage) -> None:
    held = await hold_one(storage, one=draft(group="mailer", key="k", priority=Priority.HIGH))

    turn(storage, HOUR)
    (view,) = (await storage.ledger.browse(Filter(state="lapsed"))).rows
    running = (await storage.ledger.browse(Filter(state="running"))).rows

    assert running == ()
    assert (view.seq, view.message_id, view.group) == (held.id, held.message_id, "mailer")
    assert (view.topic, view.key, view.priority) == ("orders.placed", "k", Priority.HIGH)
    assert (view.state, view.held_by) == ("lapsed", "worker-1")
    assert (view.attempt, view.deaths, view.cancel_asked) == (1, 0, False)
    assert (view.due_at, view.scheduled_for, view.published_at) == (NOON + HOLD, NOON, NOON)
    assert (view.error, view.buried_at) == (None, None)


async def test_what_lapsed_and_what_runs_are_told_apart_wherever_they_are_looked_for(storage: Storage) -> None:
    lapsed = await hold_one(storage)
    turn(storage, HOUR)
    running = await hold_one(storage)
    expected: dict[SearchState, list[UUID]] = {"lapsed": [lapsed.message_id], "running": [running.message_id]}

    by_state = {each: await listed(storage, each) for each in expected}
    by_group = {each: await listed(storage, each, group="mailer") for each in expected}
    by_holder = {each: await listed(storage, each, held_by="worker-1") for each in expected}
    by_walking = {each: await listed(storage, each, since=NOON, topic="orders.placed") for each in expected}
    held = await listed(storage, "live", held_by="worker-1")
    found = [(await the_copy(storage, each.message_id)).state for each in (lapsed, running)]

    assert by_state == by_group == by_holder == by_walking == expected
    assert held == [running.message_id, lapsed.message_id]
    assert found == ["lapsed", "running"]


async def test_what_is_done_is_listed_as_its_message_was_published(storage: Storage) -> None:
    held = await hold_one(storage, one=draft(group="mailer", key="k"))
    turn(storage, SECOND)
    await settle(storage, held, Done("42 rows"), keep="all")

    (view,) = (await storage.ledger.browse(Filter(state="done"))).rows

    assert (view.message_id, view.group) == (held.message_id, "mailer")
    assert (view.topic, view.key, view.state, view.attempt) == ("orders.placed", "k", "done", 1)
    assert view.due_at == view.scheduled_for == view.published_at == NOON
    assert view.error is None


async def test_what_was_cancelled_is_listed_with_its_reason(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", key="k"))
    (delivery,) = (await storage.ledger.browse(Filter())).rows
    await storage.mailbox.cancel(delivery.message_id, "paid in time")

    (view,) = (await storage.ledger.browse(Filter(state="cancelled"))).rows

    assert (view.message_id, view.state, view.key) == (delivery.message_id, "cancelled", "k")
    assert view.error == "paid in time"


async def test_filters_narrow_every_live_state(storage: Storage) -> None:
    placed = draft("orders.placed", group="mailer", key="a")
    paid = draft("orders.paid", group="mailer", key="b")
    counted = draft("orders.placed", group="analytics", key="a")
    await publish(storage, placed, paid, counted)

    async def matching(**fields: str) -> list[object]:
        return [view.message_id for view in (await storage.ledger.browse(Filter(**fields))).rows]  # type: ignore[arg-type]

    assert await matching(group="mailer") == [paid.id, placed.id]
    assert await matching(topic="orders.placed") == [counted.id, placed.id]
    assert await matching(key="a") == [counted.id, placed.id]
    assert await matching(group="mailer", topic="orders.placed", key="a") == [placed.id]
    assert await matching(group="mailer", key="nothing") == []
    assert await matching(topic="orders.*") == []
    assert await matching(state="ready", group="analytics") == [counted.id]
    assert await matching(state="scheduled", group="analytics") == []


async def test_filters_narrow_what_is_dead_parked_done_and_cancelled(storage: Storage) -> None:
    for key in ("a", "b"):
        await bury_one(storage, one=draft("orders.placed", group="mailer", key=key))
        await publish(storage, draft("orders.placed", key=key))
        await settle(storage, await hold_one(storage, one=draft("orders.placed", group="mailer", key=key)), DONE, "all")
        await settle(storage, await hold_one(storage, one=draft("orders.placed", group="mailer", key=key)), Cancel())

    for state, group in (("dead", "mailer"), ("done", "mailer"), ("cancelled", "mailer"), ("parked", "")):
        every = Filter(state=state, topic="orders.placed", group=group)  # type: ignore[arg-type]
        assert [view.key for view in (await storage.ledger.browse(every)).rows] == ["b", "a"], state
        for missing in ({"key": "c"}, {"topic": "orders.paid"}, {"group": "analytics"}):
            narrowed = Filter(state=state, **missing)  # type: ignore[arg-type]
            assert (await storage.ledger.browse(narrowed)).rows == (), (state, missing)
        one = Filter(state=state, key="a")  # type: ignore[arg-type]
        assert [view.key for view in (await storage.ledger.browse(one)).rows] == ["a"], state


async def test_dead_letters_are_found_by_a_part_of_their_error_in_any_case(storage: Storage) -> None:
    timeout = await bury_one(storage, error="Connection TIMEOUT after 5 s")
    full = await bury_one(storage, error="disk 100% full_up [x]")

    async def erring(text: str) -> list[object]:
        return [view.message_id for view in (await storage.ledger.browse(Filter("dead", error=text))).rows]

    assert await erring("timeout") == [timeout.message_id]
    assert await erring("DISK") == [full.message_id]
    assert await erring("100%") == [full.message_id]
    assert await erring("l_u") == [full.message_id]
    assert await erring("[X]") == [full.message_id]
    assert await erring("n_T") == []
    assert await erring("%") == [full.message_id]
    assert await erring("s") == [full.message_id, timeout.message_id]
    assert await erring("'") == []


async def test_a_list_is_read_page_by_page_newest_first(storage: Storage) -> None:
    batch = [draft(group="mailer", delay=number * SECOND) for number in range(7)]
    await publish(storage, *batch)

    pages = []
    before = None
    while page := (await storage.ledger.browse(Filter(before=before, limit=3))).rows:
        pages.append([view.message_id for view in page])
        before = page[-1].seq

    newest_first = [each.id for each in reversed(batch)]
    assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:]]


async def test_every_kind_of_list_has_pages(storage: Storage) -> None:
    for number in range(3):
        await bury_one(storage, error=f"error {number}")
        await publish(storage, draft())
        await settle(storage, await hold_one(storage), DONE, keep="all")
        await settle(storage, await hold_one(storage), Cancel(f"reason {number}"))

    for state in ("dead", "parked", "done", "cancelled"):
        first = (await storage.ledger.browse(Filter(state=state, limit=2))).rows
        rest = (await storage.ledger.browse(Filter(state=state, before=first[-1].seq))).rows
        seqs = [view.seq for view in first + rest]
        assert (len(first), len(rest)) == (2, 1), state
        assert seqs == sorted(seqs, reverse=True), state


async def test_a_page_has_fifty_rows_unless_another_number_is_asked_for(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(60)))

    assert len((await storage.ledger.browse(Filter())).rows) == 50
    assert len((await storage.ledger.browse(Filter(limit=55))).rows) == 55


async def test_a_revived_delivery_is_listed_at_its_old_place(storage: Storage) -> None:
    old = await bury_one(storage)
    newer = draft(group="mailer")
    await publish(storage, newer)

    await storage.controls.revive(DeadSelection(), "ann", 10)

    assert await listed(storage, "ready") == [newer.id, old.message_id]


async def test_reading_changes_nothing(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"), draft())
    held = await claim_one(storage)

    turn(storage, MINUTE)
    for _ in range(2):
        await storage.ledger.browse(Filter())
        await storage.ledger.find(held.message_id)
        await storage.ledger.tally()
        await storage.ledger.roster()

    assert await claim(storage) == []
    assert (await storage.mailbox.extend([held.claim], WORKER, HOLD)).lost == frozenset()
