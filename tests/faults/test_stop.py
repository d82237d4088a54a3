"""SIGTERM under load: the process ends in good order, and no message pays for it."""

import asyncio
import time
from datetime import datetime

import pytest

from tests.faults.fleet import Member
from tests.faults.plan import NEVER_LAPSES
from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import until

_STOPS_CLAIMING = 0.1
_AT_ONCE = 2.0
_MEANT_TWICE = 1.0
"""Seconds between two signals that are meant as two: closer ones are a supervisor's echo."""


def _heard(member: Member) -> float:
    """When it heard of the signal by its own log, on the monotonic clock."""
    line = next(line for line in member.lines() if "SIGTERM" in line)
    offset = time.time() - time.monotonic()
    return datetime.fromisoformat(line[:23].replace(",", ".")).timestamp() - offset


@pytest.mark.timeout(1800)
async def test_sigterm_under_load_burns_no_attempt(scene: Scene, report: Report, large: bool, margin: float) -> None:
    stops = 200 if large else 6
    slowest, latest = 0.0, 0.0
    # It is given far more than it may take: who used that up would have claimed on.
    await scene.workers(2, grace=60.0, claim_time=NEVER_LAPSES)
    async with (
        scene.publishing() as app,
        scene.load(app, 60, lambda count: scene.jobs(count, seconds=scene.chance.uniform(0.05, 0.3))),
    ):
        for _ in range(stops):
            member = await scene.any_ready()
            await asyncio.sleep(scene.chance.uniform(0.0, 0.3))
            member.ask_to_stop()
            took = await until("the worker to end", lambda: not member.alive)  # noqa: B023
            assert member.process.returncode == 0, member.said()
            slowest = max(slowest, took)
            heard = _heard(member)
            begun = [each.began - heard for each in scene.executions() if each.pid == member.pid]
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
    assert slowest <= scene.plan.grace + margin
    # By its own log: what keeps the process from running keeps both.
    assert latest <= _STOPS_CLAIMING + margin / 20
    assert attempts == {1}


async def test_a_second_sigterm_ends_at_once_and_hands_back_what_ran(
    scene: Scene, report: Report, margin: float
) -> None:
    (worker,) = await scene.workers(1, grace=60.0, claim_time=NEVER_LAPSES)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(1, act="hang"))
    await scene.begun(1)

    worker.ask_to_stop()
    await until("the first signal to be heard", lambda: "SIGTERM" in worker.said())
    await asyncio.sleep(_MEANT_TWICE)
    worker.ask_to_stop()
    took = await until("the worker to end", lambda: not worker.alive)

    held = scene.tables.held()
    scene.open_gate()
    await scene.workers(1)
    await scene.drained()
    found = scene.judge(1)
    first, second = scene.executions()
    report("second SIGTERM", f"exit-after={took:.2f}s≤{_AT_ONCE:g}s held-after={held}", found.line())
    assert worker.process.returncode == 0, worker.said()
    assert took <= _AT_ONCE + margin
    assert held == 0
    assert (first.outcome, second.outcome) == ("told", "ok")
    assert second.attempt == 1
    assert found.flawless, found


async def test_a_handler_that_outlasts_the_grace_is_cancelled_and_handed_back(
    scene: Scene, report: Report, margin: float
) -> None:
    (worker,) = await scene.workers(1, grace=1.0, claim_time=NEVER_LAPSES)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(3, act="hang"))
    await scene.begun(3)

    worker.ask_to_stop()
    took = await until("the worker to end", lambda: not worker.alive)

    report("SIGTERM past the grace", f"exit-after={took:.2f}s≤3s held-after={scene.tables.held()}")
    assert worker.process.returncode == 0, worker.said()
    assert 1.0 <= took <= 3.0 + margin
    assert scene.tables.held() == 0
    assert {each.outcome for each in scene.executions()} == {"told"}
