"""A message that kills its process is buried, and takes no innocent with it."""

import asyncio
import time
from uuid import UUID

import pytest

from tests.faults.plan import Act
from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import PATIENCE, TooLateError

_INNOCENT = 999
_CONCURRENCY = 500


async def _restart_until_drained(scene: Scene) -> tuple[int, set[UUID]]:
    """Play the service manager. Answers how many processes died, and every message that ever had deaths."""
    deadline, died = time.monotonic() + 2 * PATIENCE, 0
    accused: set[UUID] = set()
    while scene.tables.live():
        if time.monotonic() > deadline:
            raise TooLateError(f"{scene.tables.live()} deliveries are left")
        accused |= scene.tables.accused()
        for member in list(scene.fleet.members):
            if not member.alive:
                died += 1
                scene.fleet.replace(member)
        await asyncio.sleep(0.05)
    return died, accused


async def _poison(scene: Scene, act: Act, report: Report) -> None:
    await scene.workers(2, concurrency=_CONCURRENCY)
    async with scene.publishing() as app:
        # The innocent wait in their first attempt, so that hundreds are in hand when the process dies.
        half = _INNOCENT // 2
        jobs = scene.jobs(half, seconds=0.5, again=0.0)
        jobs += scene.jobs(1, act=act, seconds=0.2)
        jobs += scene.jobs(_INNOCENT - half, seconds=0.5, again=0.0)
        ids = await scene.publish(app, jobs)
    poison = ids[half]

    died, accused = await _restart_until_drained(scene)

    found = scene.judge(died, _CONCURRENCY)
    executed = scene.executions()
    deadly = [each for each in executed if each.id == poison]
    in_hand = max(
        sum(1 for each in executed if each.pid == one.pid and each.outcome is None and each.id != poison)
        for one in deadly
    )
    report(
        f"poison ({act})",
        f"seed={scene.seed} processes-died={died} most-in-hand={in_hand}",
        found.line(),
        f"innocent-with-deaths={len(accused - {poison})}",
    )
    assert [(each.id, each.kind, each.deaths) for each in found.buried] == [(poison, "poison", 3)]
    assert accused <= {poison}
    assert found.flawless, found
    assert found.messages == _INNOCENT + 1
    assert in_hand >= 100, "too few were in hand for the test to prove anything"


@pytest.mark.timeout(300)
async def test_a_message_that_ends_its_process_is_buried_alone(scene: Scene, report: Report) -> None:
    await _poison(scene, "exit", report)


@pytest.mark.large
@pytest.mark.timeout(300)
async def test_a_message_that_crashes_its_process_is_buried_alone(scene: Scene, report: Report) -> None:
    await _poison(scene, "crash", report)


@pytest.mark.timeout(600)
async def test_a_message_that_ends_its_process_late_is_buried_alone(
    scene: Scene, report: Report, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.faults.test_poison.PATIENCE", 240.0)
    innocent, concurrency = (_INNOCENT, _CONCURRENCY) if large else (99, 50)
    await scene.workers(2, concurrency=concurrency)
    async with scene.publishing() as app:
        # Those before it run long when they are taken over: it is in their company when it kills, after its probation.
        jobs = scene.jobs(innocent // 2 - 4, seconds=4.0, again=0.0)
        jobs += scene.jobs(4, seconds=4.0, again=8.0)
        jobs += scene.jobs(1, act="exit", seconds=3.0)
        jobs += scene.jobs(innocent - innocent // 2, seconds=4.0, again=0.0)
        ids = await scene.publish(app, jobs)
    poison = ids[innocent // 2]

    died, accused = await _restart_until_drained(scene)

    found = scene.judge(died, concurrency)
    report(
        "poison (exit, late)",
        f"seed={scene.seed} processes-died={died}",
        found.line(),
        f"innocent-with-deaths={len(accused - {poison})}",
    )
    assert [(each.id, each.kind, each.deaths) for each in found.buried] == [(poison, "poison", 3)]
    assert found.flawless, found
    assert found.messages == innocent + 1
    assert died == 4
    assert accused > {poison}, "it killed in nobody's company, so that the test proves nothing"
