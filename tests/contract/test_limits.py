"""Claims under limits: order by key, how many at once, how often; and that nobody who may go is left standing."""

import asyncio
from datetime import timedelta

import pytest

from mainspring.model.limits import SLOTS, LimitedClaim, Limits, Rate
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Priority
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Release, Retry, Snooze, Verdict
from mainspring.storage.contract import Storage
from mainspring.storage.portable.limits import KEYS
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    TICK,
    WORKER,
    bury_one,
    claim,
    declare,
    draft,
    failure,
    ids,
    publish,
    settle,
    siblings,
    turn,
)

ORDERED = Limits(ordered=True)
SKIPPING = Limits(ordered=True, on_failure="skip")
GROUP = "mailer"


async def ration(storage: Storage, limits: Limits, limit: int = 10, after: str | None = None) -> LimitedClaim:
    return await storage.mailbox.claim_limited(ClaimRequest(GROUP, limit, ALL_LEVELS), limits, after, "worker-1", HOLD)


async def take(storage: Storage, limits: Limits, limit: int = 10) -> list[Delivery]:
    return (await ration(storage, limits, limit)).deliveries


async def put(storage: Storage, *keys: str | None, priority: Priority = Priority.NORMAL) -> list[str]:
    """Publish one message under each of these keys; the payload says the how manieth it is."""
    drafts = [
        draft(group=GROUP, key=key, payload=f"{key}{place}".encode(), priority=priority)
        for place, key in enumerate(keys)
    ]
    for each in drafts:
        await publish(storage, each)
    return [each.payload.decode() for each in drafts]


def said(deliveries: list[Delivery]) -> list[str]:
    return [each.payload.decode() for each in deliveries]


async def test_a_limited_claim_gives_what_a_claim_gives(storage: Storage) -> None:
    one = draft(group=GROUP, key="k", headers={"a": "b"}, correlation_id="c", priority=Priority.HIGH)
    await publish(storage, one)
    await publish(storage, draft(group="other", key="k"))

    (limited,) = await take(storage, ORDERED)
    await settle(storage, limited, Release())
    (plain,) = await claim(storage)

    assert limited == plain._replace(epoch=1)
    assert limited.headers == {"a": "b"}


async def test_ordered_one_at_a_time_under_a_key_and_what_has_no_key_is_free(storage: Storage) -> None:
    await put(storage, "a", "a", "b", None, None, "a")

    first = await ration(storage, ORDERED)
    again = await take(storage, ORDERED)
    await settle(storage, first.deliveries[0], DONE)
    second = await take(storage, ORDERED)

    assert said(first.deliveries) == ["a0", "b2", "None3", "None4"]
    assert first.left
    assert again == []
    assert said(second) == ["a1"]


@pytest.mark.parametrize("verdict", [Retry(MINUTE, failure()), Snooze(MINUTE)])
async def test_ordered_those_behind_wait_for_what_will_be_tried_again(storage: Storage, verdict: Verdict) -> None:
    await put(storage, "a", "a")
    (head,) = await take(storage, ORDERED)

    await settle(storage, head, verdict)
    meanwhile = await ration(storage, ORDERED)
    turn(storage, MINUTE)
    later = await take(storage, ORDERED)

    assert meanwhile.deliveries == []
    assert (meanwhile.again_in, meanwhile.left) == (MINUTE, True)
    assert said(later) == ["a0"]


async def test_skipping_those_behind_go_on_and_the_failed_one_goes_first_when_its_time_has_come(
    storage: Storage,
) -> None:
    await put(storage, "a", "a", "a")
    (head,) = await take(storage, SKIPPING)

    await settle(storage, head, Retry(MINUTE, failure()))
    (second,) = await take(storage, SKIPPING)
    turn(storage, MINUTE)
    while_held = await take(storage, SKIPPING)
    await settle(storage, second, DONE)
    third = await take(storage, SKIPPING)

    assert said([second]) == ["a1"]
    assert while_held == []
    assert said(third) == ["a0"]


