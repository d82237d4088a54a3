"""Schedules that keep firing while the database is away, and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

import pytest

from mainspring.model.errors import SchemaMissing, StorageUnavailable
from mainspring.model.message import Delivery
from mainspring.model.views import Declaration, RunView
from mainspring.runtime import offline
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Batching, Run
from mainspring.runtime.schedules.declarations import Declared, Scheduling
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.worker import Worker
from tests.runtime.stage import Stage
from tests.runtime.test_scheduler_trouble import OFTEN, Faulty

AWAY = StorageUnavailable("the database is away")
TENTH = timedelta(milliseconds=100)


@pytest.fixture
def faulty(stage: Stage) -> Faulty:
    timetable = Faulty(stage.storage.timetable)
    stage.storage.timetable = timetable
    return timetable


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_PATIENCE", 2 * TENTH)


@asynccontextmanager
async def working(
    stage: Stage,
    call: Any,
    *,
    is_offline: bool = True,
    grace: timedelta = timedelta(minutes=1),
    others: Mapping[str, Declared] | None = None,
    **options: Any,
) -> AsyncIterator[Worker]:
    known = {"report": Declared({**OFTEN, "topic": "report"}, offline=is_offline), **(others or {})}
    worker = Worker(
        stage.storage,
        [stage.handler(call, **options)],
        [Declaration("work", "app", ("work",), "a test")],
        WorkerSettings(name="node-7", grace=grace),
        scheduling=Scheduling("app", known),
    )
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def gone(faulty: Faulty) -> None:
    faulty.faults = dict.fromkeys(("tick", "read", "rewrite", "declare"), AWAY)


async def runs(stage: Stage) -> list[RunView]:
    return [run for run in await stage.storage.ledger.runs(None, None, 1000, "report") if run.source == "offline"]


async def nothing(_: Delivery, __: Run) -> None:
    return None


async def test_it_fires_without_the_database_and_no_occurrence_of_it_is_made_up_for(
    stage: Stage, faulty: Faulty
) -> None:
    async with working(stage, nothing):
        await stage.until(lambda: len(stage.calls) >= 2)
        gone(faulty)
        await stage.until(lambda: sum(delivery.id < 0 for delivery in stage.calls) >= 4)
        faulty.faults.clear()
        seen = len(stage.calls)
        await stage.until(lambda: len(stage.calls) >= seen + 5)

    fired = [delivery.scheduled_for for delivery in stage.calls]
    alone = [delivery.scheduled_for for delivery in stage.calls if delivery.id < 0]
    reported = await runs(stage)
    assert len(alone) >= 4
    assert len(set(fired)) == len(fired)  # neither twice while it was away nor made up for afterwards
    assert {run.scheduled_for for run in reported} == set(alone)
    assert {(run.status, run.node, run.schedule, run.group) for run in reported} == {
        ("done", "node-7", "report", "work")
    }


async def test_a_handler_knows_its_schedule_and_a_failure_is_told_afterwards(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(delivery: Delivery, _: Run) -> None:
        if delivery.id < 0:
            raise ValueError(f"no luck for {delivery.headers and delivery.headers['mainspring-schedule']}")

    caplog.set_level(logging.WARNING, "mainspring.scheduler")
    async with working(stage, fails):
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: any(delivery.id < 0 for delivery in stage.calls))
        faulty.faults.clear()

        async with asyncio.timeout(60):
            while not (reported := await runs(stage)):
                await asyncio.sleep(0.01)

    assert reported[0].status == "failed"
    assert reported[0].error == "ValueError: no luck for report"
    assert any("runs were made while the database was away" in line for line in caplog.messages)


async def test_for_a_batch_consumer_it_is_a_batch_of_one(stage: Stage, faulty: Faulty) -> None:
    sizes: list[int] = []

    async def fails(delivery: Delivery, run: Run) -> list[Exception | None]:
        assert isinstance(run, Batch)
        if delivery.id < 0:
            sizes.append(len(run.runs))
        return [ValueError("no luck") for _ in run.runs]

    async def around(run: Run, perform: Callable[[], Awaitable[object]]) -> object:
        assert isinstance(run, Batch)
        return await perform()

    async with working(stage, fails, batching=Batching(10, 0.05), around=around):
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: len(sizes) >= 2)
        faulty.faults.clear()
        async with asyncio.timeout(60):
            while not (reported := await runs(stage)):
                await asyncio.sleep(0.01)

    assert set(sizes) == {1}
    assert {(run.status, run.error) for run in reported} == {("failed", "ValueError: no luck")}


async def test_a_schedule_that_is_not_marked_waits_for_the_database(stage: Stage, faulty: Faulty) -> None:
    async with working(stage, nothing, is_offline=False) as worker:
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: worker.progress()["scheduler"].failures >= 4)

    assert all(delivery.id > 0 for delivery in stage.calls)


async def test_a_short_outage_is_left_to_the_misfire_policy(
    stage: Stage, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "_PATIENCE", timedelta(minutes=1))
    async with working(stage, nothing) as worker:
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: worker.progress()["scheduler"].failures >= 3)
        faulty.faults.clear()
        seen = len(stage.calls)
        await stage.until(lambda: len(stage.calls) > seen)

    assert all(delivery.id > 0 for delivery in stage.calls)


async def test_one_that_still_runs_is_not_started_again(stage: Stage, faulty: Faulty) -> None:
    hold = asyncio.Event()

    async def slow(delivery: Delivery, _: Run) -> None:
        if delivery.id < 0:
            await hold.wait()

    async with working(stage, slow):
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: any(delivery.id < 0 for delivery in stage.calls))
        turns = len(faulty.calls)
        await stage.until(lambda: len(faulty.calls) > turns + 2)
        hold.set()

    assert sum(delivery.id < 0 for delivery in stage.calls) == 1


class Slow:
    """A handler whose runs without the database end when they may, or are stopped."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.stopped = 0

    async def __call__(self, delivery: Delivery, _: Run) -> None:
        if delivery.id < 0:
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.stopped += 1
                raise


