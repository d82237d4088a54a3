"""Schedules while nobody is there: all workers dead, or the database away. What was missed is made up for by policy."""

import asyncio
from pathlib import Path

import pytest

from tests.faults.calculator import MICROS, due_times, mixed
from tests.faults.plan import Entry
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.timekeeping import Occasion
from tests.faults.timetable import Timetable
from tests.faults.waiting import until
from tests.services.postgres import private_server

ENGINES = ("postgres", "sqlite")
_TOLERATED = 3.0
"""Seconds by which an occurrence may be late before its policy is asked."""
_LASTS = 14.0
"""Seconds for which the schedules of every policy are due: some are fired, and then the workers are killed."""
_BOUND = 2
"""How many occurrences the bounded one makes up for."""


def _policies(end: float) -> dict[str, Entry]:
    """One schedule of every policy, each due every second until the end."""
    start = end - 3600
    return {
        "latest": Entry("latest", "every 1s", "UTC", "latest", _TOLERATED, start=start, end=end),
        "skip": Entry("skip", "every 1s", "UTC", "skip", _TOLERATED, start=start, end=end),
        "all": Entry("all", "every 1s", "UTC", "all", _TOLERATED, start=start, end=end),
        "bounded": Entry("bounded", "every 1s", "UTC", "all", _TOLERATED, _BOUND, start=start, end=end),
    }


@pytest.mark.timeout(300)
async def test_what_nobody_was_there_for_is_made_up_for_as_each_policy_says(scene: Scene, report: Report) -> None:
    goes_on = Entry("goes-on", "every 1s", "UTC", "skip", _TOLERATED)
    table = Timetable(scene, coded=[goes_on])
    await table.workers(2)
    end = table.now() // MICROS + _LASTS
    policies = _policies(end)
    await table.put(*policies.values())
    await until("each to fire", lambda: all(table.lines()[name].fired for name in policies))

    for member in scene.fleet.members:
        scene.kill(member)
    scene.fleet.members.clear()
    before = table.lines()
    # Their last occurrence is then later than any of them tolerates, whenever the next worker is ready.
    await until("all to be late", lambda: table.now() > (end + _TOLERATED) * MICROS, step=0.1)
    await table.workers(1)
    ready = table.now()
    await until("what goes on to fire again", lambda: (table.lines()["goes-on"].next or 0) > ready + 2 * MICROS)
    await table.passed(ready)

    expected: set[Occasion] = set()
    missed: dict[str, list[int]] = {}
    for name, entry in policies.items():
        due = sorted(due_times(entry, before[name].created, ready))
        missed[name] = [at for at in due if at >= (before[name].next or 0)]
        made_up = {
            "latest": missed[name][-1:],
            "skip": [],
            "all": missed[name],
            "bounded": missed[name][-_BOUND:],
        }[name]
        expected |= {(name, at) for at in (*(at for at in due if at not in missed[name]), *made_up)}
    found = table.judge(ready, kills=2, of=list(policies.values()), expected=expected)
    after = table.lines()
    let_go = {name: after[name].missed for name in policies}
    report(
        f"schedules, all workers dead, {scene.engine}",
        f"missed={len(missed['all'])} let-go={','.join(f'{name}:{count}' for name, count in let_go.items())}",
        found.line(),
    )
    assert len(missed["all"]) > _BOUND + 1, "too few were missed for the test to prove anything"
    assert found.flawless, found
    assert let_go == {
        "latest": len(missed["latest"]) - 1,
        "skip": len(missed["skip"]),
        "all": 0,
        "bounded": len(missed["bounded"]) - _BOUND,
    }
    assert after["goes-on"].missed > 0
    resumed = table.judge(ready + 2 * MICROS, since=ready, of=[goes_on])
    assert not resumed.doubled
    assert not resumed.extra


@pytest.mark.timeout(300)
async def test_a_killed_postgres_is_waited_for_and_schedules_resume_as_each_policy_says(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    outages = 5 if large else 1
    tight = Entry("tight", "every 1s", "UTC", "latest", _TOLERATED, group="occur-0")
    generous = mixed(30, groups=2)
    with private_server(tmp_path) as server, scene_on(tmp_path, seed, url=server.url, schema="faults") as scene:
        table = Timetable(scene, coded=[*generous, tight])
        workers = await table.workers(2)
        for _ in range(outages):
            fired = table.lines()["tight"].fired
            await until("schedules to go on", lambda: table.lines()["tight"].fired > fired)  # noqa: B023
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(_TOLERATED + scene.chance.uniform(1.5, 2.5))
            await asyncio.to_thread(server.start)
            scene.tables.close()  # the judge's own connection has died with the server
        end = table.now()
        await table.passed(end)

        found = table.judge(end, kills=outages * len(workers), of=generous)
        line = table.lines()["tight"]
        assert line.next is not None
        counted = len(due_times(tight, line.created, line.next - 1))
        report(
            "schedules, PostgreSQL killed −9 and restarted",
            f"seed={seed} outages={outages}",
            found.line(),
            f"tight: due={counted} fired={line.fired} let-go={line.missed}",
        )
        assert all(worker.alive for worker in workers)
        assert found.flawless, found
        assert line.missed >= outages
        assert line.fired + line.missed == counted