async def test_skipping_waits_for_a_snooze_which_is_no_failure(storage: Storage) -> None:
    await put(storage, "a", "a")
    (head,) = await take(storage, SKIPPING)

    await settle(storage, head, Snooze(MINUTE))

    assert await take(storage, SKIPPING) == []


async def test_ordered_a_buried_one_lets_the_next_go_and_a_revived_one_goes_first(storage: Storage) -> None:
    await put(storage, "a", "a", "a")
    (head,) = await take(storage, ORDERED)

    await settle(storage, head, Bury(failure()))
    (second,) = await take(storage, ORDERED)
    await storage.controls.revive(DeadSelection(head.message_id, GROUP), "ann", 1)
    while_held = await take(storage, ORDERED)
    await settle(storage, second, DONE)
    third = await take(storage, ORDERED)

    assert said([second]) == ["a1"]
    assert while_held == []
    assert said(third) == ["a0"]


async def test_order_counts_for_more_than_urgency_and_urgency_pulls_its_key_forward(storage: Storage) -> None:
    await put(storage, "a", "b")
    await publish(storage, draft(group=GROUP, key="b", payload=b"urgent", priority=Priority.URGENT))

    assert said(await take(storage, ORDERED, limit=1)) == ["b1"]


async def test_a_cancelled_head_is_out_of_the_way_and_a_delayed_one_is_not(storage: Storage) -> None:
    first, second = draft(group=GROUP, key="a"), draft(group=GROUP, key="a", delay=HOUR)
    await publish(storage, first)
    await publish(storage, second)
    third = draft(group=GROUP, key="a")
    await publish(storage, third)

    await storage.mailbox.cancel(first.id, "obsolete")
    behind_the_delayed = await take(storage, ORDERED)
    turn(storage, HOUR)

    assert behind_the_delayed == []
    assert ids(await take(storage, ORDERED)) == [second.id]


async def test_a_lapsed_claim_keeps_its_place_until_it_is_reaped_and_settled(storage: Storage) -> None:
    await put(storage, "a", "a")
    await take(storage, ORDERED)
    turn(storage, HOLD)

    while_lapsed = await take(storage, ORDERED)
    reaped = await storage.mailbox.reap_limited(GROUP, ORDERED, WORKER, HOLD)
    while_reaped = await take(storage, ORDERED)
    assert reaped is not None
    await settle(storage, reaped, DONE)

    assert (while_lapsed, while_reaped) == ([], [])
    assert (reaped.payload, reaped.suspect, reaped.attempt) == (b"a0", True, 2)
    assert said(await take(storage, ORDERED)) == ["a1"]


async def test_so_many_of_a_key_at_once_and_no_more(storage: Storage) -> None:
    limits = Limits(key_concurrency=2)
    await put(storage, "a", "a", "a", "b", None, None, None)

    first = await ration(storage, limits)
    await settle(storage, first.deliveries[1], DONE)

    assert said(first.deliveries) == ["a0", "a1", "b3", "None4", "None5", "None6"]
    assert first.left
    assert said(await take(storage, limits)) == ["a2"]


async def test_so_many_of_a_group_at_once_whatever_their_keys(storage: Storage) -> None:
    limits = Limits(global_concurrency=3)
    await put(storage, "a", None, "b", None)

    first = await take(storage, limits, limit=2)
    second = await ration(storage, limits)
    none = await take(storage, limits)
    await settle(storage, first[0], DONE)

    assert [len(first), len(second.deliveries), none] == [2, 1, []]
    assert second.left
    assert len(await take(storage, limits)) == 1


async def test_others_limits_and_other_groups_do_not_count(storage: Storage) -> None:
    await publish(storage, draft(group="other", key="a"), draft(group=GROUP, key="a"))
    await claim(storage, "other")

    assert len(await take(storage, Limits(ordered=True, global_concurrency=1, rate=Rate(1, MINUTE)))) == 1


