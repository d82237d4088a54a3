"""Reap: what its holder died or froze with, one suspect at a time."""

from mainspring.model.message import Priority
from mainspring.model.verdict import Release, Retry, Snooze, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOON,
    NOW,
    SECOND,
    TICK,
    claim,
    claim_one,
    declare,
    draft,
    failure,
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
    assert (copy.held_by, copy.due_at, copy.lapsed) == ("node-2", NOON + MINUTE + HOLD, False)


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
