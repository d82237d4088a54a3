"""Occurrences that wait: whose schedulers look for them, how often, and what has them look at once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from mainspring.model.message import Delivery, Draft
from mainspring.model.schedule import NEVER, SCHEDULE_HEADER, Note, Occurrence
from mainspring.runtime import scheduler
from mainspring.runtime.handler import Run
from mainspring.runtime.worker import Worker
from tests.runtime.scheduling import HOUR, HOURLY, Scene
from tests.runtime.stage import Stage
from tests.runtime.test_scheduler_trouble import FAR, Faulty, working


class Held:
    """A handler whose runs of a schedule wait until they may end; others end at once."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def __call__(self, delivery: Delivery, _: Run) -> None:
        if delivery.headers:
            await self.may_end.wait()


@pytest.fixture
def timetable(stage: Stage) -> Faulty:
    timetable = Faulty(stage.storage.timetable)
    stage.storage.timetable = timetable
    return timetable


@asynccontextmanager
async def waiting(stage: Stage, monkeypatch: pytest.MonkeyPatch, held: Held) -> AsyncIterator[Worker]:
    """A worker with one run in hand and two that wait for it, which it knows, and which no poll will find."""
    monkeypatch.setattr(scheduler, "_WAITING_POLL", 3600.0)
    async with working(stage, held, report=FAR) as worker:
        await stage.until(lambda: turns(worker) >= 1)
        before = turns(worker)
        await stage.storage.sibling().timetable.enter([occurrence() for _ in range(3)], Note("ann", "backfill"))
        await stage.until(lambda: turns(worker) > before and len(stage.calls) == 1)
        yield worker


def occurrence() -> Occurrence:
    draft = Draft(
        uuid.uuid4(), "work", b"{}", headers={SCHEDULE_HEADER: "report"}, group="work", schedule="report", manual=True
    )
    return Occurrence(draft, NEVER)


def has_more_calls(stage: Stage, seen: int) -> bool:
    return len(stage.calls) > seen


def turns(worker: Worker) -> int:
    return worker.progress()["scheduler"].turns


async def test_the_end_of_a_run_starts_the_next_and_no_poll_is_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    async with waiting(stage, monkeypatch, held):
        held.may_end.set()

        await stage.until(lambda: len(stage.calls) == 3)
        await stage.until(stage.empty)


async def test_messages_that_are_no_occurrences_have_nobody_look(
    stage: Stage, timetable: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    async with waiting(stage, monkeypatch, held):
        looks = timetable.calls.count("tick")
        for _ in range(20):
            seen = len(stage.calls)
            await stage.publish()
            await stage.until(partial(has_more_calls, stage, seen))

        assert timetable.calls.count("tick") - looks < 5  # whoever was woken before may still be at it
        held.may_end.set()


async def test_only_the_app_that_has_the_schedule_looks_often() -> None:
    scene = Scene()
    await scene.prepare()
    queueing = {**HOURLY, "overlap": "queue"}
    owner, other = scene.node(report=queueing), scene.node(app="other")
    for _ in range(3):
        pauses = await owner.turn(), await other.turn()
        scene.clock.advance(HOUR)

    assert pauses == (1.0, 3600.0)