async def test_at_the_end_it_may_finish_within_the_grace_and_is_reported(stage: Stage, faulty: Faulty) -> None:
    slow = Slow()
    async with working(stage, slow) as worker:
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: any(delivery.id < 0 for delivery in stage.calls))
        faulty.faults.clear()

        stopping = asyncio.create_task(worker.stop())
        await stage.until(lambda: not worker.ready)
        slow.may_end.set()
        await stopping

    assert slow.stopped == 0
    assert [run.status for run in await runs(stage)] == ["done"]


async def test_after_the_grace_it_is_cancelled_and_reported(stage: Stage, faulty: Faulty) -> None:
    slow = Slow()
    async with working(stage, slow, grace=timedelta()):
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: any(delivery.id < 0 for delivery in stage.calls))
        faulty.faults.clear()

    assert slow.stopped == 1
    (run,) = await runs(stage)
    assert (run.status, run.error, run.node) == ("cancelled", "its worker stopped", "node-7")


async def test_where_the_database_stays_away_it_is_said_how_many_nobody_will_know_of(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(stage, Slow(), grace=timedelta()):
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: any(delivery.id < 0 for delivery in stage.calls))

    assert await runs(stage) == []
    assert "1 runs made while the database was away are lost to the history" in caplog.messages


async def test_nothing_more_is_begun_while_the_worker_stops(stage: Stage, faulty: Faulty) -> None:
    slow = Slow()
    async with working(stage, slow) as worker:
        await stage.until(lambda: bool(stage.calls))
        gone(faulty)
        await stage.until(lambda: any(delivery.id < 0 for delivery in stage.calls))
        stopping = asyncio.create_task(worker.stop())
        await stage.until(lambda: not worker.ready)
        begun = len(stage.calls)
        slow.may_end.set()  # from here on there are free hands again
        await stopping

    assert len(stage.calls) == begun


