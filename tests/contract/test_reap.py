"""Reap: what its holder died or froze with, one suspect at a time."""

import pytest

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import Delivery, Keep, Priority
from mainspring.model.retention import Retention
from mainspring.model.search import Filter
from mainspring.model.verdict import DONE, Release, Retry, Snooze, Verdict
from mainspring.model.worker import holder
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    TICK,
    WORKER,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    hold_one,
    publish,
    reap,
    settle,
    the_copy,
    turn,
)


async def test_a_lapsed_claim_is_reaped_as_a_suspect_under_a_new_epoch(storage: Storage) -> None:
    held = await hold_one(storage, one=draft(group="mailer", key="k", headers={"a": "b"}, payload=b"p"))

    turn(storage, MINUTE)
    reaped = await reap(storage, owner="node-2")

    assert reaped is not None
    assert (reaped.id, reaped.message_id) == (held.id, held.message_id)
    assert (reaped.epoch, reaped.attempt) == (2, 2)
    assert (reaped.suspect, reaped.deaths) == (True, 0)
    assert (reaped.payload, reaped.key, reaped.headers) == (b"p", "k", {"a": "b"})
    assert reaped.due_at == NOON + HOLD
    assert reaped.claimed_at == NOON + MINUTE
    assert reaped.scheduled_for == reaped.published_at == NOON
    copy = await the_copy(storage, held.message_id)
    assert (copy.held_by, copy.due_at, copy.state) == ("node-2", NOON + MINUTE + HOLD, "running")


@pytest.mark.psycopg
@pytest.mark.parametrize("limits", [None, Limits(rate=Rate(10, MINUTE))])
async def test_a_claim_that_lapsed_leaves_a_run_with_its_holder_and_its_beginning(
    storage: Storage, limits: Limits | None
) -> None:
    dead = holder("node-1", "0123456789abcdef")
    await publish(storage, draft(group="mailer", delay=SECOND))
    turn(storage, SECOND)
    held = await claim_one(storage, owner=dead)
    turn(storage, 20 * SECOND)
    await storage.mailbox.extend([held.claim], dead, HOLD)

    turn(storage, MINUTE)
    taken = (
        await reap(storage, owner="node-2")
        if limits is None
        else await storage.mailbox.reap_limited("mailer", limits, "node-2", HOLD)
    )
    assert taken is not None
    turn(storage, 2 * MINUTE)
    assert await reap(storage, owner="node-3") is not None

    lost, again = (await found(storage, held.message_id)).runs
    assert (lost.status, lost.group, lost.topic) == ("lost", "mailer", "orders.placed")
    assert (lost.attempt, lost.node) == (1, "node-1")
    assert (lost.started_at, lost.finished_at) == (NOON + SECOND, NOON + MINUTE)
    assert (lost.kind, lost.traceback, lost.source, lost.scheduled_for) == (None, None, "delayed", NOON + SECOND)
    assert lost.error is not None
    assert lost.error.startswith("its claim lapsed")
    assert (again.attempt, again.node, again.started_at, again.finished_at) == (
        2, "node-2", NOON + MINUTE, NOON + 2 * MINUTE,
    )  # fmt: skip


async def test_a_claim_that_was_handed_back_leaves_no_run_and_the_next_one_begins_anew(storage: Storage) -> None:
    await settle(storage, await hold_one(storage), Release(MINUTE))
    turn(storage, MINUTE)
    held = await claim_one(storage)
    turn(storage, HOUR)
    await reap(storage)

    (lost,) = (await found(storage, held.message_id)).runs

    assert (lost.attempt, lost.started_at) == (1, NOON + MINUTE)


@pytest.mark.parametrize(("keep", "left"), [("failures", ["lost"]), ("none", [])])
async def test_a_lost_run_is_kept_and_pruned_as_one_that_failed(storage: Storage, keep: Keep, left: list[str]) -> None:
    await hold_one(storage)
    turn(storage, MINUTE)
    taken = await reap(storage)
    assert taken is not None

    assert [run.status for run in await storage.ledger.failures(10)] == ["lost"]
    await settle(storage, taken, DONE, keep=keep)

    assert [run.status for run in await storage.ledger.failures(10)] == left
    assert [view.attempt for view in (await storage.ledger.browse(Filter("done"))).rows] == [2 if left else 1]
    turn(storage, 31 * DAY)
    assert (await storage.upkeep.prune(Retention(), 10)).runs == len(left)


