"""SIGTERM under load: the process ends in good order, and no message pays for it."""

import asyncio

import pytest

from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import until

_STOPS_CLAIMING = 0.1
_AT_ONCE = 2.0
_MEANT_TWICE = 1.0
"""Seconds between two signals that are meant as two: closer ones are a supervisor's echo."""


@pytest.mark.timeout(1800)
async def test_sigterm_under_load_burns_no_attempt(scene: Scene, report: Report, large: bool) -> None:
    stops = 200 if large else 6
    slowest, latest = 0.0, 0.0
    await scene.workers(2)
    async with (
        scene.publishing() as app,
        scene.load(app, 60, lambda count: scene.jobs(count, seconds=scene.chance.uniform(0.05, 0.3))),
    ):
        for _ in range(stops):
            member = await scene.any_ready()
            await asyncio.sleep(scene.chance.uniform(0.0, 0.3))
            asked = member.ask_to_stop()
            took = await until("the worker to end", lambda: not member.alive, scene.plan.grace + 5)  # noqa: B023
            assert member.process.returncode == 0, member.said()
            slowest = max(slowest, took)
            begun = [each.began - asked for each in scene.executions() if each.pid == member.pid]
            latest = max([latest, *begun])
            scene.fleet.replace(member)
    await scene.fleet.ready()
    await scene.drained()

    found = scene.judge()
    attempts = {run.attempt for run in scene.tables.runs()}
    report(
        "SIGTERM under load",
        f"seed={scene.seed} stops={stops}",
        found.line(),
        f"slowest-exit={slowest:.2f}s≤{scene.plan.grace:g}s last-begin={latest * 1000:.0f}ms≤100ms attempts={attempts}",
    )
    assert found.flawless, found
    assert slowest <= scene.plan.grace
    assert latest <= _STOPS_CLAIMING
    assert attempts == {1}


async def test_a_second_sigterm_ends_at_once_and_hands_back_what_ran(scene: Scene, report: Report) -> None:
    (worker,) = await scene.workers(1, grace=60.0)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(1, act="hang"))
    await scene.begun(1)

    worker.ask_to_stop()
    await until("the first signal to be heard", lambda: "SIGTERM" in worker.said(), 5)
    await asyncio.sleep(_MEANT_TWICE)
    worker.ask_to_stop()
    took = await until("the worker to end", lambda: not worker.alive, 10)

    held = scene.tables.held()
    scene.open_gate()
    await scene.workers(1)
    await scene.drained(5)
    found = scene.judge(1)
    first, second = scene.executions()
    report("second SIGTERM", f"exit-after={took:.2f}s≤{_AT_ONCE:g}s held-after={held}", found.line())
    assert worker.process.returncode == 0, worker.said()
    assert took <= _AT_ONCE
    assert held == 0
    assert (first.outcome, second.outcome) == ("told", "ok")
    assert second.attempt == 1
    assert found.flawless, found


async def test_a_handler_that_outlasts_the_grace_is_cancelled_and_handed_back(scene: Scene, report: Report) -> None:
    (worker,) = await scene.workers(1, grace=1.0)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(3, act="hang"))
    await scene.begun(3)

    worker.ask_to_stop()
    took = await until("the worker to end", lambda: not worker.alive, 10)

    report("SIGTERM past the grace", f"exit-after={took:.2f}s≤3s held-after={scene.tables.held()}")
    assert worker.process.returncode == 0, worker.said()
    assert 1.0 <= took <= 3.0
    assert scene.tables.held() == 0
    assert {each.outcome for each in scene.executions()} == {"told"}
