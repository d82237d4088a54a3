"""One lease and several processes that are frozen, killed −9 and robbed of it: no stale write is ever accepted."""

import pytest

from tests.faults.holders import Contest, Effect, overlapping
from tests.faults.report import Report
from tests.faults.scene import Scene

# A process starts in a second, and a lease lasts for one.
pytestmark = pytest.mark.timeout(1800)


async def test_no_write_under_a_stale_lease_is_accepted(scene: Scene, report: Report, large: bool) -> None:
    contest = Contest(scene)
    # On SQLite there is no asyncio handle without another library.
    await contest.begin(3, 0 if scene.engine == "SQLite" else 1)
    rounds = 25 if large else 1
    for _ in range(rounds):
        await contest.freeze_at_work()
        await contest.revoke()
        await contest.kill()
        await contest.freeze_anywhere()
        if scene.engine != "SQLite":
            await contest.freeze_at_work("async")

    found = contest.judge()
    report(
        f"one lease on {scene.engine}, SIGSTOP past its ttl, kill −9, released by others",
        f"seed={scene.seed} freezes={contest.freezes} kills={contest.kills} revocations={contest.revocations}",
        found.line(),
    )
    assert found.flawless, found
    assert found.refused >= rounds, "nobody has tried"


async def test_writes_that_are_not_confirmed_are_reported_as_overlapping(scene: Scene, report: Report) -> None:
    contest = Contest(scene, bug="unconfirmed")
    await contest.begin(2)
    await contest.freeze_at_work()

    found = contest.judge()
    report("teeth: writes without confirm", f"seed={scene.seed} freezes=1", found.line(), "(must be overlapping>0)")
    assert found.overlapping
    assert found.backward
    assert not found.flawless


def test_the_judge_knows_an_overlap_when_it_sees_one() -> None:
    apart = [Effect(1, 7, 0.0, 1.0), Effect(1, 7, 0.5, 2.0), Effect(2, 8, 2.5, 3.0)]
    stale = Effect(1, 7, 1.0, 4.0)

    assert overlapping(apart) == 0
    assert overlapping([*apart, stale]) == 1
