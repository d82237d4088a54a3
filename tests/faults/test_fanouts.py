"""Fan-out whose coordinators and workers are killed −9: every shard is done once in every window."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from tests.faults.fanning import TOPIC, WORK, effects_table
from tests.faults.fleet import Member
from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.waiting import until

ENGINES = ("postgres",)
SCHEDULE = f"plan:{TOPIC}:{WORK}"
_GUARD = """
CREATE TABLE {table} (shard text NOT NULL, for_window timestamptz NOT NULL, last timestamptz);
CREATE TABLE {table}_back (shard text NOT NULL);
CREATE FUNCTION {table}_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.completed < OLD.completed OR NEW.planned < OLD.planned THEN
        INSERT INTO {table}_back VALUES (NEW.shard);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER guard AFTER UPDATE ON {schema}.fanout_cursor FOR EACH ROW EXECUTE FUNCTION {table}_guard();
"""
_REMOVE = "DROP TABLE {table}, {table}_back; DROP FUNCTION {table}_guard() CASCADE"


@dataclass
class Found:
    """What became of the slices; the last five are nought when all is well."""

    windows: int
    shards: int
    effects: int
    again: int
    """Slices and plannings that were begun more than once."""
    missing: int
    """Shards that were not done in a window."""
    doubled: int
    """Effects that were committed twice, and slices that were stored twice."""
    astray: int
    """Effects that were told another window as their last than the one before."""
    behind: int
    """Cursors that do not stand at the last window."""
    backward: int
    """Times that a cursor went back."""

    @property
    def flawless(self) -> bool:
        return not (self.missing or self.doubled or self.astray or self.behind or self.backward)

    def line(self) -> str:
        return (
            f"windows={self.windows} shards={self.shards} slices={self.windows * self.shards} effects={self.effects} "
            f"missing={self.missing} doubled={self.doubled} astray={self.astray} behind={self.behind} "
            f"backward={self.backward} begun-again={self.again}"
        )


class Fanning:
    """The fan-out of a scene, as the test triggers, follows and judges it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.table = effects_table(scene.plan)
        self._schema = scene.plan.schema

    def rows(self, query: str) -> Any:
        return self.scene.tables.rows(query)

    def count(self, query: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {query}")[0][0])

    def coordinator(self) -> Member:
        """Who holds the lease."""
        [(holder,)] = self.rows(f"SELECT holder FROM {self._schema}.lease WHERE holder IS NOT NULL")
        [found] = [each for each in self.scene.fleet.members if each.pid == int(holder.split(":")[1])]
        return found

    async def window(self, app: Mainspring, kills: int) -> None:
        """Plan a window, kill who plans it half way, and then others, and wait until all of it is over."""
        scene, half = self.scene, self.count(self._slices) + self.scene.plan.shards // 4
        if kills:
            scene.plan.hold.touch()
        await app.schedules.trigger(SCHEDULE)
        for n in range(kills):
            if n == 0:
                await until("a part to be planned", lambda: self.count(self._slices) >= half)
                victim = self.coordinator()
            else:
                victim = await scene.any_ready()
                await asyncio.sleep(scene.chance.uniform(0.0, 0.3))
            scene.kill(victim)
            scene.fleet.replace(victim)
        await scene.drained()

    @property
    def _slices(self) -> str:
        return f"{self._schema}.message WHERE topic = 'fanout:{TOPIC}:{WORK}'"

    def judge(self, windows: int) -> Found:
        """Hold what the slices wrote against what there should be."""
        shards = self.scene.plan.shards
        effects = self.rows(f"SELECT shard, for_window, last FROM {self.table} ORDER BY for_window")
        done = Counter((shard, window) for shard, window, _ in effects)
        times = sorted({window for _, window in done})
        stored = self.rows(f"SELECT key, headers FROM {self._slices}")
        expected = windows * shards
        before = dict(zip(times, [None, *times], strict=False))
        cursors = dict(self.rows(f"SELECT shard, completed FROM {self._schema}.fanout_cursor"))
        begun = Counter(each.id for each in self.scene.executions())
        return Found(
            windows,
            shards,
            len(effects),
            again=sum(count > 1 for count in begun.values()),
            missing=expected - len(done) + abs(len(times) - windows),
            doubled=len(effects) - len(done) + len(stored) - len(set(stored)),
            astray=sum(last != before[window] for _, window, last in effects),
            behind=sum(not times or at != times[-1] for at in cursors.values()) + shards - len(cursors),
            backward=self.count(f"{self.table}_back"),
        )


@contextmanager
def guarded(scene: Scene) -> Iterator[Fanning]:
    """The tables of the slices, and a trigger that notes every cursor that goes back."""
    fanning = Fanning(scene)
    names = {"table": fanning.table, "schema": scene.plan.schema}
    with psycopg.connect(scene.plan.url, autocommit=True) as connection:
        connection.execute(_GUARD.format(**names).encode())
        try:
            yield fanning
        finally:
            connection.execute(_REMOVE.format(**names).encode())


async def fanned_out(scene: Scene, shards: int, windows: int, kills: int, **changes: Any) -> Found:
    scene.plan = replace(scene.plan, shards=shards, **changes)
    await scene.declared()
    with guarded(scene) as fanning:
        await scene.workers(3)
        async with scene.publishing() as app:
            for _ in range(windows):
                await fanning.window(app, kills)
        return fanning.judge(windows)


@pytest.mark.timeout(900)
async def test_every_shard_is_done_once_in_every_window_while_coordinators_and_workers_are_killed(
    scene: Scene, report: Report, large: bool
) -> None:
    # Whoever dies three times in one window is buried as its murderer.
    shards, windows, kills = (2000, 20, 2) if large else (300, 2, 2)

    found = await fanned_out(scene, shards, windows, kills)

    report("fan-out, kill −9, PostgreSQL", f"seed={scene.seed} kills={windows * kills}", found.line())
    assert found.flawless, found
    assert found.effects == shards * windows
    assert found.again


async def test_cursors_that_nobody_advances_are_reported_as_behind(scene: Scene, report: Report) -> None:
    found = await fanned_out(scene, 20, 2, 0, bug="standing")

    report("teeth: cursors that stand still", f"seed={scene.seed}", found.line(), "(must be behind>0, astray>0)")
    assert found.behind
    assert found.astray
    assert not found.flawless
