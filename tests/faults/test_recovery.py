"""How long it takes until all that a killed process had in hand runs again."""

import pytest

from mainspring.runtime.claims_in_hand import PROBATION
from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import until

ENGINES = ("postgres",)
_NOTICED = 5.0
"""Seconds after its claim has lapsed within which an orphan is begun."""


@pytest.mark.timeout(2400)
async def test_what_a_killed_process_had_in_hand_runs_again_together(
    scene: Scene, report: Report, large: bool, margin: float
) -> None:
    in_hand, seconds = (50, 30.0) if large else (12, 4.0)
    (victim,) = await scene.workers(1, concurrency=in_hand)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(in_hand, seconds=3600.0, again=seconds))
    await scene.begun(in_hand)
    await scene.workers(1, concurrency=in_hand)

    scene.kill(victim)
    began = await until("all to begin again", lambda: len(scene.executions()) == 2 * in_hand, 2000)
    took = began + await scene.drained(2000)

    found = scene.judge(1, in_hand)
    promised = scene.plan.claim_time + _NOTICED + in_hand * PROBATION
    report(
        "kill −9, long handlers",
        f"in-hand={in_hand} handler={seconds:g}s",
        found.line(),
        f"last-begun={began:.1f}s≤{promised:g}s all-done={took:.1f}s one-after-the-other={in_hand * seconds:g}s",
    )
    assert found.flawless, found
    assert began <= promised + margin
    assert took <= promised + seconds + margin
