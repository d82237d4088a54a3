"""Processes that nobody waits for any more: killed at once, with all they have started."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.runtime.spawned import handler, lives, outcomes, pids, publish
from tests.runtime.stage import CLAIM_TIME, MILLISECOND, Stage, taken_over


@pytest.mark.parametrize("qualname", ["compute_forever", "hold_the_interpreter"])
async def test_a_process_is_killed_at_its_timeout(stage: Stage, tmp_path: Path, qualname: str) -> None:
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})
    async with stage.worker(handler(qualname, timeout=300 * MILLISECOND)):
        [pid] = await pids(stage, file)
        await stage.until(stage.empty)

        assert not lives(pid)

    [run] = await stage.runs()
    assert (run.status, run.kind, run.error) == ("dead", "timeout", "TimedOut: it ran past its timeout of 0.3 s")


async def test_what_it_started_is_killed_with_it(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})
    async with stage.worker(handler("start_another_and_wait", timeout=300 * MILLISECOND)):
        both = await pids(stage, file, 2)
        await stage.until(lambda: not any(map(lives, both)))


async def test_one_that_is_killed_leaves_the_others_alone(stage: Stage, tmp_path: Path) -> None:
    await publish(stage, {"wait": True, "file": str(tmp_path / "pids")}, *[{}] * 20)

    ended = await outcomes(stage, handler("wait_if_told", concurrency=2, timeout=timedelta(seconds=3)), 21)

    assert sorted(status for status, _ in ended) == ["dead", *["done"] * 20]


async def test_idle_processes_end_with_the_worker(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})
    async with stage.worker(handler("note_pid")):
        await stage.until(stage.empty)
        [pid] = await pids(stage, file)
        assert lives(pid)

    assert not lives(pid)


async def test_after_the_grace_a_process_is_killed_and_its_message_handed_back(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})
    worker = stage.make(handler("compute_forever"), grace=50 * MILLISECOND)
    await worker.start()
    [pid] = await pids(stage, file)
    await worker.stop()

    assert not lives(pid)
    assert [(each.state, each.attempt) for each in await stage.browse("live")] == [("ready", 0)]


async def test_a_process_is_killed_when_its_message_is_cancelled(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    [message_id] = await publish(stage, {"file": str(file)})
    async with stage.worker(handler("compute_forever"), claim_time=CLAIM_TIME):
        [pid] = await pids(stage, file)
        await stage.storage.mailbox.cancel(message_id, "not wanted")
        await stage.until(stage.empty)

        assert not lives(pid)

    [run] = await stage.runs()
    assert (run.status, run.error) == ("cancelled", "cancelled while running")


async def test_a_lost_claim_kills_the_process_and_writes_nothing(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})
    async with stage.worker(handler("compute_forever"), claim_time=CLAIM_TIME) as worker:
        [pid] = await pids(stage, file)
        [run] = worker._in_hand.runs()
        await taken_over(stage, run.delivery.claim)
        await stage.until(lambda: not lives(pid))
        [delivery] = await stage.browse("running")

    [lost] = await stage.runs()
    assert (delivery.held_by, lost.status, lost.attempt) == ("another", "lost", 1)
