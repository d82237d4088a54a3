"""Runs that go on although they were told to stop: told again, named in the log and in health, and counted."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Check, Context, Health, HealthLimits, Mainspring, events
from mainspring.model.message import Delivery
from mainspring.runtime import overruns
from mainspring.runtime.handler import Run
from tests.runtime.batching import Batches
from tests.runtime.stage import Stage

MILLISECONDS = timedelta(milliseconds=20)
_LONGEST = 70.0
"""Seconds after which it lets go of itself: a test that fails has an end as well."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overruns, "PATIENCE", 0.05)
    monkeypatch.setattr("mainspring.runtime.reports._SPACING", 0.0)


class Stubborn:
    """What swallows its cancellation until it is let go; ``swallowed`` counts."""

    def __init__(self) -> None:
        self.swallowed = 0
        self._freed = asyncio.Event()

    async def hang(self, *_: object) -> None:
        asyncio.get_running_loop().call_later(_LONGEST, self.let_go)
        while not self._freed.is_set():
            try:
                await self._freed.wait()
            except asyncio.CancelledError:
                self.swallowed += 1

    def let_go(self) -> None:
        self._freed.set()


async def test_a_coroutine_that_swallows_its_cancellation_is_cancelled_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()

    async with stage.worker(stage.handler(stubborn.hang, timeout=MILLISECONDS, concurrency=1)) as worker:
        [stuck] = await stage.publish()
        await stage.until(lambda: stubborn.swallowed == 3)
        stubborn.let_go()
        await stage.until(stage.empty)
        assert not worker.overrunning()

    [run] = await stage.runs()
    assert (run.status, run.kind) == ("dead", "timeout")
    assert f"work: message {stuck} is overrunning: it was asked to stop " in caplog.text
    assert "(timeout) and continues; it swallows its cancellation, and is cancelled again" in caplog.text


async def test_its_hand_and_its_claim_are_kept_while_it_goes_on(stage: Stage) -> None:
    stubborn = Stubborn()

    async def handle(_: Delivery, __: Run) -> None:
        if len(stage.calls) == 1:
            await stubborn.hang()

    handlers = stage.handler(handle, timeout=MILLISECONDS, concurrency=1), stage.handler(handle, group="other")
    async with stage.worker(*handlers, claim_time=timedelta(seconds=1.5)) as worker:
        [first] = await stage.publish()
        await stage.until(lambda: bool(worker.overrunning()))
        [second] = await stage.publish()
        await stage.publish(topic="other")
        await stage.until(lambda: len(stage.calls) == 2)  # so that all groups were looked at since

        named = worker.overrunning()
        states = {each.message_id: each.state for each in await stage.browse("live")}
        stubborn.let_go()
        await stage.until(stage.empty)

    assert [(each.group, each.message_id, each.reason) for each in named] == [("work", first, "timeout")]
    assert (states[first], states[second]) == ("running", "ready")
    assert [each.group for each in stage.calls] == ["work", "other", "work"]


async def test_one_that_cleans_up_in_time_is_not_told_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overruns, "PATIENCE", 60.0)
    cleaned = 0

    async def handle(_: Delivery, __: Run) -> None:
        nonlocal cleaned
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _turn in range(20):
                await asyncio.sleep(0.005)
            cleaned += 1
            raise

    async with stage.worker(stage.handler(handle, timeout=MILLISECONDS)) as worker:
        await stage.publish()
        await stage.until(stage.empty)
        assert not worker.overrunning()

    assert cleaned == 1


async def test_a_batch_that_swallows_its_cancellation_is_told_again(stage: Stage) -> None:
    stubborn = Stubborn()
    batches = Batches(stubborn.hang, size=1, timeout=MILLISECONDS)

    async with stage.worker(batches.handler) as worker:
        await stage.publish()
        await stage.until(lambda: bool(worker.overrunning()) and stubborn.swallowed == 2)
        stubborn.let_go()
        await stage.until(stage.empty)


async def test_a_cancelled_message_whose_handler_goes_on_is_overrunning_too(stage: Stage) -> None:
    stubborn = Stubborn()

    async with stage.worker(stage.handler(stubborn.hang, concurrency=1)) as worker:
        [asked] = await stage.publish()
        await stage.until(lambda: len(stage.calls) == 1)
        await stage.storage.mailbox.cancel(asked, "not wanted")
        worker._keeper.check_soon()
        await stage.until(lambda: [each.reason for each in worker.overrunning()] == ["cancelled"])
        await stage.until(lambda: stubborn.swallowed == 2)
        stubborn.let_go()
        await stage.until(stage.empty)


