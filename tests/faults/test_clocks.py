"""Workers and publishers whose clocks are an hour wrong: only the database's clock decides."""

import time
from dataclasses import replace
from uuid import UUID

import pytest
import time_machine

from tests.faults.report import Report
from tests.faults.scene import Scene

ENGINES = ("postgres",)  # on SQLite the process that asks owns the clock
_HOUR = 3600.0
_DELAY = 1.0


@pytest.mark.timeout(300)
async def test_clocks_an_hour_wrong_change_nothing(scene: Scene, report: Report, large: bool, margin: float) -> None:
    rounds, kills = (20, 0) if large else (4, 0)
    members = [scene.fleet.start(replace(scene.plan, skew=skew)) for skew in (-_HOUR, 0.0, _HOUR)]
    await scene.fleet.ready(*members)
    due: dict[UUID, float] = {}
    async with scene.publishing() as app, scene.load(app, 50):
        for _ in range(rounds):
            for skew in (-_HOUR, 0.0, _HOUR):
                with time_machine.travel(time.time() + skew, tick=True):
                    asked = time.monotonic()
                    delayed = await scene.publish(app, scene.jobs(3), delay=f"{_DELAY}s")
                due.update(dict.fromkeys(delayed, asked + _DELAY))
            victim = await scene.any_ready()
            scene.kill(victim)
            scene.fleet.replace(victim)
            kills += 1
    await scene.fleet.ready()
    await scene.drained()

    found = scene.judge(kills)
    late = [each.began - due[each.id] for each in scene.executions() if each.id in due]
    report(
        "clocks ±1 h",
        f"seed={scene.seed} kills={kills}",
        found.line(),
        f"delayed={len(due)} earliest={min(late) * 1000:+.0f}ms latest={max(late):+.1f}s",
    )
    assert all(
        f"the clock is wrong by {member.plan.skew:.0f} s" in member.said() for member in members if member.plan.skew
    )
    assert found.flawless, found
    assert min(late) >= 0.0
    assert max(late) <= scene.plan.claim_time + 5 + margin