async def test_it_fires_when_the_database_is_away_from_the_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    back = asyncio.Event()
    check = stage.storage.schema.check

    async def checked() -> None:
        if not back.is_set():
            raise AWAY
        await check()

    monkeypatch.setattr(stage.storage.schema, "check", checked)
    async with working(stage, nothing) as worker:
        await stage.until(lambda: len(stage.calls) >= 3)
        assert not worker.ready
        back.set()
        await stage.until(lambda: any(delivery.id > 0 for delivery in stage.calls))

    fired = [delivery.scheduled_for for delivery in stage.calls]
    assert len(set(fired)) == len(fired)
    alone = {delivery.scheduled_for for delivery in stage.calls if delivery.id < 0}
    assert {run.scheduled_for for run in await runs(stage)} == alone


class Calendar:
    """A function of ``holidays=`` that fails while what it reads is away."""

    def __init__(self) -> None:
        self.is_away = False

    def __call__(self, _: date) -> bool:
        if self.is_away:
            raise ConnectionError("no calendar")
        return False

    def schedule(self) -> dict[str, Declared]:
        # Its name sorts before the other's: what it raises would be raised first.
        definition = {**OFTEN, "topic": "audit", "holidays": ("code:shop.closed",)}
        return {"audit": Declared(definition, code={"holidays": (self,)}, offline=True)}


def ran(stage: Stage, topic: str, *, alone: bool) -> int:
    return sum(delivery.topic == topic and (delivery.id < 0) is alone for delivery in stage.calls)


async def test_a_calendar_that_fails_in_an_outage_stops_its_own_schedule_until_it_returns(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    calendar = Calendar()
    async with working(stage, nothing, others=calendar.schedule()) as worker:
        await stage.until(lambda: ran(stage, "audit", alone=False) > 0)
        calendar.is_away = True
        gone(faulty)
        await stage.until(lambda: ran(stage, "report", alone=True) >= 3)
        assert ran(stage, "audit", alone=True) == 0
        told = [line for line in caplog.messages if line.startswith("schedule audit: while the database is away, ")]

        calendar.is_away = False
        await stage.until(lambda: ran(stage, "audit", alone=True) >= 2)
        calendar.is_away = True  # it is not needed to report them
        faulty.faults.clear()
        seen = ran(stage, "report", alone=False)
        await stage.until(lambda: ran(stage, "report", alone=False) >= seen + 3)
        calendar.is_away = False
        assert worker.ready

    fired = [delivery.scheduled_for for delivery in stage.calls if delivery.topic == "audit"]
    assert len(set(fired)) == len(fired)
    assert "holidays: shop.closed failed for " in told[0]
    assert told[0].endswith("ConnectionError: no calendar")
    assert len(told) == len(set(told))  # once for as long as it stays the same


async def test_a_calendar_that_fails_at_the_start_stops_no_worker_from_starting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, calendar = asyncio.Event(), Calendar()
    check = stage.storage.schema.check
    calendar.is_away = True

    async def checked() -> None:
        if not back.is_set():
            raise AWAY
        await check()

    monkeypatch.setattr(stage.storage.schema, "check", checked)
    async with working(stage, nothing, others=calendar.schedule()) as worker:
        await stage.until(lambda: ran(stage, "report", alone=True) >= 2)
        back.set()
        await stage.until(lambda: worker.ready)
        await stage.until(lambda: ran(stage, "report", alone=False) >= 1)


async def test_a_database_that_responds_without_a_schema_is_not_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem: list[Exception] = [AWAY]
    checks: list[int] = []

    async def checked() -> None:
        checks.append(len(stage.calls))
        raise problem[0]

    monkeypatch.setattr(stage.storage.schema, "check", checked)
    async with working(stage, nothing):
        await stage.until(lambda: len(stage.calls) >= 2)
        problem[0] = SchemaMissing(0, 1)
        seen = len(checks)
        await stage.until(lambda: len(checks) >= seen + 4)

    first, *_, last = checks[seen + 1 :]  # a run may have begun before the first response
    assert last == first


async def test_a_worker_that_never_reached_its_database_stops_its_offline_runs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    async def endless(_: Delivery, __: Run) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def away() -> None:
        raise AWAY

    monkeypatch.setattr(stage.storage.schema, "check", away)
    async with working(stage, endless, grace=TENTH):
        await stage.until(lambda: bool(stage.calls))

    assert stopped.is_set()