async def found(app: Mainspring, name: str, **limits: Any) -> Check | None:
    answer: Health = await app.health(HealthLimits(**limits)) if limits else await app.health()
    return next((check for check in answer.checks if check.name == name), None)


async def until_found(app: Mainspring, name: str) -> Check:
    async with asyncio.timeout(60):
        while (check := await found(app, name)) is None:
            await asyncio.sleep(0.01)
    return check


@pytest.mark.parametrize("threaded", [False, True])
async def test_health_names_the_one_that_overruns_the_longest(threaded: bool) -> None:
    app = Mainspring("memory://", name="shop", namespace="n")
    done, freed, stubborn = asyncio.Event(), threading.Event(), Stubborn()

    async def hang(_: Any) -> None:
        await stubborn.hang()

    def hang_in_thread(_: Any) -> None:
        freed.wait(60)

    app.consumer("work", group="work", timeout=MILLISECONDS, retry="none")(hang_in_thread if threaded else hang)
    app.on(events.Dead, lambda _: done.set())
    async with app.worker():
        receipt = await app.publish("work", 1)
        check = await until_found(app, "overrunning")
        freed.set()
        stubborn.let_go()
        await asyncio.wait_for(done.wait(), 60)
        after = await found(app, "overrunning")

    assert (check.status, after) == ("degraded", None)
    assert f"1 running despite a stop request, the longest message {receipt.id} of work, sent " in check.summary
    assert (check.data["count"], check.data["group"], check.data["message_id"]) == (1, "work", str(receipt.id))


async def test_of_two_that_overrun_health_names_the_one_that_was_told_first() -> None:
    app = Mainspring("memory://", name="shop", namespace="n")
    stubborn = Stubborn()

    @app.consumer("work", group="work", timeout=MILLISECONDS, retry="none", concurrency=2)
    async def hang(_: Any) -> None:
        await stubborn.hang()

    async with app.worker():
        first = await app.publish("work", 1)
        await until_found(app, "overrunning")
        await app.publish("work", 2)
        async with asyncio.timeout(60):
            while (check := await until_found(app, "overrunning")).data["count"] != 2:
                await asyncio.sleep(0.01)
        stubborn.let_go()

    assert check.data["message_id"] == str(first.id)


@pytest.mark.parametrize("jitter", ["0s", "10s"])
async def test_health_names_a_schedule_that_a_run_of_its_own_keeps_silent(jitter: str) -> None:
    app = Mainspring("memory://", name="shop")
    told: list[Check | None] = []

    @app.recurring("* * * * *", name="sweep", timeout=None, jitter=jitter)
    async def sweep(ctx: Context) -> None:
        for minutes in ("1m", "3m", "2m"):
            kit.elapse(minutes)
            told.append(await found(app, "schedules"))
        told.append(
            await found(
                app, "schedules", **dict.fromkeys(("silenced_after", "schedule_overdue_after"), timedelta(hours=1))
            )
        )

    async with app.testing() as kit:
        await kit.advance("70s")
        [run] = kit.runs
        told.append(await found(app, "schedules"))

    assert [check and check.status for check in told] == ["healthy", "healthy", "degraded", "healthy", "healthy"]
    assert told[2] is not None
    assert f"sweep is blocked by an unfinished run, the longest message {run.message_id} of " in (told[2].summary)
    assert told[2].data["silent"] == ["sweep"]


async def test_a_worker_with_a_loop_that_has_ended_is_unhealthy() -> None:
    app = Mainspring("memory://", name="shop")
    app.consumer("work", group="work")(repr)
    async with app.worker() as worker:
        [fetching] = [task for task in asyncio.all_tasks() if task.get_name() == "mainspring-fetcher"]
        fetching.cancel()
        async with asyncio.timeout(60):
            while worker.ready:
                await asyncio.sleep(0.005)
        check = await found(app, "worker")

    assert check is not None
    assert check.status == "unhealthy"
    assert check.summary == "fetcher: RuntimeError: its loop has ended: restart the worker"
