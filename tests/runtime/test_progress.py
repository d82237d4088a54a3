"""What a handler says of its run is seen while it runs, wherever it runs and whatever it does to the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Progress
from mainspring.model.views import DeliveryView
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.handler import Run
from mainspring.runtime.keeper import Keeper
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.memory import MemoryStorage
from mainspring.storage.sqlite import SqliteOperationSet
from mainspring.timing.clock import SystemClock
from tests.runtime.spawned import handler, publish
from tests.runtime.stage import Stage


def seen(stage: Stage, text: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return [each.progress for each in await stage.browse("running")] == [text]

    return look


class Noted:
    """Notes every report, and refuses as many as it is told to."""

    def __init__(self) -> None:
        self.reports: list[list[str]] = []
        self.refused = 0

    def operations(self, *args: Any) -> SqliteOperationSet:
        operations = SqliteOperationSet(*args)
        stored = operations.upkeep.report

        async def report(progress: Sequence[Progress], owner: str) -> None:
            self.reports.append([each.text for each in progress])
            if self.refused:
                self.refused -= 1
                raise StorageUnavailable("away")
            await stored(progress, owner)

        vars(operations.upkeep)["report"] = report
        return operations


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Every storage of this test reports through it."""
    noted = Noted()
    monkeypatch.setattr("mainspring.storage.memory.SqliteOperationSet", noted.operations)
    return noted


async def test_a_coroutine_is_seen_getting_on(stage: Stage) -> None:
    async def work(_: Delivery, run: Run) -> None:
        run.report("1 of 2")
        await stage.until(seen(stage, "1 of 2"))
        run.report(2)
        await stage.until(seen(stage, "2"))

    await stage.publish()
    async with stage.worker(stage.handler(work)):
        await stage.until(stage.empty)

    assert len(stage.calls) == 1


async def test_a_thread_is_seen_getting_on(stage: Stage) -> None:
    go_on = threading.Event()

    def work(_: Delivery, run: Run) -> None:
        run.report("half")
        go_on.wait(60)

    await stage.publish()
    async with stage.worker(stage.handler(work, threaded=True)):
        await stage.until(seen(stage, "half"))
        go_on.set()
        await stage.until(stage.empty)


async def test_who_blocks_the_loop_is_seen_all_the_same(stage: Stage) -> None:
    views: list[DeliveryView] = []

    def watch() -> None:
        # In a thread with a loop of its own: the worker's stands still until this has seen it.
        async def look() -> None:
            await stage.until(seen(stage, "half"))
            views.extend(await stage.browse("running"))

        asyncio.run(look())

    async def work(_: Delivery, run: Run) -> None:
        run.report("half")
        watching = threading.Thread(target=watch)
        watching.start()
        watching.join()

    await stage.publish()
    async with stage.worker(stage.handler(work)):
        await stage.until(stage.empty)

    assert [view.progress for view in views] == ["half"]


async def test_a_process_is_seen_getting_on(stage: Stage, tmp_path: Path) -> None:
    told = tmp_path / "told"
    await publish(stage, {"until": str(told)}, {"until": str(told)})

    async with stage.worker(handler("say_and_wait", concurrency=1)):
        # The latest of what it has said, and the half character that no frame can carry.
        await stage.until(seen(stage, "attempt 1, 99 of 100 \\ud800"))
        told.touch()
        await stage.until(stage.empty)

    # What it said just before its end was not taken for an answer, nor for the next run's.
    assert [(run.status, run.output) for run in await stage.runs()] == [("done", "said"), ("done", "said")]


async def test_all_that_changed_goes_in_one_trip_and_nothing_goes_twice(noted: Noted) -> None:
    stage, in_hand = await opened(), ClaimsInHand()
    keeper = Keeper(
        stage.storage,
        in_hand,
        "here",
        timedelta(minutes=1),
        on_lost=lambda _: None,
        on_cancel=lambda _: None,
        log=RateLimitedLog(SystemClock()),
        clock=SystemClock(),
    )
    await stage.publish(3)
    runs = [Run(each, stage.handler(print), inf) for each in await claimed(stage)]
    for run in runs:
        in_hand.take(run)

    async def turned() -> list[list[str]]:
        await keeper.turn()
        await stage.until(lambda: all(run.reported == run.progress for run in runs))
        reports = list(noted.reports)
        noted.reports.clear()
        return reports

    silent = await turned()
    for number in range(1000):
        for run in runs:
            run.report(f"{number} of 1000")
    talkative = await turned()
    runs[1].report("all")
    later = await turned()
    again = await turned()

    assert (silent, talkative, later, again) == ([], [["999 of 1000"] * 3], [["all"]], [])


async def claimed(stage: Stage) -> list[Delivery]:
    return await stage.storage.mailbox.claim([ClaimRequest("work", 10, ALL_LEVELS)], "here", timedelta(minutes=1))


async def test_what_could_not_be_stored_is_tried_again_and_fails_nothing(noted: Noted) -> None:
    stage = await opened()
    noted.refused = 2

    async def work(_: Delivery, run: Run) -> None:
        run.report("half")
        await stage.until(seen(stage, "half"))

    await stage.publish()
    async with stage.worker(stage.handler(work, keep="all")) as worker:
        await stage.until(stage.empty)
        assert worker.progress()["keeper"].failures == 0

    assert noted.reports == [["half"]] * 3
    assert [run.status for run in await stage.runs()] == ["done"]


async def opened() -> Stage:
    storage = MemoryStorage()
    await storage.open()
    await storage.schema.migrate()
    stage = Stage(storage)
    await stage.declare("work")
    return stage


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("42 of 100", "42 of 100"),
        (0.5, "0.5"),
        (None, "None"),
        ("x" * 501, "x" * 500),
        ("\ud800" * 500, ("\\ud800" * 500)[:500]),
        (_Unprintable(), "unprintable _Unprintable: RuntimeError"),
    ],
)
def test_whatever_is_said_becomes_a_short_text(given: Any, said: str) -> None:
    run = Run.__new__(Run)
    run.on_progress = None

    run.report(given)

    assert run.progress == said
