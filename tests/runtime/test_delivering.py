"""From a published message to its verdict, through every loop of a real worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainspring.model.errors import Unreadable
from mainspring.model.message import Delivery, Priority, Settled
from mainspring.model.verdict import Cancel, Done, Settlement, Snooze, Verdict
from mainspring.model.views import Declaration
from mainspring.runtime import wakeup
from mainspring.runtime.handler import Run
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.settler import BATCH
from mainspring.runtime.worker import Worker
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.events import Completed
from mainspring.timing.backoff import exponential, intervals
from tests.runtime.stage import MILLISECOND, Stage


async def nothing(_: Delivery, __: Run) -> None:
    return None


@pytest.fixture
def rarely(monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """An idle poll longer than any test waits, from the first one on: whatever happens was not found by it."""
    poll = timedelta(minutes=10)
    for name in ("_FIRST_POLL", "_BLIND_POLL"):
        monkeypatch.setattr(wakeup, name, poll.total_seconds())
    return poll


async def test_a_published_message_is_handled_and_forgotten(stage: Stage) -> None:
    [message_id] = await stage.publish()

    async with stage.worker(stage.handler(nothing)):
        await stage.until(stage.empty)

    assert [call.message_id for call in stage.calls] == [message_id]
    assert await stage.runs() == []


async def test_what_is_published_while_the_worker_sleeps_is_picked_up_at_once(stage: Stage, rarely: timedelta) -> None:
    async with stage.worker(stage.handler(nothing), idle_poll=rarely) as worker:
        await stage.until(lambda: worker.progress()["fetcher"].idle_for > 0.02)
        await stage.publish()
        await stage.until(stage.empty)

    assert len(stage.calls) == 1


async def test_what_was_claimed_together_and_never_waits_is_settled_in_one_batch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    settle = stage.storage.mailbox.settle

    async def counted(settlements: Sequence[Settlement], owner: str) -> Settled:
        batches.append(len(settlements))
        return await settle(settlements, owner)

    monkeypatch.setattr(stage.storage.mailbox, "settle", counted)
    await stage.declare("work")
    await stage.publish(BATCH)

    async with stage.worker(stage.handler(nothing, concurrency=2 * BATCH)):
        await stage.until(stage.empty)

    assert batches == [BATCH]


async def test_a_failure_is_tried_again_when_its_time_has_come_and_every_error_is_kept(stage: Stage) -> None:
    async def flaky(delivery: Delivery, _: Run) -> None:
        if delivery.attempt < 3:
            raise ValueError(f"attempt {delivery.attempt}")

    await stage.publish()
    async with stage.worker(stage.handler(flaky, retry=intervals(0.02, 0.03))):
        await stage.until(stage.empty)

    runs, later = await stage.runs(), stage.calls[1:]
    assert [call.attempt for call in stage.calls] == [1, 2, 3]
    assert [(run.status, run.error) for run in runs] == [
        ("failed", "ValueError: attempt 1"),
        ("failed", "ValueError: attempt 2"),
    ]
    waited = [call.due_at - run.finished_at for call, run in zip(later, runs, strict=True)]
    assert waited == [20 * MILLISECOND, 30 * MILLISECOND]
    assert all(call.claimed_at >= call.due_at for call in later)


async def test_an_exhausted_message_is_buried_with_its_traceback(stage: Stage) -> None:
    async def broken(_: Delivery, __: Run) -> None:
        raise LookupError("no such order")

    await stage.publish()
    async with stage.worker(stage.handler(broken)):
        await stage.until(stage.empty)

    [dead] = await stage.browse("dead")
    [run] = await stage.runs()
    assert dead.error == "LookupError: no such order"
    assert run.status == "dead"
    assert "no such order" in (run.traceback or "")


async def test_an_unreadable_message_is_buried_and_its_neighbours_are_not_disturbed(stage: Stage) -> None:
    [bad, *good] = await stage.publish(20)

    async def read(delivery: Delivery, _: Run) -> None:
        if delivery.message_id == bad:
            raise Unreadable("expected `int`, got `str` - at `$.order_id`")

    async with stage.worker(stage.handler(read)):
        await stage.until(stage.empty)

    [dead] = await stage.browse("dead")
    assert (dead.message_id, len(stage.calls)) == (bad, 20)
    assert {run.kind for run in await stage.runs()} == {"unreadable"}
    assert len(good) == 19


@pytest.mark.parametrize(
    ("verdict", "status"),
    [(Done("42 rows"), "done"), (Cancel("obsolete"), "cancelled"), ("anything else", "done"), (None, "done")],
)
async def test_a_returned_outcome_is_what_the_history_says(stage: Stage, verdict: object, status: str) -> None:
    async def handle(_: Delivery, __: Run) -> object:
        return verdict

    await stage.publish()
    async with stage.worker(stage.handler(handle, keep="all")):
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert run.status == status
    assert run.output == ("42 rows" if isinstance(verdict, Done) else None)


async def test_a_snooze_comes_back_without_counting_an_attempt(stage: Stage) -> None:
    async def handle(_: Delivery, __: Run) -> Verdict | None:
        return Snooze("20ms") if len(stage.calls) == 1 else None

    await stage.publish()
    async with stage.worker(stage.handler(handle)):
        await stage.until(stage.empty)

    assert [call.attempt for call in stage.calls] == [1, 1]


async def test_an_expired_message_is_cancelled_without_running(stage: Stage) -> None:
    await stage.publish(expires_in=timedelta())

    async with stage.worker(stage.handler(nothing)):
        await stage.until(stage.empty)

    [run] = await stage.runs()
    assert (stage.calls, run.status, run.error) == ([], "cancelled", "expired before it could run")


async def test_an_error_that_is_not_forgiven_is_buried_at_once(stage: Stage) -> None:
    async def broken(_: Delivery, __: Run) -> None:
        raise KeyError("no")

    await stage.publish()
    async with stage.worker(stage.handler(broken, retry=exponential("1s", give_up_on=(KeyError,)))):
        await stage.until(stage.empty)

    assert len(await stage.browse("dead")) == 1


async def test_plain_functions_run_in_threads_up_to_their_concurrency(stage: Stage) -> None:
    together = threading.Barrier(4, timeout=60)
    names: set[str] = set()

    def handle(_: Delivery, __: Run) -> None:
        together.wait()
        names.add(threading.current_thread().name)

    await stage.publish(8)
    async with stage.worker(stage.handler(handle, threaded=True, concurrency=4)):
        await stage.until(stage.empty)

    assert len(stage.calls) == 8
    assert len(names) == 4


async def test_never_more_run_at_once_than_the_concurrency_allows(stage: Stage) -> None:
    running = most = 0
    all_at_work = asyncio.Event()

    async def handle(_: Delivery, __: Run) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 7:
            all_at_work.set()
        await all_at_work.wait()
        await asyncio.sleep(0.001)
        running -= 1

    await stage.publish(60)
    async with stage.worker(stage.handler(handle, concurrency=7)):
        await stage.until(stage.empty)

    assert (len(stage.calls), most) == (60, 7)


async def test_a_delayed_message_starts_when_it_is_due_and_not_at_the_next_poll(
    stage: Stage, rarely: timedelta
) -> None:
    async with stage.worker(stage.handler(nothing), idle_poll=rarely):
        await stage.publish(delay=100 * MILLISECOND)
        await stage.until(stage.empty)

    [call] = stage.calls
    assert call.claimed_at >= call.scheduled_for


async def test_urgent_messages_come_first_and_low_ones_are_not_starved(stage: Stage) -> None:
    await stage.publish(200, priority=Priority.URGENT)
    await stage.publish(5, priority=Priority.LOW)

    async with stage.worker(stage.handler(nothing, concurrency=4)):
        await stage.until(stage.empty)

    order = [call.priority for call in stage.calls]
    assert order[:4] == [Priority.URGENT] * 4
    assert Priority.LOW in order[:150]


async def test_a_handler_that_cancels_itself_fails_alone(stage: Stage) -> None:
    async def suicidal(_: Delivery, __: Run) -> None:
        if len(stage.calls) == 1:
            raise asyncio.CancelledError

    await stage.publish(3)
    async with stage.worker(stage.handler(suicidal, concurrency=1)):
        await stage.until(stage.empty)

    [dead] = await stage.browse("dead")
    assert dead.error == "RuntimeError: the handler raised CancelledError, but was not cancelled"
    assert len(stage.calls) == 3


async def test_a_pending_self_cancellation_does_not_reach_the_next_message(stage: Stage) -> None:
    async def sly(_: Delivery, __: Run) -> None:
        if len(stage.calls) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    await stage.publish(1)
    async with stage.worker(stage.handler(sly, concurrency=1)):
        await stage.until(stage.empty)
        await stage.publish(2)
        await stage.until(stage.empty)

    assert await stage.browse("dead") == []
    assert len(stage.calls) == 3


async def test_an_idle_group_does_not_put_a_busy_one_to_sleep(stage: Stage, rarely: timedelta) -> None:
    """One consumer has more waiting than hands, the other nothing at all: the first must not wait for polls."""
    await stage.declare("work", "idle")
    await stage.publish(30)

    async def handle(_: Delivery, __: Run) -> None:
        await asyncio.sleep(0.002)

    busy, idle = stage.handler(handle, concurrency=1), stage.handler(nothing, group="idle")
    async with stage.worker(busy, idle, idle_poll=rarely):
        await stage.until(stage.empty)

    assert len(stage.calls) == 30


async def test_a_hook_that_subscribes_after_the_worker_was_made_gets_its_events(stage: Stage) -> None:
    bus, heard = Bus(), list[Completed]()
    declaration = Declaration("work", "app", ("work",), "a test")
    worker = Worker(stage.storage, [stage.handler(nothing)], [declaration], WorkerSettings(), bus=bus)
    bus.subscribe(Completed, heard.append)

    await worker.start()
    [message_id] = await stage.publish()
    await stage.until(lambda: bool(heard))
    await worker.stop()

    assert [event.message_id for event in heard] == [message_id]
