"""The fetcher of a consumer with limits, turn by turn: how often it asks, and how long it sleeps."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from mainspring.model.limits import LimitedClaim, Limits, Rate
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.model.verdict import DONE, Failure, Retry, Settlement
from mainspring.runtime.fetchers import Fetchers
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.worker import Worker
from mainspring.storage.contract import Mailbox
from mainspring.storage.memory import MemoryStorage
from mainspring.storage.portable.limits import KEYS
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.clock import HandClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ORDERED = Limits(ordered=True)
SECOND, MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
TRIP = 2 * MILLISECOND
"""Less than this there never is between two claims of which the first came back short."""


class Far:
    """Makes the answers of a mailbox take a while, and counts what it is asked."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.claims = 0
        self.on_the_way: asyncio.Event | None = None
        """Set, it is waited for by every answer to a claim."""
        self.answered = asyncio.Event()
        self._claim_limited, self._reap_limited, self._reap = mailbox.claim_limited, mailbox.reap_limited, mailbox.reap
        for name in ("claim_limited", "reap_limited", "reap"):
            far = partial(getattr(self, name))
            vars(far)["script"] = getattr(mailbox, name).script  # other operations of the mailbox are made of it
            setattr(mailbox, name, far)

    async def claim_limited(self, *args: Any) -> LimitedClaim:
        self.claims += 1
        ration = await self._claim_limited(*args)
        self.answered.set()
        if self.on_the_way is not None:
            await self.on_the_way.wait()
        return ration

    async def reap_limited(self, *args: Any, **options: Any) -> Delivery | None:
        await asyncio.sleep(0)
        return await self._reap_limited(*args, **options)

    async def reap(self, *args: Any, **options: Any) -> Delivery | None:
        await asyncio.sleep(0)
        return await self._reap(*args, **options)


