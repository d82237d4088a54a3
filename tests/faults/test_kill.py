"""Workers killed −9 at random under load: nothing is lost, duplicates are bounded, orphans are soon reclaimed."""

import asyncio
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.faults.judge import reclaim_times
from tests.faults.plan import Job
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.stranger import Stranger, stranger_on, wandering
from tests.faults.waiting import until

ENGINES = ("postgres",)  # SQLite has a test of its own, with fewer processes
_RECLAIM_MARGIN = 5.0
_WRITTEN_WITHIN = 1.0
"""Seconds, while a stranger has locked a row of every table."""


async def _kill_at_random(scene: Scene, kills: int, workers: int, rate: int, stranger: Stranger | None = None) -> None:
    def make(count: int) -> list[Job]:
        # Long enough to be in hand when the process dies, short when somebody takes it over.
        return scene.jobs(count, seconds=scene.chance.uniform(0.02, 0.3), again=0.0)

    scene.open_gate()
    await scene.workers(workers)
    around = nullcontext() if stranger is None else wandering(stranger)
    async with scene.publishing() as app, scene.load(app, rate, make), around:
        for n in range(kills):
            victim = await scene.any_ready()
            await asyncio.sleep(scene.chance.uniform(0.0, 0.5))
            if n == 0:
                # One at least hits a handler: it waits for that.
                (aimed,) = await scene.publish(app, scene.jobs(1, act="hang"))
                victim = await scene.running(message=aimed)
            scene.kill(victim)
            scene.fleet.replace(victim)
    await scene.fleet.ready()
    await scene.drained()


@pytest.mark.timeout(1800)
async def test_workers_killed_at_random_lose_nothing(scene: Scene, report: Report, large: bool, margin: float) -> None:
    kills = 200 if large else 14

    async with stranger_on(scene.plan) as stranger:
        await scene.declared()
        await _kill_at_random(scene, kills, workers=3, rate=100, stranger=stranger)
        # Long enough to be seen at work: after a large run the effects are many to read through.
        slowest_verdict = await _others_are_written(scene, stranger, seconds=10.0 if large else 0.5)
    await scene.drained()

    found = scene.judge(kills)
    reclaimed = reclaim_times(scene.executions(), scene.deaths)
    slowest = max(reclaimed, default=0.0)
    report(
        f"kill −9, {scene.engine}",
        f"seed={scene.seed} kills={kills}",
        found.line(),
        f"{stranger.line} others-written={slowest_verdict:.1f}s≤{_WRITTEN_WITHIN:g}s",
        f"orphans={len(reclaimed)} slowest-reclaim={slowest:.1f}s≤{scene.plan.claim_time + _RECLAIM_MARGIN:g}s",
    )
    assert found.flawless, found
    assert found.buried == []
    assert reclaimed
    assert slowest <= scene.plan.claim_time + _RECLAIM_MARGIN + margin
    assert stranger.locks["delivery"] > 0
    assert slowest_verdict <= _WRITTEN_WITHIN + margin


async def _others_are_written(scene: Scene, stranger: Stranger, seconds: float) -> float:
    """Lock one that runs, with a row of every other table: how many seconds until all other verdicts are written."""
    async with scene.publishing() as app:
        while True:
            (locked,) = await scene.publish(app, scene.jobs(1, seconds=seconds))
            await scene.running(message=locked)
            async with stranger.holding() as delivery:
                if delivery is None:
                    continue  # on a busy machine it may end first, or its keeper extend it just then
                began = time.monotonic()
                await scene.publish(app, scene.jobs(50))
                await until("all others to be written", lambda: scene.tables.live() == 1, step=0.02)
                return time.monotonic() - began


async def test_an_idle_worker_finds_what_a_dead_one_left(scene: Scene, report: Report, margin: float) -> None:
    scene.open_gate()
    (victim,) = await scene.workers(1)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(5, act="hang"))
    await scene.begun(5)
    # As it is by default: an idle worker may sleep for five seconds.
    await scene.workers(1, idle_poll=5.0)

    scene.kill(victim)
    await scene.drained()

    found = scene.judge(1)
    slowest = max(reclaim_times(scene.executions(), scene.deaths))
    report("kill −9, the other idle", found.line(), f"slowest-reclaim={slowest:.1f}s≤{scene.plan.claim_time + 5:g}s")
    assert found.flawless, found
    assert found.duplicates == 5
    assert slowest <= scene.plan.claim_time + _RECLAIM_MARGIN + margin


@pytest.mark.timeout(600)
async def test_workers_killed_at_random_on_one_sqlite_file_lose_nothing(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    kills = 100 if large else 7
    with scene_on(tmp_path, seed, url=f"sqlite:///{tmp_path}/queue.db", schema="mainspring") as scene:
        await _kill_at_random(scene, kills, workers=2, rate=40)

        found = scene.judge(kills)
        report("kill −9, SQLite", f"seed={seed} kills={kills}", found.line())
        assert found.flawless, found
        assert found.buried == []


async def test_a_handler_acknowledged_before_its_effect_is_reported_as_a_loss(scene: Scene, report: Report) -> None:
    (worker,) = await scene.workers(1, bug="early", concurrency=50)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(20))
    await scene.drained()
    scene.kill(worker)

    found = scene.judge(kills=1)

    report("teeth: acknowledged before the effect", f"seed={scene.seed} kills=1", found.line(), "(must be lost>0)")
    assert found.lost
    assert not found.flawless
