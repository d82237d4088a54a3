"""Searching, and doing one thing to everything that a search finds."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Mainspring
from mainspring.app.admin.bulk import BATCH, Action
from mainspring.model.errors import BadOption
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.search import By, Filter, Matches
from mainspring.model.verdict import Failure, Retry, Settlement
from tests.unit.app.steered import HOLD, audited, bury, bury_due, publish, storage_of


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")
    async with app:
        yield app


async def test_a_search_finds_the_newest_first(app: Mainspring) -> None:
    ids = await publish(app, 3)

    found = await app.messages.search(group="receipts")

    assert [row.message_id for row in found] == list(reversed(ids))
    assert found.scanned >= 3


async def test_a_list_looks_on_until_it_is_full(app: Mainspring) -> None:
    wanted = await publish(app, 6, "rare")  # more than are found by their group alone
    await publish(app, 30)
    storage = await storage_of(app)
    browse = storage.ledger.browse

    async def sparing(filter: Filter) -> Matches:
        return await browse(replace(filter, scan=4))

    storage.ledger.browse = sparing  # type: ignore[method-assign]

    searched = await app.messages.search(group="rare")
    listed = await app.messages.list(group="rare", limit=2)

    later = await app.messages.list(group="rare", limit=4, cursor=listed.cursor)

    assert (searched, searched.cursor is None) == ([], False)
    assert [row.message_id for row in (*listed, *later)] == list(reversed(wanted))


async def test_everything_that_matches_is_revived(app: Mainspring) -> None:
    await bury(app, 2 * BATCH + 3, error="timeout")
    left = await bury(app, 2, error="disk full")
    told: list[int] = []

    count = await app.messages.apply("revive", Filter("dead", error="TIME"), by="ann", progress=told.append)

    assert count == 2 * BATCH + 3
    assert told == [BATCH, 2 * BATCH, 2 * BATCH + 3]
    assert {row.message_id for row in await app.dead.list()} == set(left)
    assert await audited(app) == [("ann", "revive", "state dead, error …", f"{count} revived; ended")]


async def test_reviving_ends_even_when_everything_dies_again_at_once(app: Mainspring) -> None:
    await bury(app, BATCH + 1)
    storage = await storage_of(app)
    revive = storage.controls.revive

    async def dies_again(which: Any, by: By, limit: int) -> int:
        revived = await revive(which, by, limit)
        await bury_due(storage, "receipts", "again")
        await bury(app, 1)
        return revived

    storage.controls.revive = dies_again  # type: ignore[method-assign]

    assert await app.messages.apply("revive", Filter("dead")) == BATCH + 1


async def test_everything_that_matches_is_discarded_cancelled_or_due_now(app: Mainspring) -> None:
    await bury(app, 2, "analytics")
    await bury(app, 1, "receipts")
    await publish(app, 3, delay=timedelta(hours=1))
    ready = await publish(app, 1)

    discarded = await app.messages.apply("discard", Filter("dead", group="analytics"))
    due_now = await app.messages.apply("run_now", Filter(group="receipts"), by="ann")
    cancelled = await app.messages.apply("cancel", Filter("ready"), reason="obsolete")

    assert (discarded, due_now, cancelled) == (2, 3, 4)
    assert len(await app.dead.list()) == 1
    assert await app.messages.search() == []
    shown = await app.messages.get(ready[0])
    assert shown is not None
    assert [(run.status, run.error) for run in shown.runs] == [("cancelled", "obsolete")]
    assert await audited(app) == [
        ("app", "cancel", "state ready", "4 cancelled or asked to stop; ended"),
        ("ann", "run_now", "state live, group receipts", "3 due now; ended"),
        ("app", "discard", "state dead, group analytics", "2 discarded; ended"),
    ]


async def test_what_retries_is_cancelled_or_due_now_and_nothing_else_is(app: Mainspring) -> None:
    storage = await storage_of(app)
    failing = await publish(app, 2)
    held = await storage.mailbox.claim([ClaimRequest("receipts", 2, ALL_LEVELS)], "worker", HOLD)
    again = Retry(timedelta(hours=1), Failure("error", "boom"))
    await storage.mailbox.settle([Settlement(each.claim, again) for each in held], "worker")
    later = await publish(app, 1, delay=timedelta(hours=1))

    due_now = await app.messages.apply("run_now", Filter("retrying"), by="ann")
    assert {row.message_id for row in await app.messages.list("scheduled")} == set(later)
    cancelled = await app.messages.apply("cancel", Filter("retrying"), by="ann")

    assert (due_now, cancelled) == (2, 2)
    assert failing
    assert [row.message_id for row in await app.messages.list()] == later


async def test_what_is_parked_is_cancelled_and_what_runs_is_asked_to_stop(app: Mainspring) -> None:
    storage = await storage_of(app)
    await storage.mailbox.publish([Draft(uuid4(), "nobody", b"{}")])
    await publish(app, 2)
    await storage.mailbox.claim([ClaimRequest("receipts", 1, ALL_LEVELS)], "worker", HOLD)

    assert await app.messages.apply("cancel", Filter("parked")) == 1
    assert await app.messages.apply("cancel", Filter()) == 2
    (running,) = await app.messages.search()
    assert running.cancel_asked


async def test_single_deliveries_are_due_now_and_withdrawn_by_name() -> None:
    app = Mainspring("memory://", name="shop")
    async with app:
        later = await publish(app, 2, "receipts", delay=timedelta(hours=1))
        parked = Draft(uuid4(), "nobody", b"{}")
        await (await storage_of(app)).mailbox.publish([parked])

        due_now = await app.messages.run_now([(str(later[0]), "receipts"), (later[1], "other")], by="ann")
        gone = await app.messages.cancel([(later[0], "receipts"), (parked.id, "")], by="bob", reason="why")

        assert (due_now, gone.cancelled, gone.asked) == (1, 2, 0)
        assert [(by, action) for by, action, *_ in await audited(app)] == [("bob", "cancel"), ("ann", "run_now")]


@pytest.mark.parametrize(
    ("action", "state", "says"),
    [
        ("revive", "live", "revive has no effect on state 'live': set filter.state to dead"),
        ("run_now", "dead", "set filter.state to live or scheduled or retrying"),
        ("cancel", "done", "cancel has no effect on state 'done'"),
        ("explode", "dead", "must be one of revive, discard, cancel, run_now"),
    ],
)
async def test_what_makes_no_sense_is_refused(app: Mainspring, action: Action, state: Any, says: str) -> None:
    with pytest.raises(BadOption, match=says):
        await app.messages.apply(action, Filter(state))


async def test_causes_are_told_by_group() -> None:
    app = Mainspring("memory://", name="shop")
    async with app:
        await bury(app, 2, "receipts", "order 1 lost")

        (cause,) = (await app.dead.causes()).rows
        found = await app.dead.list(fingerprint=cause.fingerprint)
        revived = await app.dead.revive(group="receipts", fingerprint=cause.fingerprint)

    assert (cause.group, cause.count, cause.error) == ("receipts", 2, "order 1 lost")
    assert (len(found), revived) == (2, 2)


async def test_a_chain_is_told_with_the_topic_of_each_message() -> None:
    app = Mainspring("memory://", name="shop")

    @app.consumer("orders")
    def ship(order: Any) -> None: ...

    async with app:
        await app.declare()
        first = await app.publish("orders", 1)
        storage = await storage_of(app)
        second = Draft(uuid4(), "orders", b"2", causation_id=first.id)
        await storage.mailbox.publish([second])

        chain = await app.messages.chain(str(first.id))

    assert [(link.id, link.topic, link.state) for link in chain.caused] == [(second.id, "orders", "ready")]
    assert (chain.causes, chain.more) == ((), False)


async def test_the_latest_failures_are_told(app: Mainspring) -> None:
    ids = await bury(app, 2)

    assert {run.message_id for run in await app.messages.failures()} == set(ids)
    assert len(await app.messages.failures(limit=1)) == 1
