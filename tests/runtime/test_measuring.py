"""What a worker counts: every end once, each with how long it waited and ran; and it is told within a second."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mainspring.model.errors import StorageUnavailable
from mainspring.model.measures import Bucket, Measure, Sums, by_time
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.model.verdict import DONE, Cancel, Snooze
from mainspring.model.views import Beat
from mainspring.runtime.handler import Run
from mainspring.runtime.janitor import Reporting
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.memory import MemoryStorage
from mainspring.telemetry.measures import Meter
from mainspring.timing.backoff import intervals
from mainspring.timing.clock import HandClock
from tests.runtime.batching import Batches, nothing
from tests.runtime.stage import MILLISECOND, Stage

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LATE = 21 * SECOND
"""In the bin from 20 to 50 seconds, however busy the machine is."""
LATE_BIN = 17


async def measured(stage: Stage) -> Bucket:
    """All that was reported in the last two hours."""
    sums: Sums[datetime] = await stage.storage.measures.read(10, timedelta(hours=2), "")
    return by_time(sums, "2h").total


async def handle(_: Delivery, __: Run) -> None:
    return None


async def test_every_end_is_counted_as_what_it_is(stage: Stage) -> None:
    [done, again, dead, later, dropped] = await stage.publish(5)
    answers: dict[uuid.UUID, Callable[[int], object]] = {
        done: lambda _: DONE,
        again: lambda attempt: _raised(ValueError("once")) if attempt == 1 else None,
        dead: lambda _: _raised(LookupError("never")),
        later: lambda _: (
            Snooze(MILLISECOND) if len([each for each in stage.calls if each.message_id == later]) == 1 else None
        ),
        dropped: lambda _: Cancel("no need"),
    }

    async def answer(delivery: Delivery, _: Run) -> object:
        return answers[delivery.message_id](delivery.attempt)

    async with stage.worker(stage.handler(answer, retry=intervals(0.001))):
        await stage.until(stage.empty)

    counted = await measured(stage)
    # One done, one failed and then done, one failed and then dead, one snoozed and then done, one cancelled.
    assert (counted.done, counted.failed, counted.dead, counted.snoozed, counted.cancelled) == (3, 2, 1, 1, 1)
    assert (counted.wait.total, counted.run.total) == (8, 8)
    (counts,) = (await stage.storage.ledger.tally()).groups
    assert (counts.handled, counts.failed) == (3, 3)


async def test_the_wait_is_counted_from_when_it_was_due(stage: Stage) -> None:
    stage.storage.now = NOON
    await stage.publish()
    await stage.publish(delay=LATE)
    stage.storage.now = NOON + LATE

    async with stage.worker(stage.handler(handle)):
        await stage.until(stage.empty)

    counted = await measured(stage)
    assert (counted.done, counted.wait.total) == (2, 2)
    assert counted.wait.counts[LATE_BIN] == 1


async def test_a_message_that_waits_for_a_hand_waits_by_our_own_clock(stage: Stage) -> None:
    gate = asyncio.Event()

    async def wait(_: Delivery, __: Run) -> None:
        await gate.wait()

    stage.storage.now = NOON
    await stage.publish(2)
    async with stage.worker(stage.handler(wait, concurrency=2)) as worker:
        await stage.until(lambda: len(stage.calls) == 2)
        [first, second] = worker._by_group["work"].running()
        # As if both had been claimed so long before they were begun.
        for run in (first, second):
            assert run.arrived is not None
            run.arrived -= LATE.total_seconds()
        gate.set()
        await stage.until(stage.empty)

    assert (await measured(stage)).wait.counts[LATE_BIN] == 2


async def test_what_has_expired_was_neither_waited_for_nor_run(stage: Stage) -> None:
    stage.storage.now = NOON
    await stage.publish(expires_in=SECOND)
    stage.storage.now = NOON + 2 * SECOND

    async with stage.worker(stage.handler(handle)):
        await stage.until(stage.empty)

    assert await measured(stage) == Bucket((await measured(stage)).at, cancelled=1)


async def test_what_is_handed_back_is_not_counted(stage: Stage) -> None:
    async def wait(_: Delivery, __: Run) -> None:
        await asyncio.Event().wait()

    await stage.publish(3)
    async with stage.worker(stage.handler(wait, concurrency=2), grace=timedelta()):
        await stage.until(lambda: len(stage.calls) == 2)

    assert len(await stage.browse("ready")) == 3
    assert (await measured(stage)).ended == 0
    assert (await measured(stage)).wait.total == 0


async def test_every_message_of_a_batch_has_its_own_wait_and_the_run_of_all(stage: Stage) -> None:
    work = Batches(nothing, size=3)
    stage.storage.now = NOON
    await stage.publish(2)
    stage.storage.now = NOON + LATE
    await stage.publish()

    async with stage.worker(work.handler):
        await stage.until(stage.empty)

    counted = await measured(stage)
    assert work.sizes() == [3]
    assert (counted.done, counted.wait.total) == (3, 3)
    assert counted.wait.counts[LATE_BIN] == 2
    assert sorted(counted.run.counts)[-2:] == [0, 3]


async def test_a_suspect_has_waited_since_its_claim_lapsed(stage: Stage) -> None:
    stage.storage.now = NOON
    await stage.publish()
    await stage.storage.mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "died", SECOND)
    stage.storage.now = NOON + SECOND + LATE

    async with stage.worker(stage.handler(handle)):
        await stage.until(stage.empty)

    counted = await measured(stage)
    assert (counted.done, counted.wait.counts[LATE_BIN]) == (1, 1)


async def test_a_busy_worker_tells_while_it_works(stage: Stage) -> None:
    async def told() -> bool:
        return (await measured(stage)).done == 1

    async with stage.worker(stage.handler(handle)):
        await stage.publish()
        await stage.until(told)
        await stage.publish()
        await stage.until(stage.empty)

    assert (await measured(stage)).done == 2


# --- reports ---------------------------------------------------------------------------------------------


class Beats:
    """``Upkeep`` that notes the beats, and fails while it is told to."""

    def __init__(self) -> None:
        self.taken: list[Beat] = []
        self.away = False
        self._upkeep = MemoryStorage().upkeep

    async def beat(self, beat: Beat) -> object:
        self.taken.append(beat)
        answer = await self._upkeep.beat(beat)
        if self.away:
            raise StorageUnavailable("the reply was lost")
        return answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._upkeep, name)


def keeping(upkeep: Beats, clock: HandClock) -> tuple[Reporting, Meter]:
    meter = Meter()

    def beat() -> Beat:
        runs, measures = meter.take()
        return Beat("node-1", "shop", "host", 1, (), 0, "poll", runs, measures=measures)

    return Reporting(upkeep, beat, RateLimitedLog(clock), clock, meter), meter  # type: ignore[arg-type]


async def test_an_idle_worker_beats_with_its_rounds_and_no_oftener() -> None:
    upkeep, clock = Beats(), HandClock(NOON)
    reporting, _ = keeping(upkeep, clock)

    pause = await reporting.turn()
    clock.advance(SECOND)
    await reporting.turn()

    assert 4.0 <= pause <= 5.0
    assert len(upkeep.taken) == 1


async def test_news_is_told_a_second_after_the_last_report() -> None:
    upkeep, clock = Beats(), HandClock(NOON)
    reporting, meter = keeping(upkeep, clock)
    await reporting.turn()
    meter.count("work", DONE)

    clock.advance(SECOND / 4)
    pause = await reporting.turn()
    told_too_soon = len(upkeep.taken)
    clock.advance(timedelta(seconds=pause))
    await reporting.turn()

    assert (pause, told_too_soon) == (0.75, 1)
    assert [beat.measures for beat in upkeep.taken] == [(), (Measure("work", "done", 0, 1),)]


async def test_a_report_that_fails_is_sent_again_as_it_was_and_what_came_since_follows() -> None:
    upkeep, clock = Beats(), HandClock(NOON)
    reporting, meter = keeping(upkeep, clock)
    meter.count("work", DONE)
    upkeep.away = True
    try:
        await reporting.turn()
    except StorageUnavailable:
        meter.count("work", DONE)

    upkeep.away = False
    await reporting.deregister()

    one = (Measure("work", "done", 0, 1),)
    assert [beat.measures for beat in upkeep.taken] == [one, one, one]


def _raised(error: Exception) -> object:
    raise error