async def test_a_rate_is_never_exceeded_in_any_stretch_of_its_window(storage: Storage) -> None:
    rate = Rate(5, MINUTE)
    await publish(storage, *(draft(group=GROUP) for _ in range(40)))
    claimed: list[timedelta] = []

    now = NOW
    while now < 4 * MINUTE:
        turn(storage, now)
        claimed += [now] * len(await take(storage, Limits(rate=rate), limit=3))
        now += timedelta(seconds=1.7)

    assert all(sum(since <= each < since + MINUTE for each in claimed) <= 5 for since in claimed)
    assert len(claimed) >= 5 * 3


async def test_what_a_rate_has_spent_comes_back_a_slot_after_its_window(storage: Storage) -> None:
    limits = Limits(rate=Rate(2, MINUTE))
    await publish(storage, *(draft(group=GROUP) for _ in range(6)))

    first = await ration(storage, limits)
    back = MINUTE + MINUTE / SLOTS
    turn(storage, SECOND / 2)
    soon = await ration(storage, limits)
    turn(storage, back - TICK)
    early = await ration(storage, limits)
    turn(storage, back)
    in_time = await ration(storage, limits)

    assert [len(each.deliveries) for each in (first, soon, early, in_time)] == [2, 0, 0, 2]
    assert (first.again_in, soon.again_in, early.again_in) == (back, back - SECOND / 2, TICK)
    assert first.left


async def test_a_rate_by_key_is_each_keys_own(storage: Storage) -> None:
    limits = Limits(key_rate=Rate(1, MINUTE))
    await put(storage, "a", "a", "b", None, None)

    first = await take(storage, limits)
    for each in first:
        await settle(storage, each, DONE)
    second = await ration(storage, limits)
    turn(storage, 2 * MINUTE)
    third = await take(storage, limits)

    assert said(first) == ["a0", "b2", "None3", "None4"]
    assert (second.deliveries, second.again_in) == ([], MINUTE + MINUTE / SLOTS)
    assert said(third) == ["a1"]


@pytest.mark.parametrize("limits", [Limits(rate=Rate(1, MINUTE)), Limits(key_rate=Rate(1, MINUTE))])
async def test_a_rate_counts_what_is_reaped(storage: Storage, limits: Limits) -> None:
    await put(storage, "a")
    await take(storage, limits)
    turn(storage, HOLD)

    early = await storage.mailbox.reap_limited(GROUP, limits, "worker-2", HOLD)
    turn(storage, 2 * MINUTE)
    in_time = await storage.mailbox.reap_limited(GROUP, limits, "worker-2", HOLD)
    await put(storage, "a")

    assert early is None
    assert in_time is not None
    assert (in_time.suspect, in_time.deaths) == (True, 0)
    assert await take(storage, limits) == []


async def test_only_a_suspect_dies_under_a_rate_too(storage: Storage) -> None:
    limits = Limits(rate=Rate(100, MINUTE))
    await put(storage, "a")
    await take(storage, limits)
    deaths = []
    for lapse in (1, 2):
        turn(storage, lapse * HOLD)
        reaped = await storage.mailbox.reap_limited(GROUP, limits, "worker-2", HOLD)
        assert reaped is not None
        deaths.append(reaped.deaths)

    assert deaths == [0, 1]


async def test_keys_behind_a_crowd_that_has_to_wait_are_found(storage: Storage) -> None:
    crowd = [draft(group=GROUP, key="crowd") for _ in range(250)]
    await publish(storage, *crowd)
    await put(storage, *(f"k{n:03}" for n in range(KEYS + 5)))

    first = await ration(storage, ORDERED, limit=150)
    second = await ration(storage, ORDERED, limit=150, after=first.after)
    third = await ration(storage, ORDERED, limit=150, after=second.after)

    assert len(first.deliveries) == 150
    found = [each.key for part in (first, second, third) for each in part.deliveries]
    assert sorted(found, key=str) == ["crowd", *(f"k{n:03}" for n in range(KEYS + 5))]


