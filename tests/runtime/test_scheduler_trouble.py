"""A scheduler whose database goes away, and one in a worker that is woken by what others do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Delivery
from mainspring.model.schedule import NEVER, Schedule
from mainspring.model.views import Declaration
from mainspring.runtime.handler import Run
from mainspring.runtime.schedules.declarations import Declared, Scheduling
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.worker import Worker
from tests.runtime.scheduling import HOURLY
from tests.runtime.stage import Stage

FAR = {**HOURLY, "rhythm": "at 2099-01-01T00:00:00+00:00", "misfire": "all"}
OFTEN = {**HOURLY, "rhythm": "every 100ms", "overlap": "allow", "misfire": "all"}
PATIENT = timedelta(minutes=5)
"""An idle poll so long that whatever happens soon was not found by it."""


class Faulty:
    """A timetable in front of another, with faults to order before a call."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.faults: dict[str, Exception] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name in self.faults:
                raise self.faults[name]
            return await getattr(self._inner, name)(*args, **named)

        return call


@pytest.fixture
def faulty(stage: Stage) -> Faulty:
    timetable = Faulty(stage.storage.timetable)
    stage.storage.timetable = timetable
    return timetable


async def nothing(_: Delivery, __: Run) -> None:
    return None


@asynccontextmanager
async def working(stage: Stage, call: Any = nothing, **declared: dict[str, Any]) -> AsyncIterator[Worker]:
    """A worker whose code has these schedules, around the block."""
    known = {name: Declared(layer) for name, layer in declared.items()}
    settings = WorkerSettings(idle_poll=PATIENT)
    declarations = [Declaration("work", "app", ("work",), "a test")]
    handlers = [stage.handler(call)]
    worker = Worker(stage.storage, handlers, declarations, settings, scheduling=Scheduling("app", known))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def failures(worker: Worker) -> int:
    loops = worker.progress()
    return max(loops["scheduler"].failures, loops["retiring"].failures)


async def test_it_goes_on_when_the_database_is_back(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "mainspring.worker")
    monkeypatch.setattr("mainspring.runtime.reports._SPACING", 3600.0)  # on a busy machine it may take seconds
    async with working(stage, report=OFTEN) as worker:
        await stage.until(lambda: len(stage.calls) >= 2)
        faulty.faults["tick"] = StorageUnavailable("the database is away")
        await stage.until(lambda: failures(worker) >= 3)
        seen = len(stage.calls)

        faulty.faults.clear()
        await stage.until(lambda: len(stage.calls) > seen)
        await stage.until(lambda: failures(worker) == 0)

    times = [delivery.scheduled_for for delivery in stage.calls]
    assert len(set(times)) == len(times)
    spread = max(times) - min(times)
    assert spread == (len(times) - 1) * timedelta(milliseconds=100)  # none was lost meanwhile
    assert sum("the database is away" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("operation", ["read", "rewrite", "declare"])
async def test_a_database_that_is_away_at_the_start_stops_nobody_from_starting(
    stage: Stage, faulty: Faulty, operation: str
) -> None:
    faulty.faults[operation] = StorageUnavailable("the database is away")
    async with working(stage, report=OFTEN) as worker:
        assert worker.ready
        await stage.publish()
        await stage.until(lambda: len(stage.calls) == 1)
        await stage.until(lambda: failures(worker) >= 2)

        faulty.faults.clear()

        await stage.until(lambda: len(stage.calls) > 1)
        assert stage.calls[1].headers is not None


async def test_a_fault_of_our_own_is_told_with_its_traceback_and_tried_again(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.reports._SPACING", 3600.0)  # on a busy machine it may take seconds
    faulty.faults["tick"] = AssertionError("cannot be")
    async with working(stage, report=OFTEN) as worker:
        await stage.until(lambda: failures(worker) >= 2)
        faulty.faults.clear()
        await stage.until(lambda: bool(stage.calls))

    (record,) = [record for record in caplog.records if "cannot be" in record.message]
    assert record.exc_info


async def test_reconciling_is_done_once_and_not_in_every_turn(stage: Stage, faulty: Faulty) -> None:
    async with working(stage, report=OFTEN):
        await stage.until(lambda: len(stage.calls) >= 3 and faulty.calls.count("tick") >= 4)

    assert (faulty.calls.count("read"), faulty.calls.count("rewrite"), faulty.calls.count("declare")) == (1, 1, 1)


async def test_an_edit_to_an_earlier_time_wakes_it_from_a_long_sleep(stage: Stage) -> None:
    async with working(stage, report=FAR) as worker:
        await stage.until(lambda: worker.progress()["scheduler"].turns >= 1)
        elsewhere = stage.storage.sibling()

        def sooner(_name: str, row: Schedule | None, now: datetime) -> Schedule:
            assert row is not None
            return replace(row, next_at=now + timedelta(milliseconds=50))

        await elsewhere.timetable.rewrite(["report"], sooner)

        await stage.until(lambda: len(stage.calls) == 1)
    assert stage.calls[0].scheduled_for < datetime(2099, 1, 1, tzinfo=UTC)


async def test_a_thaw_elsewhere_wakes_it(stage: Stage) -> None:
    await stage.storage.timetable.freeze("app", "ann", "")
    async with working(stage, report=OFTEN) as worker:
        await stage.until(lambda: worker.progress()["scheduler"].turns >= 1)
        assert stage.calls == []

        await stage.storage.sibling().timetable.thaw("app", "ann")

        await stage.until(lambda: bool(stage.calls))


async def waits(stage: Stage) -> bool:
    return any(row.due_at == NEVER for row in await stage.browse("live"))


async def test_the_end_of_a_run_starts_the_one_that_waited(stage: Stage) -> None:
    first_may_end = asyncio.Event()

    async def slow(_: Delivery, __: Run) -> None:
        await first_may_end.wait()

    async with working(stage, slow, report={**OFTEN, "overlap": "queue"}):
        await stage.until(lambda: len(stage.calls) == 1)
        await stage.until(lambda: waits(stage))
        assert len(stage.calls) == 1
        first_may_end.set()

        await stage.until(lambda: len(stage.calls) >= 3)


async def test_an_overlap_that_cancels_reaches_the_run_that_is_under_way(stage: Stage) -> None:
    ended: list[str] = []

    async def slow(delivery: Delivery, _: Run) -> None:
        if len(stage.calls) > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("stopped")
            raise

    async with working(stage, slow, report={**OFTEN, "rhythm": "every 300ms", "overlap": "cancel"}):
        await stage.until(lambda: len(stage.calls) >= 2)

    assert ended == ["stopped"]


async def test_stopping_ends_a_long_sleep_at_once(stage: Stage) -> None:
    async with asyncio.timeout(60), working(stage, report=FAR) as worker:
        await stage.until(lambda: worker.progress()["scheduler"].turns >= 1)
