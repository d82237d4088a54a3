"""Progress: what a holder says of its run is seen while it runs, and nobody else can say anything of it."""

from uuid import uuid4

import pytest

from mainspring.model.join import Join
from mainspring.model.message import Claim, Delivery, Progress
from mainspring.model.retention import Pruned, Retention
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import DONE, Bury, Release, Retry, Snooze, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    WORKER,
    bury_one,
    claim,
    claim_one,
    draft,
    failure,
    hold_one,
    publish,
    reap,
    settle,
    the_copy,
    turn,
)


async def report(storage: Storage, which: Delivery | Claim, text: str) -> None:
    claimed = which.claim if isinstance(which, Delivery) else which
    await storage.upkeep.report([Progress(claimed, text)], WORKER)


async def prune(storage: Storage, limit: int = 100) -> Pruned:
    return await storage.upkeep.prune(Retention(), limit)


async def test_it_is_seen_wherever_running_deliveries_are(storage: Storage) -> None:
    held = await hold_one(storage)
    await publish(storage, draft(group="mailer"))

    turn(storage, SECOND)
    await report(storage, held, "42 of 100")

    silent, running = (await storage.ledger.browse(Filter())).rows
    assert (running.progress, running.progress_at) == ("42 of 100", NOON + SECOND)
    assert (silent.progress, silent.progress_at) == (None, None)
    assert (await storage.ledger.browse(Filter(state="running"))).rows == (running,)
    assert await the_copy(storage, held.message_id) == running


@pytest.mark.psycopg
async def test_it_is_seen_of_the_members_of_a_join(storage: Storage) -> None:
    join = Join(draft().id, draft(group="mailer"))
    await storage.mailbox.join(join, [draft(group="mailer"), draft(group="mailer")])
    held, _ = await claim(storage)

    await report(storage, held, "half")

    members = await storage.ledger.members(join.id, None, 10)
    assert [each.progress for each in members] == ["half", None]
    found = await storage.ledger.find_join(join.id)
    assert found is not None
    assert found.oldest == members[0]


async def test_the_latest_counts(storage: Storage) -> None:
    held = await hold_one(storage)
    await report(storage, held, "1 of 2")

    turn(storage, SECOND)
    await storage.upkeep.report([Progress(held.claim, "well, 2"), Progress(held.claim, "2 of 2")], WORKER)

    copy = await the_copy(storage, held.message_id)
    assert (copy.progress, copy.progress_at) == ("2 of 2", NOON + SECOND)


async def test_many_are_reported_at_once_each_for_itself(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(30)))
    held = await claim(storage)
    await settle(storage, held[3], DONE)

    said = [Progress(each.claim, f"at {number}") for number, each in enumerate(held)]
    await storage.upkeep.report([*reversed(said), Progress(Claim(2**40, 1, uuid4()), "never was")], WORKER)

    seen = {view.seq: view.progress for view in (await storage.ledger.browse(Filter())).rows}
    assert seen == {each.claim.id: each.text for each in said if each.claim != held[3].claim}


async def test_a_batch_of_nothing_is_no_trouble(storage: Storage) -> None:
    await storage.upkeep.report([], WORKER)


@pytest.mark.parametrize("text", ["", 'it\'s 夜\n\t"42%" \\', "x" * 500])
async def test_it_is_stored_as_it_was_said(storage: Storage, text: str) -> None:
    held = await hold_one(storage)

    await report(storage, held, text)

    assert (await the_copy(storage, held.message_id)).progress == text


@pytest.mark.parametrize("text", ["nul \x00 here", "half \ud800 here"])
async def test_what_no_database_can_hold_is_stored_somehow(storage: Storage, text: str) -> None:
    held = await hold_one(storage)

    await report(storage, held, text)

    said = (await the_copy(storage, held.message_id)).progress
    assert said is not None
    assert said.endswith("here")


async def test_who_has_lost_the_claim_can_say_nothing(storage: Storage) -> None:
    old = await hold_one(storage)
    turn(storage, MINUTE)
    new = await reap(storage)
    assert new is not None

    await report(storage, old, "not mine")
    unsaid = await the_copy(storage, old.message_id)
    await storage.upkeep.report([Progress(new.claim, "mine"), Progress(old.claim, "not mine")], WORKER)
    await report(storage, old, "not mine")

    assert unsaid.progress is None
    assert (await the_copy(storage, old.message_id)).progress == "mine"


async def test_what_an_earlier_holder_said_is_not_the_next_ones(storage: Storage) -> None:
    old = await hold_one(storage)
    await report(storage, old, "half")
    turn(storage, MINUTE)

    await reap(storage, owner="node-2")

    copy = await the_copy(storage, old.message_id)
    assert (copy.state, copy.progress, copy.progress_at) == ("running", None, None)


async def test_a_lapsed_claim_that_nobody_took_may_still_speak(storage: Storage) -> None:
    held = await hold_one(storage)
    turn(storage, MINUTE)

    await report(storage, held, "still here")

    copy = await the_copy(storage, held.message_id)
    assert (copy.state, copy.progress) == ("lapsed", "still here")


@pytest.mark.parametrize(
    "verdict",
    [Retry(NOW, failure()), Snooze(NOW, "later"), Release(), Bury(failure())],
    ids=lambda verdict: type(verdict).__name__,
)
async def test_after_the_verdict_it_is_neither_shown_nor_said(storage: Storage, verdict: Verdict) -> None:
    held = await hold_one(storage)
    await report(storage, held, "half")
    await settle(storage, held, verdict)
    settled = await the_copy(storage, held.message_id)

    await report(storage, held, "more")

    assert settled.progress is None
    assert (await the_copy(storage, held.message_id)).progress is None
    assert await prune(storage) == Pruned(progress=1)


async def test_nothing_is_left_of_it_for_a_later_claim_nor_for_a_revival(storage: Storage) -> None:
    buried = await bury_one(storage)
    await storage.controls.revive(DeadSelection(), "ann", 10)
    await report(storage, buried, "from the grave")
    again = await claim_one(storage)
    silent = await the_copy(storage, buried.message_id)

    await report(storage, again, "alive")

    assert silent.progress is None
    assert (await the_copy(storage, buried.message_id)).progress == "alive"


async def test_what_is_over_is_pruned_in_bounded_batches_and_what_runs_stays(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(5)))
    held = await claim(storage)
    await storage.upkeep.report([Progress(each.claim, "half") for each in held], WORKER)
    for each in held[1:4]:
        await settle(storage, each, DONE, keep="none")
    await settle(storage, held[4], Retry(HOUR, failure()), keep="none")

    removed = [await prune(storage, limit=3), await prune(storage, limit=3), await prune(storage, limit=3)]

    assert removed == [Pruned(progress=3), Pruned(progress=1), Pruned()]
    assert removed[0].total == 3
    assert (await the_copy(storage, held[0].message_id)).progress == "half"


async def test_a_prune_of_a_topic_leaves_it_alone(storage: Storage) -> None:
    held = await hold_one(storage)
    await report(storage, held, "half")
    await settle(storage, held, DONE, keep="none")

    assert await storage.upkeep.prune(Retention(), 10, "orders.*") == Pruned()
    assert await prune(storage) == Pruned(progress=1)
