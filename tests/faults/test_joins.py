"""Joins whose workers are killed −9 at random: what follows each is published exactly once, and is the right one."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from mainspring import JoinReceipt, Mainspring
from tests.faults.joining import Joiners, Part, declare
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.tables import PostgresTables, SqliteTables
from tests.faults.waiting import TooLateError, until

ENGINES = ("postgres",)  # SQLite has a test of its own, with fewer processes
MEMBERS = 6
TABLES = {"SQLite": ("joint",), "PostgreSQL": ("joint", "joint_end")}


@dataclass
class Found:
    """What became of the joins; the last four are empty when all is well."""

    joins: int
    then: int
    failed: int
    again: int
    """Members that were begun more than once."""
    missing: set[UUID]
    """Nothing has followed."""
    doubled: set[UUID]
    """It has ended more than once."""
    wrong: set[UUID]
    """The other consumer has followed, or it was told other counts."""
    early: set[UUID]
    """It began before a member had ended."""

    @property
    def flawless(self) -> bool:
        return not (self.missing or self.doubled or self.wrong or self.early)

    def line(self) -> str:
        return (
            f"joins={self.joins}×{MEMBERS} then={self.then} failed={self.failed} missing={len(self.missing)} "
            f"doubled={len(self.doubled)} wrong={len(self.wrong)} early={len(self.early)} begun-again={self.again}"
        )


class Opener:
    """Opens joins, of which every third has a member that fails."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.opened: list[JoinReceipt] = []

    async def one_that_lasts(self, app: Mainspring, joiners: Joiners) -> UUID:
        """Open one with a member that runs until its process is killed; answers that member."""
        parts = [(joiners.part, Part(0.0 if place else 3600.0, False)) for place in range(MEMBERS)]
        join = await app.join(parts, then=joiners.then, failed=joiners.failed)
        self.opened.append(join)
        return join.members[0]

    async def run(self, app: Mainspring, joiners: Joiners, count: int) -> None:
        chance = self._scene.chance
        for n in range(count):
            parts = [
                (joiners.part, Part(chance.uniform(0.0, 0.3), n % 3 == 0 and place == 1)) for place in range(MEMBERS)
            ]
            self.opened.append(await app.join(parts, then=joiners.then, failed=joiners.failed))
            await asyncio.sleep(0.02)


def judge(scene: Scene, opened: list[JoinReceipt]) -> Found:
    """Hold what handlers and tables say of the joins against each other."""
    executions = scene.executions()
    begun: dict[UUID, list[float]] = defaultdict(list)
    ended: dict[UUID, list[float]] = defaultdict(list)
    for each in executions:
        begun[each.id].append(each.began)
        if each.ended is not None:
            ended[each.id].append(each.ended)
    outputs: dict[UUID, list[str]] = defaultdict(list)
    for run in scene.tables.runs():
        if run.status == "done":
            outputs[run.id].append(run.output or "")
    buried = {each.id for each in scene.tables.buried()}
    found = Found(len(opened), 0, 0, 0, set(), set(), set(), set())
    for join in opened:
        told = outputs[join.follows]
        failures = sum(each in buried for each in join.members)
        name = "failed" if failures else "then"
        found.then += name == "then"
        found.failed += name == "failed"
        found.again += sum(len(begun[each]) > 1 for each in join.members)
        if not told:
            found.missing.add(join.id)
        if len(told) > 1:
            found.doubled.add(join.id)
        if told and told[0] != f"{name} {MEMBERS - failures} {failures}":
            found.wrong.add(join.id)
        if told and min(begun[join.follows]) < max(min(ended[each], default=float("inf")) for each in join.members):
            found.early.add(join.id)
    return found


def left(scene: Scene) -> Counter[str]:
    """How many rows the tables of joins still have."""
    tables: PostgresTables | SqliteTables = scene.tables
    return Counter(
        {name: int(tables.rows(f"SELECT count(*) FROM {tables.prefix}{name}")[0][0]) for name in TABLES[scene.engine]}
    )


async def kill_at_random(scene: Scene, workers: int, joins: int, kills: int) -> Found:
    opener = Opener(scene)
    await scene.workers(workers, joins=True)
    async with scene.publishing() as app:
        joiners = declare(app)
        lasting = await opener.one_that_lasts(app, joiners)
        opening = asyncio.create_task(opener.run(app, joiners, joins - 1))
        for n in range(kills):
            victim = await (scene.running(message=lasting) if n == 0 else scene.any_ready())
            await asyncio.sleep(scene.chance.uniform(0.0, 0.4))
            scene.kill(victim)
            scene.fleet.replace(victim)
        await opening
    await scene.fleet.ready()
    await until("the joins to be over", lambda: not left(scene).total() and scene.tables.live() == 0, step=0.05)
    return judge(scene, opener.opened)


@pytest.mark.timeout(900)
async def test_what_follows_a_join_is_published_once_while_workers_are_killed(
    scene: Scene, report: Report, large: bool
) -> None:
    joins, kills = (1500, 100) if large else (120, 8)

    found = await kill_at_random(scene, 3, joins, kills)

    report("joins, kill −9, PostgreSQL", f"seed={scene.seed} kills={kills}", found.line())
    assert found.flawless, found
    assert found.joins == joins
    assert found.then
    assert found.failed
    assert found.again


@pytest.mark.timeout(600)
async def test_what_follows_a_join_is_published_once_on_one_sqlite_file(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    joins, kills = (500, 40) if large else (60, 4)
    with scene_on(tmp_path, seed, url=f"sqlite:///{tmp_path}/queue.db", schema="mainspring") as scene:
        found = await kill_at_random(scene, 2, joins, kills)

        report("joins, kill −9, SQLite", f"seed={seed} kills={kills}", found.line())
        assert found.flawless, found
        assert found.joins == joins
        assert found.again


async def test_a_worker_that_counts_no_ends_is_reported_as_missing_continuations(scene: Scene, report: Report) -> None:
    opener = Opener(scene)
    await scene.workers(1, joins=True, bug="uncounted")
    async with scene.publishing() as app:
        await opener.run(app, declare(app), 5)
    await scene.drained()

    with pytest.raises(TooLateError):
        await until("the joins to be over", lambda: not left(scene).total(), 1)

    found = judge(scene, opener.opened)
    report("teeth: ends that nobody counts", f"seed={scene.seed}", found.line(), "(must be missing>0)")
    assert found.missing
    assert not found.flawless
