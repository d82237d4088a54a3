"""A database that goes away and comes back, and messages that kill their process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring.model.errors import Conflict, SchemaMissing, StorageError, StorageUnavailable
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery
from mainspring.model.verdict import Settlement
from mainspring.model.views import Declaration
from mainspring.runtime.handler import Run
from mainspring.timing.backoff import intervals
from tests.runtime.stage import Stage


async def nothing(_: Delivery, __: Run) -> None:
    return None


class Faulty:
    """A mailbox in front of another, with faults to order: before the call, or after it (a lost reply)."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.before: dict[str, Callable[[Any], None]] = {}
        self.after: dict[str, Callable[[Any], None]] = {}

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            if name in self.before:
                self.before[name](args[0])
            answer = await getattr(self._inner, name)(*args, **options)
            if name in self.after:
                self.after[name](args[0])
            return answer

        return call


def away(_: object) -> None:
    raise StorageUnavailable("the database is away")


@pytest.fixture
def faulty(stage: Stage) -> Faulty:
    mailbox = Faulty(stage.storage.mailbox)
    stage.storage.mailbox = mailbox
    return mailbox


async def test_a_worker_carries_on_by_itself_when_the_database_is_back(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "mainspring.worker")
    monkeypatch.setattr("mainspring.runtime.reports._SPACING", 3600.0)  # on a busy machine it may take seconds
    await stage.publish(3)
    faulty.before["claim"] = away

    async with stage.worker(stage.handler(nothing)) as worker:
        await stage.until(lambda: worker.progress()["fetcher"].failures >= 3)
        assert worker.progress()["fetcher"].error == "StorageUnavailable: the database is away"
        del faulty.before["claim"]
        await stage.until(stage.empty)
        await stage.until(lambda: worker.progress()["fetcher"].failures == 0)

    assert len(stage.calls) == 3
    assert sum("the database is away" in line for line in caplog.messages) == 1


async def test_a_verdict_waits_for_the_database_and_is_not_lost(stage: Stage, faulty: Faulty) -> None:
    await stage.publish()
    faulty.before["settle"] = away

    async with stage.worker(stage.handler(nothing)) as worker:
        await stage.until(lambda: worker.progress()["settler"].failures >= 2)
        del faulty.before["settle"]
        await stage.until(stage.empty)

    assert len(stage.calls) == 1


async def test_a_settle_resent_after_a_lost_reply_counts_as_settled(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(delivery: Delivery, _: Run) -> None:
        if delivery.attempt == 1:
            raise ValueError("once")

    lost: list[object] = []

    def lose_the_reply(settlements: object) -> None:
        lost.append(settlements)
        if len(lost) <= 2:
            raise StorageUnavailable("the reply was lost")

    await stage.publish()
    faulty.after["settle"] = lose_the_reply
    async with stage.worker(stage.handler(handle, retry=intervals(0.01))):
        await stage.until(stage.empty)

    assert [call.attempt for call in stage.calls] == [1, 2]
    assert len(await stage.runs()) == 1
    assert "lost before" not in caplog.text


async def test_a_verdict_the_database_refuses_does_not_hold_up_its_neighbours(
    stage: Stage, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await stage.publish(5)
    refused: list[Delivery] = []

    def refuse(settlements: list[Settlement]) -> None:
        bad = next(call for call in stage.calls if call.message_id == ids[0])
        if any(settlement.claim == bad.claim for settlement in settlements):
            refused.append(bad)
            raise StorageError("value out of range")

    faulty.before["settle"] = refuse
    async with stage.worker(stage.handler(nothing)):
        await stage.until(lambda: len(stage.calls) == 5 and bool(refused))
        await stage.until(lambda: _only(stage, 1))

    assert "the database rejected a verdict of group work" in caplog.text


async def _only(stage: Stage, count: int) -> bool:
    return len(await stage.browse("live")) == count


async def test_a_worker_without_a_schema_waits_and_names_the_command(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def no_tables() -> None:
        raise SchemaMissing(0, 1)

    monkeypatch.setattr(stage.storage.schema, "check", no_tables)
    async with stage.worker(stage.handler(nothing)) as worker:
        assert not worker.ready
        monkeypatch.undo()
        await stage.until(lambda: worker.ready)
        await stage.publish()
        await stage.until(stage.empty)

    assert "mainspring migrate" in caplog.text
    assert len(stage.calls) == 1


async def test_a_group_of_another_app_is_refused_at_the_start(stage: Stage) -> None:
    await stage.storage.upkeep.declare([Declaration("theirs", "another app", ("theirs",), "a test")])
    worker = stage.make(stage.handler(nothing, group="theirs"))

    with pytest.raises(Conflict, match="another app"):
        await worker.start()
    await worker.stop()


async def test_suspects_are_cleared_one_at_a_time(stage: Stage, faulty: Faulty) -> None:
    await stage.publish(40)
    await stage.storage.mailbox.claim([ClaimRequest("work", 40, ALL_LEVELS)], "a process that died", timedelta())
    together = most = 0

    async def handle(_: Delivery, __: Run) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0)
        together -= 1

    async with stage.worker(stage.handler(handle, concurrency=10)):
        await stage.until(stage.empty, patience=100)

    assert len(stage.calls) == 40
    assert most == 1
    assert {call.suspect for call in stage.calls} == {True}
    assert {call.deaths for call in stage.calls} == {0}


async def test_a_suspect_that_dies_too_often_is_buried_unread(stage: Stage) -> None:
    await stage.publish()
    mailbox = stage.storage.mailbox
    await mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "first to die", timedelta())
    for _ in range(3):
        await mailbox.reap(["work"], "next to die", timedelta())

    async with stage.worker(stage.handler(nothing)):
        await stage.until(stage.empty)

    [dead] = await stage.browse("dead")
    *lost, run = await stage.runs()
    assert [(each.status, each.attempt, each.node) for each in lost] == [
        ("lost", 1, "first to die"),
        ("lost", 2, "next to die"),
        ("lost", 3, "next to die"),
        ("lost", 4, "next to die"),
    ]
    assert (stage.calls, dead.deaths, run.kind) == ([], 3, "poison")
    assert dead.error == "3 worker processes died while holding it; its payload was not decoded again"


@pytest.mark.parametrize("deaths", [1, 2])
async def test_a_suspect_that_has_not_died_often_enough_is_run(stage: Stage, deaths: int) -> None:
    await stage.publish()
    mailbox = stage.storage.mailbox
    await mailbox.claim([ClaimRequest("work", 1, ALL_LEVELS)], "first to die", timedelta())
    for _ in range(deaths):
        await mailbox.reap(["work"], "next to die", timedelta())

    async with stage.worker(stage.handler(nothing)):
        await stage.until(stage.empty)

    assert [call.deaths for call in stage.calls] == [deaths]
    assert await stage.browse("dead") == []


async def test_a_worker_begins_although_its_database_is_silent_and_logs_it_once(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "mainspring.worker")
    monkeypatch.setattr("mainspring.runtime.worker._BEGINS_WITHIN", 0.05)
    answers = asyncio.Event()
    check = stage.storage.schema.check

    async def silent() -> None:
        await answers.wait()
        await check()

    monkeypatch.setattr(stage.storage.schema, "check", silent)
    await stage.publish()
    async with stage.worker(stage.handler(nothing)) as worker:
        assert not worker.ready
        answers.set()
        await stage.until(stage.empty)

    assert caplog.messages == ["worker: the database has not responded for 0.05 s, and is waited for"]