async def test_a_claim_lapses_at_its_very_end(storage: Storage) -> None:
    await hold_one(storage)

    turn(storage, HOLD - TICK)
    early = await reap(storage)
    turn(storage, HOLD)
    in_time = await reap(storage)

    assert early is None
    assert in_time is not None


async def test_only_a_suspect_dies(storage: Storage) -> None:
    await hold_one(storage)

    deaths = []
    for reaping in range(1, 5):
        turn(storage, reaping * MINUTE)
        reaped = await reap(storage)
        assert reaped is not None
        deaths.append(reaped.deaths)

    assert deaths == [0, 1, 2, 3]


async def test_whatever_hands_a_suspect_back_clears_the_suspicion_but_not_the_deaths(
    storage: Storage,
) -> None:
    verdicts: list[Verdict] = [Retry(NOW, failure()), Snooze(NOW), Release()]
    for number, verdict in enumerate(verdicts):
        group = f"group-{number}"
        turn(storage, NOW)
        await hold_one(storage, group)
        turn(storage, MINUTE)
        await reap(storage, group)
        turn(storage, 2 * MINUTE)
        twice = await reap(storage, group)
        assert twice is not None

        await settle(storage, twice, verdict)
        again = await claim_one(storage, group)
        turn(storage, 3 * MINUTE)
        reaped = await reap(storage, group)

        assert (again.suspect, again.deaths) == (False, 1)
        assert reaped is not None
        assert (reaped.suspect, reaped.deaths) == (True, 1)


async def test_the_claim_that_lapsed_longest_ago_is_reaped_first_whatever_its_group_or_level(
    storage: Storage,
) -> None:
    held = []
    for number, (group, level) in enumerate([("b", Priority.LOW), ("a", Priority.URGENT), ("b", Priority.HIGH)]):
        turn(storage, number * SECOND)
        held.append(await hold_one(storage, group, draft(group=group, priority=level)))

    turn(storage, MINUTE)
    reaped = [await reap(storage, "a", "b") for _ in range(4)]

    assert [each and each.id for each in reaped] == [each.id for each in held] + [None]


async def test_of_claims_that_lapsed_together_the_first_published_is_reaped_first(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(3)))
    held = await claim(storage)

    turn(storage, MINUTE)
    reaped = [await reap(storage) for _ in range(3)]

    assert [each and each.id for each in reaped] == [each.id for each in held]


async def test_only_the_groups_asked_for_are_reaped(storage: Storage) -> None:
    await hold_one(storage, "mailer")

    turn(storage, MINUTE)
    other = await reap(storage, "analytics")

    assert other is None


async def test_what_nobody_holds_is_not_reaped(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"))

    turn(storage, HOUR)
    reaped = await reap(storage)

    assert reaped is None


async def test_a_paused_group_is_not_reaped(storage: Storage) -> None:
    await declare(storage, "mailer")
    await hold_one(storage, "mailer")
    await storage.controls.pause("mailer", "ann", "upgrade")

    turn(storage, MINUTE)
    paused = await reap(storage)
    await storage.controls.resume("mailer", "ann")
    resumed = await reap(storage)

    assert paused is None
    assert resumed is not None


async def test_a_wish_to_cancel_is_handed_over_to_the_next_holder(storage: Storage) -> None:
    held = await hold_one(storage)
    await storage.mailbox.cancel(held.message_id, "obsolete")

    turn(storage, MINUTE)
    reaped = await reap(storage)

    assert reaped is not None
    assert reaped.cancel_asked


async def test_what_expired_while_it_was_held_says_so_when_it_is_reaped(storage: Storage) -> None:
    held = await hold_one(storage, one=draft(group="mailer", expires_in=SECOND))

    turn(storage, MINUTE)
    reaped = await reap(storage)

    assert not held.expired
    assert reaped is not None
    assert reaped.expired


async def test_what_would_die_by_being_reaped_is_left_alone_where_it_is_not_asked_for(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(2)))
    first, second = await claim(storage)
    turn(storage, MINUTE)
    await reap(storage, hold=SECOND)
    turn(storage, 2 * MINUTE)

    innocent = await reap(storage, accused=False)
    none = await reap(storage, accused=False)
    accused = await reap(storage)

    assert innocent is not None
    assert accused is not None
    assert (innocent.id, innocent.deaths, none) == (second.id, 0, None)
    assert (accused.id, accused.deaths) == (first.id, 1)


