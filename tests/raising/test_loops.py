"""Loops of a worker that end by something unforeseen: they go on, are replaced, or make the worker not ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mainspring.model.message import Delivery
from mainspring.runtime import verdicts
from mainspring.runtime.crew import Crew
from mainspring.runtime.executor import Executor
from mainspring.runtime.fetcher import Fetcher
from mainspring.runtime.handler import Run
from mainspring.runtime.keeper import Keeper
from tests.raising.explosives import TEXT, Panic
from tests.runtime.batching import Batches
from tests.runtime.stage import Stage


async def nothing(_: Delivery, __: Run) -> None:
    return None


def once(raised: Callable[[], BaseException], then: Callable[..., Any]) -> Callable[..., Any]:
    """What raises at its first call, and does as ever at every other."""
    calls: list[object] = []

    def call(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise raised()
        return then(*args, **options)

    return call


@pytest.mark.parametrize("raised", [GeneratorExit, SystemExit, KeyboardInterrupt, Panic, RuntimeError])
@pytest.mark.parametrize("batched", [False, True])
async def test_a_mistake_of_ours_around_an_attempt_is_a_failure_of_that_attempt(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, batched: bool, raised: type[BaseException]
) -> None:
    monkeypatch.setattr(verdicts, "without_running", once(lambda: raised(TEXT), verdicts.without_running))
    handler = (
        Batches(lambda _: None, size=1, concurrency=1).handler if batched else stage.handler(nothing, concurrency=1)
    )

    async with stage.worker(handler) as worker:
        await stage.publish()
        await stage.publish()
        await stage.until(stage.empty)
        await stage.until(lambda: worker.in_hand == 0)

    [dead] = await stage.browse("dead")
    assert (dead.error or "").startswith(raised.__name__)


async def test_a_worker_coroutine_that_ends_is_logged_and_replaced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Crew, "rest", once(lambda: Panic(TEXT), Crew.rest))  # the first one ends when it is idle

    async with stage.worker(stage.handler(nothing, concurrency=1)) as worker:
        await stage.publish()
        await stage.until(lambda: "a handler coroutine ended, replaced" in caplog.text)
        await stage.publish(3)
        await stage.until(stage.empty)
        await stage.until(lambda: worker.in_hand == 0)

    assert len(stage.calls) == 4
    assert f"work: a handler coroutine ended, replaced: Panic: {TEXT}" in caplog.text


async def test_what_waits_when_the_last_worker_coroutine_ends_is_served_by_its_successor(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def wait(_: Delivery, __: Run) -> None:
        await gate.wait()

    def broken(*_: object) -> None:
        raise Panic(TEXT)

    async with stage.worker(stage.handler(wait, concurrency=1)) as worker:
        await stage.publish(2)
        await stage.until(lambda: len(stage.calls) == 1)
        monkeypatch.setattr(Executor, "_unforeseen", broken)  # nothing holds it any more
        monkeypatch.setattr(Executor, "_settle_quiet", once(lambda: Panic(TEXT), Executor._settle_quiet))
        gate.set()
        await stage.until(stage.empty)
        await stage.until(lambda: worker.in_hand == 0)

    assert len(stage.calls) == 2


@pytest.mark.parametrize("raised", [GeneratorExit, Panic, asyncio.CancelledError])
async def test_a_loop_whose_turn_raises_anything_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    monkeypatch.setattr(Fetcher, "turn", failing_once(Fetcher.turn, raised))

    async with stage.worker(stage.handler(nothing)) as worker:
        await stage.publish()
        await stage.until(stage.empty)
        assert worker.progress()["fetcher"].failed == 1
        assert worker.ready

    assert len(stage.calls) == 1


Turn = Callable[[Any], Coroutine[Any, Any, float]]


def failing_once(turn: Turn, raised: type[BaseException]) -> Turn:
    failed: list[object] = []

    async def wrapped(service: Any) -> float:
        if not failed:
            failed.append(service)
            raise raised(TEXT)
        return await turn(service)

    return wrapped


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, Panic])
async def test_a_keeper_goes_on_whatever_its_turn_raises(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    monkeypatch.setattr(Keeper, "turn", failing_once(Keeper.turn, raised))

    async with stage.worker(stage.handler(nothing)) as worker:
        await stage.until(lambda: worker.progress()["keeper"].turns > 1)
        assert worker.progress()["keeper"].failed == 1
        assert worker.ready


async def test_a_keeper_whose_loop_ends_is_given_another(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keeper, "_loop", once(lambda: OSError("too many open files"), Keeper._loop))

    async with stage.worker(stage.handler(nothing)) as worker:
        await stage.until(lambda: worker.progress()["keeper"].turns > 1)
        assert worker.ready


async def test_a_worker_with_a_loop_that_has_ended_is_not_ready(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with stage.worker(stage.handler(nothing)) as worker:
        assert worker.ready
        [fetching] = [task for task in asyncio.all_tasks() if task.get_name() == "mainspring-fetcher"]
        fetching.cancel()
        await stage.until(lambda: not worker.ready)

        report = worker.progress()["fetcher"]
        assert (report.ended, report.failures > 0) == (True, True)

    assert "its loop has ended: restart the worker" in caplog.text