@pytest.mark.parametrize("limits", [ORDERED, Limits(key_concurrency=1), Limits(key_rate=Rate(1, HOUR))])
async def test_what_has_no_key_does_not_stand_behind_a_crowd_that_has_to_wait(storage: Storage, limits: Limits) -> None:
    await publish(storage, *(draft(group=GROUP, key="crowd") for _ in range(250)))
    await put(storage, None, None, priority=Priority.LOW)

    assert [each.key for each in await take(storage, limits)] == ["crowd", None, None]


async def test_what_has_no_key_is_found_behind_however_many_that_have_to_wait(storage: Storage) -> None:
    await publish(storage, *(draft(group=GROUP, key="crowd") for _ in range(2_100)))
    await put(storage, None, None)
    assert [each.key for each in await take(storage, ORDERED)] == ["crowd", None, None]


async def test_keys_are_gone_through_by_and_by(storage: Storage) -> None:
    limits = Limits(key_concurrency=1)
    await publish(storage, *(draft(group=GROUP, key=f"k{n:03}") for n in range(KEYS + 50) for _ in range(2)))
    found: list[str | None] = []
    after, rounds = None, 0
    while rounds < 2:
        part = await ration(storage, limits, limit=KEYS, after=after)
        found += [each.key for each in part.deliveries]
        after = part.after
        rounds += after is None

    first = await ration(storage, limits)
    second = await ration(storage, limits, after=first.after)

    assert sorted(found, key=str) == [f"k{n:03}" for n in range(KEYS + 50)]
    assert (first.deliveries, second.deliveries) == ([], [])
    assert (first.after, second.after) == (f"k{KEYS - 1:03}", None)
    assert first.left
    assert second.left


async def test_a_paused_group_gives_nothing(storage: Storage) -> None:
    limits = Limits(ordered=True, rate=Rate(10, MINUTE))
    await declare(storage, GROUP)
    await put(storage, "a", "b")
    (held, _) = await take(storage, limits)
    await settle(storage, held, Release())
    turn(storage, HOLD)
    await storage.controls.pause(GROUP, "ann", "why")

    claimed = await ration(storage, limits)
    reaped = await storage.mailbox.reap_limited(GROUP, limits, "worker-2", HOLD)

    assert (claimed.deliveries, claimed.left, claimed.again_in) == ([], False, None)
    assert reaped is None


async def test_a_retired_groups_spending_is_forgotten(storage: Storage) -> None:
    limits = Limits(rate=Rate(1, HOUR))
    await declare(storage, GROUP)
    await put(storage, "a")
    (held,) = await take(storage, limits)
    await settle(storage, held, DONE)

    await storage.controls.retire(GROUP, "ann", 10)
    await declare(storage, GROUP)
    await put(storage, "a")

    assert len(await take(storage, limits)) == 1


async def test_claimed_by_many_at_once_no_limit_is_exceeded(storage: Storage) -> None:
    limits = Limits(ordered=True, global_concurrency=7, rate=Rate(30, HOUR))
    await publish(storage, *(draft(group=GROUP, key=f"k{n % 12}") for n in range(120)))
    claims, most, heads = 0, 0, []
    async with siblings(storage, 4) as doors:
        for _ in range(8):
            rations = await asyncio.gather(*(ration(door, limits, limit=5) for door in doors))
            held = [each for part in rations for each in part.deliveries]
            claims += len(held)
            most = max(most, len(held))
            assert len({each.key for each in held}) == len(held)
            heads += [(each.key, each.id) for each in held]
            for each in held:
                await settle(storage, each, DONE)

    assert (claims, most) == (30, 7)
    for key in {key for key, _ in heads}:
        seqs = [seq for each, seq in heads if each == key]
        assert seqs == sorted(seqs)


async def test_nothing_there_is_nothing_left(storage: Storage) -> None:
    assert await ration(storage, ORDERED) == LimitedClaim([], None, None, left=False)
    await bury_one(storage)
    assert await ration(storage, ORDERED) == LimitedClaim([], None, None, left=False)
