"""Verdicts on rows that somebody else has locked: all others are written, and these as soon as they can be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring.model.message import ALL_LEVELS, Claim, ClaimRequest, Delivery, Extended, Settled
from mainspring.model.verdict import Settlement
from mainspring.runtime.handler import Run
from mainspring.storage.contract import Mailbox
from mainspring.storage.memory import MemoryStorage
from tests.runtime.stage import CLAIM_TIME, MILLISECOND, Stage


class Locked:
    """Memory with rows that a stranger has locked: they are passed over by whoever settles, extends or reaps."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.rows: set[int] = set()
        self.tries = 0
        self.lets_extend = True
        self.passed_over = asyncio.Event()
        mailbox = storage.mailbox
        self._settle, self._extend, self._reap = mailbox.settle, mailbox.extend, mailbox.reap
        self._stand_before(mailbox)
        sibling = storage.sibling

        def made() -> MemoryStorage:  # for the keeper
            other = sibling()
            self._stand_before(other.mailbox)
            return other

        storage.sibling = made  # type: ignore[method-assign]

    def _stand_before(self, mailbox: Mailbox) -> None:
        for name in ("settle", "extend", "reap"):
            setattr(mailbox, name, getattr(self, name))

    async def settle(self, settlements: Sequence[Settlement], owner: str) -> Settled:
        busy = frozenset(each.claim for each in settlements if each.claim.id in self.rows)
        if busy:
            self.tries += 1
            self.passed_over.set()
        answer = await self._settle([each for each in settlements if each.claim not in busy], owner)
        return Settled(answer.lost, answer.gone, busy)

    async def extend(self, claims: Sequence[Claim], owner: str, hold: timedelta) -> Extended:
        busy = frozenset(claim for claim in claims if claim.id in self.rows or not self.lets_extend)
        answer = await self._extend([claim for claim in claims if claim not in busy], owner, hold)
        return Extended(answer.lost, busy, answer.asked)

    async def reap(self, *args: Any, **options: Any) -> Delivery | None:
        return None if self.rows else await self._reap(*args, **options)


@pytest.fixture
def locked(stage: Stage) -> Locked:
    return Locked(stage.storage)


async def test_a_locked_row_keeps_no_other_verdict_waiting(stage: Stage, locked: Locked) -> None:
    async def lock_the_first(delivery: Delivery, _: Run) -> None:
        if not locked.rows:
            locked.rows.add(delivery.id)

    await stage.publish(50)
    async with stage.worker(stage.handler(lock_the_first, concurrency=1)):
        await stage.until(lambda: len(stage.calls) == 50)
        await stage.publish(50)
        await stage.until(lambda: len(stage.calls) == 100)
        await stage.until(left(stage, 1))

        locked.rows.clear()
        await stage.until(stage.empty)

    assert len({each.message_id for each in stage.calls}) == len(stage.calls) == 100


async def test_rows_that_stay_locked_take_no_hand_away(stage: Stage, locked: Locked) -> None:
    """More than the consumer may have in hand altogether."""

    async def lock_five(delivery: Delivery, _: Run) -> None:
        if len(locked.rows) < 5:
            locked.rows.add(delivery.id)

    await stage.publish(20)
    async with stage.worker(stage.handler(lock_five, concurrency=1)):
        await stage.until(lambda: len(stage.calls) == 20)
        await stage.until(left(stage, 5))

        locked.rows.clear()
        await stage.until(stage.empty)

    assert len(stage.calls) == 20


async def test_what_stays_locked_is_tried_now_and_then_and_not_without_a_pause(stage: Stage, locked: Locked) -> None:
    async def lock(delivery: Delivery, _: Run) -> None:
        locked.rows.add(delivery.id)

    await stage.publish()
    async with stage.worker(stage.handler(lock)) as worker:
        await locked.passed_over.wait()
        await stage.until(lambda: locked.tries >= 3)
        turns = worker.progress()["settler"].turns

        locked.rows.clear()
        await stage.until(stage.empty)

    # A turn may find that it is a moment too early; one without a pause would have turned thousands of times.
    assert turns <= 20 * locked.tries


async def test_a_verdict_whose_claim_lapsed_under_the_lock_is_written_and_nothing_runs_twice(
    stage: Stage, locked: Locked
) -> None:
    """Its own worker would find the lapsed claim first, since it looks more often, and leaves it alone."""
    reaped: list[Delivery] = []
    looked = asyncio.Event()

    async def lock(delivery: Delivery, _: Run) -> None:
        locked.rows.add(delivery.id)

    async def reap(*args: Any, **options: Any) -> Delivery | None:
        # It looks whenever the row is free, though the settler, which looks less often, never finds it so.
        if (found := await locked._reap(*args, **options)) is not None:
            reaped.append(found)
        looked.set()
        return found

    stage.storage.mailbox.reap = reap  # type: ignore[method-assign]
    await stage.publish()
    async with stage.worker(stage.handler(lock), claim_time=100 * MILLISECOND, idle_poll=10 * MILLISECOND):
        await stage.until(lambda: locked.tries >= 5)  # from here on the pauses are long
        await stage.until(lapsing(stage))
        for _ in range(3):
            looked.clear()
            await looked.wait()
        [row] = await stage.browse("live")

        locked.rows.clear()
        await stage.until(stage.empty)

    assert (len(stage.calls), reaped) == (1, [])
    assert (row.attempt, row.deaths) == (1, 0)