class Desk:
    """A worker that is never started: its fetchers are turned by the test, and both clocks with them."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.mailbox = self.storage.mailbox
        self.far = Far(self.mailbox)
        self.clock = HandClock(NOON)
        self.storage.now = NOON
        self.workers: list[Worker] = []

    def fetchers(self, *limits: Limits | None, hands: int = 10) -> Fetchers:
        """Whoever fetches for groups with these limits, named by their places."""

        async def forever(_: Delivery, __: Run) -> None:
            await asyncio.Event().wait()

        handlers = [
            Handler(str(place), forever, NO_RETRY, limits=each, concurrency=hands) for place, each in enumerate(limits)
        ]
        worker = Worker(self.storage, handlers, [], WorkerSettings(), self.clock)
        self.workers.append(worker)
        return worker._fetchers

    async def put(self, *keys: str | None, group: str = "0") -> list[uuid.UUID]:
        drafts = [Draft(uuid.uuid4(), "work", b"{}", key=key, group=group) for key in keys]
        await self.mailbox.publish(drafts)
        return [each.id for each in drafts]

    async def elsewhere(self, group: str = "0", limit: int = 1, hold: timedelta = HOUR) -> list[Delivery]:
        """Have another worker hold the first of them."""
        return await self.mailbox.claim([ClaimRequest(group, limit, ALL_LEVELS)], "another", hold)

    async def pauses(self, fetchers: Fetchers, turns: int) -> list[float]:
        """How long it slept after each turn, by clocks that are turned on by as much and by what a claim takes."""
        slept = []
        for _ in range(turns):
            pause = await fetchers._of("0").turn()
            slept.append(round(pause, 6))
            self.turn(timedelta(seconds=pause) + TRIP)
        return slept

    def turn(self, by: timedelta) -> None:
        self.clock.advance(by)
        assert self.storage.now is not None
        self.storage.now += by

    def in_hand(self) -> list[Delivery]:
        return [run.delivery for worker in self.workers for run in worker._in_hand.runs()]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    for worker in desk.workers:
        for executor in worker._executors:
            executor.close()
    await asyncio.sleep(0)  # those who were cancelled end


async def test_while_all_have_to_wait_it_asks_no_more_often_than_who_has_nothing_to_do(desk: Desk) -> None:
    await desk.put("a", "a", "a")
    await desk.elsewhere()

    slept = await desk.pauses(desk.fetchers(ORDERED), 8)

    # It looks, arms the bell, looks once more, and sleeps; at last the bell is armed again before it forgets.
    assert slept == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert desk.far.claims == 8


async def test_many_keys_that_have_to_wait_are_gone_through_once_for_each_look(desk: Desk) -> None:
    keys = [f"k{n:03}" for n in range(2 * KEYS + 1)]
    await desk.put(*keys, *keys)
    await desk.elsewhere(limit=len(keys))

    slept = await desk.pauses(desk.fetchers(ORDERED), 9)

    assert slept == [0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.5]


async def test_it_sleeps_until_a_rate_has_room_again(desk: Desk) -> None:
    await desk.put("a", "b", "c")

    slept = await desk.pauses(desk.fetchers(Limits(rate=Rate(1, 100 * MILLISECOND))), 4)

    # A window and a slot after the first; then there is one more.
    assert slept == [0.0, 0.1, 0.0, 0.1]
    assert len(desk.in_hand()) == 2


async def test_nothing_to_do_is_no_reason_to_wake_for_a_rate(desk: Desk) -> None:
    await desk.put("a")

    slept = await desk.pauses(desk.fetchers(Limits(rate=Rate(1, 100 * MILLISECOND))), 3)

    assert slept == [0.0, 0.25, 0.5]


async def test_with_nothing_there_it_looks_without_asking_for_a_turn(desk: Desk) -> None:
    fetchers = desk.fetchers(ORDERED)
    await desk.pauses(fetchers, 5)
    idle = desk.far.claims
    await desk.put("a")

    await desk.pauses(fetchers, 1)

    assert (idle, desk.far.claims) == (1, 2)
    assert len(desk.in_hand()) == 1


@pytest.mark.parametrize(("limits", "wakes"), [(Limits(global_concurrency=1), False), (ORDERED, True)])
async def test_a_publish_is_no_reason_to_look_while_the_whole_group_is_at_its_limit(
    desk: Desk, limits: Limits, wakes: bool
) -> None:
    await desk.put("a", "a")
    await desk.elsewhere()
    fetchers = desk.fetchers(limits)
    await desk.pauses(fetchers, 2)

    fetchers.nudge()

    assert fetchers._of("0")._alarm._set is wakes


async def test_it_does_not_sleep_past_the_next_try_of_what_others_wait_for(desk: Desk) -> None:
    await desk.put("a", "a")
    [head] = await desk.elsewhere()
    await desk.mailbox.settle([Settlement(head.claim, Retry(30 * MILLISECOND, Failure("error", "boom")))], "another")
    fetchers = desk.fetchers(ORDERED)

    assert await desk.pauses(fetchers, 2) == [0.0, 0.028]
    await fetchers._of("0").turn()
    assert [each.id for each in desk.in_hand()] == [head.id]


async def test_it_is_told_of_what_it_handed_back_itself(desk: Desk) -> None:
    fetchers = desk.fetchers(ORDERED, None)

    fetchers.due_again("0", 40 * MILLISECOND)

    assert await desk.pauses(fetchers, 2) == [0.0, 0.038]


@pytest.mark.parametrize("behind", [True, False])
async def test_the_end_of_a_run_wakes_it_if_something_had_to_wait(desk: Desk, behind: bool) -> None:
    await desk.put(*["a"] * (1 + behind))
    fetchers = desk.fetchers(ORDERED)
    fetcher = fetchers._of("0")
    await desk.pauses(fetchers, 2)

    fetchers.freed("0")

    assert fetcher._alarm._set == behind
    await fetchers.stop()


async def test_what_ends_while_it_asks_is_looked_at_once_more(desk: Desk) -> None:
    await desk.put("a", "a")
    [head] = await desk.elsewhere()
    fetchers = desk.fetchers(ORDERED)
    fetcher = fetchers._of("0")
    desk.far.on_the_way = asyncio.Event()

    asking = asyncio.create_task(fetcher.turn())
    await desk.far.answered.wait()
    # The answer says that all have to wait, and when it comes that is no longer so.
    await desk.mailbox.settle([Settlement(head.claim, DONE)], "another")
    fetchers.freed("0")
    desk.far.on_the_way.set()
    await asking

    async with asyncio.timeout(60):
        assert await fetcher._alarm.sleep(3600.0)
    desk.turn(TRIP)
    await fetcher.turn()
    assert len(desk.in_hand()) == 1
    await fetchers.stop()


async def test_what_had_to_wait_is_found_although_younger_ones_went_before_it(desk: Desk) -> None:
    await desk.put("a", "a")
    [head] = await desk.elsewhere()
    fetchers = desk.fetchers(ORDERED)
    desk.turn(60 * SECOND)
    # A stream of work, in which it looks often and not everywhere.
    for key in ("b", "c"):
        await desk.put(key)
        await desk.pauses(fetchers, 1)
    assert [each.key for each in desk.in_hand()] == ["b", "c"]

    await desk.mailbox.settle([Settlement(head.claim, DONE)], "another")
    await desk.pauses(fetchers, 1)

    assert [each.key for each in desk.in_hand()] == ["b", "c", "a"]


@pytest.mark.parametrize(("hands", "told"), [(1, ["0"]), (10, [])])
async def test_others_are_told_of_an_end_only_where_they_may_be_of_use(
    desk: Desk, hands: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.fetchers._ROUSE_AFTER", 0.0)
    await desk.put("a", "a")
    fetchers = desk.fetchers(ORDERED, hands=hands)
    fetcher = fetchers._limited["0"]
    await desk.pauses(fetchers, 1)
    heard: list[str] = []
    desk.storage.doorbell.listen(heard.append)

    fetcher.freed("0")
    rousing = list(fetcher._rousing)
    # With hands free it looks by itself; what it did not take had to stay.
    await fetcher.turn()
    await asyncio.wait(rousing)
    await asyncio.sleep(0)

    assert heard == told
    assert not fetcher._rousing


async def test_a_process_has_one_suspect_of_each_group_on_probation_whoever_fetches_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.claims_in_hand.PROBATION", 3600.0)
    fetchers = desk.fetchers(None, ORDERED, Limits(rate=Rate(100, HOUR)))
    for group in ("0", "1", "2"):
        await desk.put("a", "b", group=group)
        await desk.elsewhere(group, 2, SECOND)

    for _ in range(4):
        desk.turn(2 * SECOND)
        await asyncio.gather(*(each.turn() for each in fetchers._all))

    assert sorted((each.group, each.suspect) for each in desk.in_hand()) == [("0", True), ("1", True), ("2", True)]


async def test_of_two_who_ask_at_once_one_takes_what_has_to_run_alone_and_the_other_nothing(desk: Desk) -> None:
    fetchers = desk.fetchers(None, ORDERED)
    for group in ("0", "1"):
        await desk.put("a", "b", group=group)
        await desk.elsewhere(group, 2, SECOND)
    desk.turn(2 * SECOND)
    for group in ("0", "0", "1", "1"):
        await desk.mailbox.reap([group], "another that died", SECOND)

    for _ in range(4):
        desk.turn(2 * SECOND)
        await asyncio.gather(*(each.turn() for each in fetchers._all))

    assert [(each.suspect, each.deaths) for each in desk.in_hand()] == [(True, 1)]


async def test_what_concerns_one_group_disturbs_no_other_fetcher(desk: Desk) -> None:
    fetchers = desk.fetchers(None, ORDERED, Limits(global_concurrency=1))
    for each in fetchers._all:
        await each._alarm.sleep(0.0)

    fetchers.rung("1")
    fetchers.due_again("2", SECOND)
    fetchers.rung("of another app")

    assert [each.name for each in fetchers._all] == ["fetcher", "fetcher of 1", "fetcher of 2"]
    assert [each._alarm._set for each in fetchers._all] == [False, True, True]
