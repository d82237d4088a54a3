"""Rolling deploys: releases and apps side by side, and processes that know only half of the schedules."""

import asyncio
import json
from dataclasses import replace

import pytest

from tests.faults.fleet import Member
from tests.faults.plan import Entry
from tests.faults.report import Report
from tests.faults.scene import Scene
from tests.faults.timetable import Timetable
from tests.faults.waiting import until
from tests.faults.worker import build

ENGINES = ("postgres",)
_SILENT = 6.0
"""Seconds in place of the five minutes after which a silent process does not keep its schedules any more."""


def _entry(name: str, rhythm: str = "every 1s", app: str = "faults") -> Entry:
    # A group belongs to one app: each has its own.
    return Entry(name, rhythm, group=f"occur-{app}")


async def _start(scene: Scene, *entries: Entry, app: str = "faults", version: int = 1) -> Member:
    plan = replace(scene.plan, app=app, group=f"work-{app}", version=version, schedules=entries, silent=_SILENT)
    member = scene.fleet.start(plan)
    await scene.fleet.ready(member)
    return member


def _rhythm(table: Timetable, name: str) -> str:
    return str(json.loads(table.lines()[name].definition)["rhythm"])


@pytest.mark.timeout(300)
async def test_a_deploy_retires_and_reverts_nothing_that_is_live(scene: Scene, report: Report) -> None:
    kept, moved, old, new = _entry("kept"), _entry("moved", "every 2s"), _entry("old"), _entry("new")
    held, other = _entry("held"), _entry("other", app="others")
    faster = _entry("moved", "every 1s")
    table = Timetable(scene, coded=[kept, moved, old, held])
    first = [await _start(scene, kept, moved, old, held) for _ in range(2)]
    another = await _start(scene, other, app="others", version=9)
    async with build(scene.plan) as app:
        await app.schedules.pause("held", reason="by hand", by="operator")

    # Half of the fleet is the new release; one process has failed to import half of it.
    scene.kill(first[0])
    scene.fleet.members.remove(first[0])
    await _start(scene, kept, faster, new, held, version=2)
    await _start(scene, kept, version=2)
    await until("the new release to define", lambda: _rhythm(table, "moved") == "every 1s")
    # The old release crashes and comes back, in the midst of it; the other app is away for longer than is tolerated.
    last = await _start(scene, kept, moved, old, held)
    last.freeze()
    scene.kill(first[1])
    scene.fleet.members.remove(first[1])
    scene.kill(another)
    scene.fleet.members.remove(another)
    await asyncio.sleep(_SILENT / 6)
    last.thaw()
    since = table.now()
    await asyncio.sleep(1.6 * _SILENT)
    end = table.now()
    live = [kept, faster, old, new]
    during = table.lines()
    assert [name for name, line in during.items() if line.retired is not None] == []
    await table.passed(end, of=live)
    found = table.judge(end, kills=3, since=since, of=live)

    # Positive control: when the old release has really gone, what only it had is retired, and nothing else.
    scene.kill(last)
    scene.fleet.members.remove(last)
    await until("what is gone to retire", lambda: table.lines()["old"].retired is not None)
    after = table.lines()
    report(
        "schedules, rolling deploy",
        f"seed={scene.seed} processes=6 retired-while-live={sum(line.retired is not None for line in during.values())} "
        f"retired-when-gone={sum(line.retired is not None for line in after.values())}",
        found.line(),
    )
    assert _rhythm(table, "moved") == "every 1s"
    assert (during["moved"].version, during["old"].version) == (2, 1)
    assert found.flawless, found
    assert [name for name, line in after.items() if line.retired is not None] == ["old"]
    assert after["held"].paused is not None
    assert after["held"].fired == during["held"].fired