async def test_what_has_died_before_is_left_alone_too_though_it_was_handed_back_since(storage: Storage) -> None:
    await hold_one(storage)
    for minutes in (1, 2):
        turn(storage, minutes * MINUTE)
        reaped = await reap(storage)
    assert reaped is not None
    await settle(storage, reaped, Release())
    again = await claim_one(storage)
    turn(storage, 3 * MINUTE)

    left = await reap(storage, accused=False)
    taken = await reap(storage)

    assert (again.suspect, again.deaths, left) == (False, 1, None)
    assert taken is not None
    assert (taken.suspect, taken.deaths) == (True, 1)


async def test_under_a_rate_too_what_would_die_by_being_reaped_is_left_alone_where_it_is_not_asked_for(
    storage: Storage,
) -> None:
    limits = Limits(rate=Rate(10, MINUTE))
    await publish(storage, *(draft(group="mailer") for _ in range(2)))
    first, second = await claim(storage)
    turn(storage, MINUTE)
    await storage.mailbox.reap_limited("mailer", limits, "worker-2", SECOND)
    turn(storage, 2 * MINUTE)

    innocent = await storage.mailbox.reap_limited("mailer", limits, "worker-2", HOLD, accused=False)
    none = await storage.mailbox.reap_limited("mailer", limits, "worker-2", HOLD, accused=False)
    accused = await storage.mailbox.reap_limited("mailer", limits, "worker-2", HOLD)

    assert innocent is not None
    assert accused is not None
    assert (innocent.id, innocent.deaths, none) == (second.id, 0, None)
    assert (accused.id, accused.deaths) == (first.id, 1)


@pytest.mark.parametrize("limits", [None, Limits(rate=Rate(10, MINUTE))])
async def test_a_holder_that_lives_is_not_given_what_it_has_put_aside_and_is_charged_nothing(
    storage: Storage, limits: Limits | None
) -> None:
    async def reaped(owner: str, aside: Delivery) -> Delivery | None:
        claims = [aside.claim]
        if limits is None:
            return await storage.mailbox.reap(["mailer"], owner, HOLD, aside=claims)
        return await storage.mailbox.reap_limited("mailer", limits, owner, HOLD, aside=claims)

    await publish(storage, *(draft(group="mailer") for _ in range(2)))
    aside, forgotten = await claim(storage)
    turn(storage, MINUTE)

    first, second = await reaped(WORKER, aside), await reaped(WORKER, aside)
    copy = await the_copy(storage, aside.message_id)
    theirs = await reaped("another", aside)

    assert first is not None
    assert (first.id, first.attempt, first.suspect, second) == (forgotten.id, 2, True, None)
    assert (copy.attempt, copy.deaths) == (1, 0)
    assert theirs is not None
    assert (theirs.id, theirs.attempt, theirs.suspect) == (aside.id, 2, True)


async def test_what_was_put_aside_and_taken_over_since_is_reaped_like_any_other(storage: Storage) -> None:
    aside = await hold_one(storage)
    turn(storage, MINUTE)
    await reap(storage, owner="another")
    turn(storage, 2 * MINUTE)

    reaped = await reap(storage, aside=[aside.claim])

    assert reaped is not None
    assert (reaped.id, reaped.deaths) == (aside.id, 1)
