"""A worker frozen for two claim times while others take over: what it writes afterwards is refused."""

import time

import pytest

from tests.faults.ledger import Execution
from tests.faults.plan import Act, Bug
from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import until

_TOLD_WITHIN = 1.0


async def _freeze_and_take_over(scene: Scene, second: Act = "hang", bug: Bug | None = None) -> tuple[float, str]:
    """One round. Answers how soon after its thaw the frozen handler was told, and what the frozen worker logged."""
    for sign in (scene.plan.gate, scene.plan.frozen):
        sign.unlink(missing_ok=True)
    (frozen,) = await scene.workers(1, concurrency=2, tidying=1.5, bug=bug)
    async with scene.publishing() as app:
        # One that will end at the thaw and settle late, and one that will still run and must be told.
        ids = await scene.publish(app, scene.jobs(1, act="hold") + scene.jobs(1, act=second))

    def of(*pids: int) -> list[Execution]:
        return [each for each in scene.executions() if each.id in ids and each.pid in pids]

    await until("both to begin", lambda: len(of(frozen.pid)) == 2)
    frozen.freeze()
    scene.plan.frozen.touch()
    since = time.monotonic()
    others = await scene.workers(2, concurrency=2)
    pids = [other.pid for other in others]
    await until("the others to take both over", lambda: {each.id for each in of(*pids)} == set(ids))
    await until("two claim times", lambda: time.monotonic() - since >= 2 * scene.plan.claim_time)

    thawed = frozen.thaw()
    await until("both first holders to end", lambda: all(each.ended for each in of(frozen.pid)))
    told = max((each.ended - thawed for each in of(frozen.pid) if each.outcome == "told" and each.ended), default=0.0)
    # A late verdict has been answered for when the worker stops, and stopping waits for it.
    frozen.ask_to_stop()
    assert await frozen.ended() == 0
    assert {each.outcome for each in of(frozen.pid)} <= {"ok", "told"}, (
        "a handler is told once, or it could not clean up"
    )
    scene.open_gate()
    await scene.drained()
    for other in others:
        other.kill()
    scene.fleet.members.clear()
    return told, frozen.said()


@pytest.mark.timeout(900)
async def test_a_frozen_worker_writes_nothing_once_others_have_its_claims(
    scene: Scene, report: Report, large: bool, margin: float
) -> None:
    rounds = 20 if large else 1
    slowest, logs = 0.0, ""
    for _ in range(rounds):
        told, log = await _freeze_and_take_over(scene)
        slowest, logs = max(slowest, told), logs + log

    found = scene.judge(rounds, concurrency=2)
    report(
        "SIGSTOP for two claim times",
        f"seed={scene.seed} freezes={rounds}",
        found.line(),
        f"refused={logs.count('a claim was lost before its verdict')} told-after={slowest:.2f}s≤{_TOLD_WITHIN:g}s",
    )
    assert found.flawless, found
    assert found.duplicates >= 2 * rounds
    assert 0.0 < slowest <= _TOLD_WITHIN + margin


async def test_a_settle_without_its_fence_is_reported_as_a_stale_write(scene: Scene, report: Report) -> None:
    await _freeze_and_take_over(scene, second="hold", bug="unfenced")

    found = scene.judge(1, concurrency=2)
    report("teeth: settle without a fence", f"seed={scene.seed} freezes=1", found.line(), "(must be stale>0)")
    assert found.stale
    assert not found.flawless
