"""A handler that blocks its event loop keeps its claim, and is named."""

import time

from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import until

_REPORTED_WITHIN = 5.0
_CLAIM_TIME = 4.0


async def test_a_blocked_event_loop_keeps_its_claim_and_is_named(
    scene: Scene, report: Report, large: bool, margin: float
) -> None:
    seconds = 60.0 if large else 2 * _CLAIM_TIME
    workers = await scene.workers(2, claim_time=_CLAIM_TIME)
    async with scene.publishing() as app:
        await scene.publish(app, scene.jobs(1, act="block", seconds=seconds))
    await scene.begun(1)
    (run,) = scene.executions()
    blocked = next(worker for worker in workers if worker.pid == run.pid)
    await until("the log to name it", lambda: "has been blocked" in blocked.said())
    named_after = time.monotonic() - run.began
    (named,) = scene.executions()
    await scene.drained()

    found = scene.judge()
    place = next(line for line in blocked.said().splitlines() if "has been blocked" in line)
    report(f"event loop blocked {seconds:g} s", f"named-after={named_after:.1f}s≤{_REPORTED_WITHIN:g}s", found.line())
    assert found.flawless, found
    assert found.executed == 1
    assert named.ended is None, "it was named only when it was over"
    assert named_after <= _REPORTED_WITHIN + margin
    assert "worker.py" in place
    assert "time.sleep(job.seconds)" in place