async def test_others_who_died_are_reaped_while_a_row_stays_locked(stage: Stage, locked: Locked) -> None:
    """The claim of what is locked lapses, and reaping must not stand still for it."""
    reap = locked._reap

    async def past_the_locked(groups: Sequence[str], owner: str, hold: timedelta, **options: Any) -> Delivery | None:
        return await reap(["other"], owner, hold, **options) if "other" in groups else None

    stage.storage.mailbox.reap = past_the_locked  # type: ignore[method-assign]
    await stage.declare("work", "other")

    async def lock(delivery: Delivery, _: Run) -> None:
        locked.rows.add(delivery.id)

    await stage.publish()
    handlers = stage.handler(lock), stage.handler(lambda _, __: None, group="other")
    async with stage.worker(*handlers, claim_time=100 * MILLISECOND, idle_poll=10 * MILLISECOND):
        await locked.passed_over.wait()
        await stage.until(lapsing(stage))

        # In one step, so that the worker cannot be faster.
        await stage.publish(topic="other")
        [orphan] = await stage.storage.mailbox.claim(
            [ClaimRequest("other", 1, ALL_LEVELS)], "one that dies", timedelta()
        )
        await stage.until(lambda: any(each.message_id == orphan.message_id for each in stage.calls))
        locked.rows.clear()
        await stage.until(stage.empty)


@pytest.mark.parametrize("deaths", [0, 1])
async def test_a_suspect_whose_row_stays_locked_keeps_no_other_suspect_waiting(
    stage: Stage, locked: Locked, deaths: int
) -> None:
    """It has ended: neither what was never suspected waits for it, nor what has to run alone."""
    mailbox, died = stage.storage.mailbox, timedelta()
    mailbox.reap = locked._reap  # type: ignore[method-assign]
    await stage.declare("work", "other")

    async def lapse(topic: str, deaths: int) -> None:
        await stage.publish(topic=topic)
        await mailbox.claim([ClaimRequest(topic, 1, ALL_LEVELS)], "one that dies", died)
        for _ in range(deaths):
            await locked._reap([topic], "one that dies", died)

    async def lock(delivery: Delivery, _: Run) -> None:
        locked.rows.add(delivery.id)

    await lapse("work", deaths)
    handlers = stage.handler(lock), stage.handler(lambda _, __: None, group="other")
    async with stage.worker(*handlers, idle_poll=10 * MILLISECOND):
        await locked.passed_over.wait()
        await lapse("other", 1 - deaths)
        await stage.until(lambda: len(stage.calls) == 2)
        locked.rows.clear()
        await stage.until(stage.empty)

    assert [(each.group, each.deaths) for each in stage.calls] == [("work", deaths), ("other", 1 - deaths)]


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_stranger_is_spoken_of_only_when_a_row_is_still_locked_at_the_second_try(
    stage: Stage, locked: Locked, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    """At the first it may have been our own keeper, which extends the claim."""

    async def lock(delivery: Delivery, _: Run) -> None:
        locked.rows.add(delivery.id)

    settle = locked.settle

    async def locked_for_some_tries(settlements: Sequence[Settlement], owner: str) -> Settled:
        answer = await settle(settlements, owner)
        if locked.tries >= tries:
            locked.rows.clear()
        return answer

    stage.storage.mailbox.settle = locked_for_some_tries  # type: ignore[method-assign]
    await stage.publish()
    async with stage.worker(stage.handler(lock)):
        await stage.until(lambda: locked.tries == tries)
        await stage.until(stage.empty)

    said = [each for each in caplog.records if "another session's open transaction" in each.getMessage()]
    assert len(said) == tries - 1


async def test_a_worker_stops_although_a_row_stays_locked_and_says_what_was_not_written(
    stage: Stage, locked: Locked, caplog: pytest.LogCaptureFixture
) -> None:
    async def lock(delivery: Delivery, _: Run) -> None:
        locked.rows.add(delivery.id)

    await stage.publish()
    worker = stage.make(stage.handler(lock), claim_time=CLAIM_TIME)
    await worker.start()
    await locked.passed_over.wait()

    async with asyncio.timeout(60):
        await worker.stop()

    assert any(each.getMessage().startswith("1 verdicts were not written") for each in caplog.records)
    assert len(await stage.browse("live")) == 1


def left(stage: Stage, count: int) -> Callable[[], Awaitable[bool]]:
    async def counted() -> bool:
        return len(await stage.browse("live")) == count

    return counted


def lapsing(stage: Stage) -> Callable[[], Awaitable[bool]]:
    async def lapsed() -> bool:
        return len(await stage.browse("lapsed")) > 0

    return lapsed
