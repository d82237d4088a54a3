"""Schedules whose workers are killed −9 at random: every occurrence is published exactly once."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.calculator import MICROS, mixed
from tests.faults.fleet import Member
from tests.faults.plan import Bug, Entry
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.timekeeping import Timekeeping
from tests.faults.timetable import Line, Timetable
from tests.faults.waiting import until

ENGINES = ("postgres",)  # SQLite has a test of its own, with fewer processes
_HOUR = 3600.0
_NAP = 0.2
"""Seconds of work: long enough for some to be in hand when a process dies."""
_LOOKS = 0.06
"""Seconds after a whole one in which the schedules that are due then go on."""


async def _victim(table: Timetable, n: int) -> Member:
    """Wait for the moment of the nth kill, and choose whom it hits.

    Everything happens at whole seconds: a kill at any time would nearly always hit who has nothing to do. So one in
    three hits a process in the midst of a run, one whoever it is just as all of them look, and one anybody any time.
    """
    scene = table.scene
    if n % 3 == 0:
        # What begins from now on is held: it still runs when its process is killed.
        scene.plan.hold.touch()
        return await scene.running(since=time.monotonic())
    if n % 3 == 1:
        to_the_second = 1 - table.now() % MICROS / MICROS
        await asyncio.sleep(to_the_second + scene.chance.uniform(0.0, _LOOKS))
    return scene.chance.choice(scene.fleet.members)


async def _kill_at_random(
    table: Timetable, made: list[Entry], processes: int, kills: int, seconds: float
) -> tuple[Timekeeping, int]:
    """Kill one after the other, ready or still at its start, and replace it at once. Answers also how many worked."""
    scene = table.scene
    earliest = table.now()
    await table.workers(processes, nap=_NAP)
    await table.put(*made)
    assert all(earliest <= line.created <= table.now() for line in table.lines().values())
    began, share = time.monotonic(), seconds / kills
    for n in range(kills):
        moment = began + share * (n + scene.chance.random())
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        victim = await _victim(table, n)
        scene.kill(victim)
        scene.plan.hold.unlink(missing_ok=True)
        scene.fleet.replace(victim)
    await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
    end = table.now()
    await table.passed(end)
    in_hand = {each.pid for each in scene.executions() if each.outcome is None} & scene.deaths.keys()
    return table.judge(end, kills=kills), len(in_hand)


@pytest.mark.timeout(1200)
async def test_every_occurrence_is_published_once_while_workers_are_killed(
    scene: Scene, report: Report, large: bool
) -> None:
    kills, seconds = (80, 330.0) if large else (6, 14.0)
    table = Timetable(scene, coded=mixed(120))

    found, hits = await _kill_at_random(table, mixed(80, start=120), 4, kills, seconds)

    report(
        "schedules, kill −9, PostgreSQL",
        f"seed={scene.seed} processes=4 schedules={len(table.entries)} kills={kills} seconds={seconds:g}",
        found.line(),
        f"killed-at-work={hits}",
    )
    assert found.flawless, found
    assert hits >= kills // 3
    assert len(table.entries) == 200
    assert found.expected > 20 * seconds, "too few were due for the test to prove anything"


@pytest.mark.timeout(600)
async def test_every_occurrence_is_published_once_on_one_sqlite_file(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    kills, seconds = (40, 120.0) if large else (4, 8.0)
    with scene_on(tmp_path, seed, url=f"sqlite:///{tmp_path}/queue.db", schema="mainspring") as scene:
        table = Timetable(scene, coded=mixed(30, groups=4))

        found, hits = await _kill_at_random(table, mixed(10, start=30, groups=4), 2, kills, seconds)

        report(
            "schedules, kill −9, SQLite",
            f"seed={seed} processes=2 schedules={len(table.entries)} kills={kills} seconds={seconds:g}",
            found.line(),
            f"killed-at-work={hits}",
        )
        assert found.flawless, found
        assert hits >= kills // 3


async def test_clocks_an_hour_wrong_let_no_schedule_be_early_or_late(scene: Scene, report: Report, large: bool) -> None:
    seconds = 60.0 if large else 3.0
    # Few hands that are full for a while: nobody can take all there is before another comes.
    scene.plan = replace(scene.plan, concurrency=1, nap=0.1)
    table = Timetable(scene, coded=mixed(40, groups=4))
    # The first to start makes the rows: it is one that is wrong.
    wrong = [*await table.workers(1, skew=_HOUR), *await table.workers(1, skew=-_HOUR)]
    await table.workers(1)
    assert all("the clock is wrong by" in member.said() for member in wrong)
    pids = {member.pid for member in wrong}
    await until("each that is wrong to have worked", lambda: pids <= {each.pid for each in scene.executions()})
    await asyncio.sleep(seconds)
    scene.kill(wrong[0])
    scene.fleet.replace(wrong[0])
    await asyncio.sleep(seconds / 4)
    end = table.now()
    await table.passed(end)

    found = table.judge(end, kills=1)
    report("schedules, clocks ±1 h", f"seed={scene.seed} processes=3 kills=1 seconds={1.25 * seconds:g}", found.line())
    assert found.flawless, found


async def _leader_killed(table: Timetable) -> None:
    scene = table.scene
    (leader,) = await table.workers(1, bug="leader")
    await scene.workers(2, bug="follower")
    await until("the leader to fire", lambda: any(line.fired for line in table.lines().values()))
    scene.kill(leader)
    # However quickly a process starts: one that is due while there is no leader is one that nobody fires.
    await until("an occurrence to pass", lambda: any(_is_due(line, table.now()) for line in table.lines().values()))
    await scene.fleet.ready(scene.fleet.replace(leader))
    # By now the new one has reckoned every next time from its own beginning.
    await until("it to go on", lambda: not any(_is_due(line, table.now()) for line in table.lines().values()))


def _is_due(line: Line, now: int) -> bool:
    return line.next is not None and line.next <= now


async def test_a_leader_that_is_killed_is_reported_as_missing_occurrences(scene: Scene, report: Report) -> None:
    table = Timetable(scene, coded=mixed(20, groups=2))

    await _leader_killed(table)
    end = table.now()
    await table.passed(end)

    found = table.judge(end, kills=1)
    report("teeth: only the leader has a cron", f"seed={scene.seed} kills=1", found.line(), "(must be missing>0)")
    assert found.missing
    assert not found.flawless


async def test_an_advance_without_lock_and_guard_is_reported_as_doubled(scene: Scene, report: Report) -> None:
    bug: Bug = "unlocked"
    table = Timetable(scene, coded=mixed(40, groups=2))
    await table.workers(3, bug=bug)

    # They wake at the same instants: it takes a few of those until two have read the same row.
    await until("a judgement", lambda: table.judge(table.now()).doubled, step=0.5)

    found = table.judge(table.now())
    report("teeth: an advance without lock and guard", f"seed={scene.seed}", found.line(), "(must be doubled>0)")
    assert found.doubled
    assert not found.flawless
