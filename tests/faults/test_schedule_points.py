"""A worker killed −9 at every statement of a look at the timetable, before the server has it and after it is done."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from tests.faults.calculator import mixed
from tests.faults.fleet import Member
from tests.faults.plan import Bug, Entry
from tests.faults.proxy import Proxy, proxy_to
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.timekeeping import Timekeeping
from tests.faults.timetable import Timetable
from tests.faults.waiting import until

_MOVE = r"s\.next_at = v\.old_next_at"


class _Point(NamedTuple):
    """Where a worker is to stand still: at a statement, told from the like by one before it in its transaction."""

    name: str
    when: Literal["before", "after"]
    statement: str
    within: str = ""


_LOOK = (
    ("peek", r"s\.next_at - coalesce", ""),
    ("due", r"SELECT\s+due\.name, due\.app", ""),
    ("move", _MOVE, ""),
    ("publish", r"publish_(all|one)\(", _MOVE),
    ("release", r"WITH oldest AS MATERIALIZED", _MOVE),
    ("last peek", r"s\.next_at - coalesce", _MOVE),
    ("commit", r"^COMMIT", _MOVE),
)
"""The statements of a look, in their order."""


@contextmanager
def _trapped(scene: Scene, points: Sequence[_Point], url: str, bug: Bug | None) -> Iterator[dict[Proxy, Member]]:
    """A worker for each of the points, behind a proxy of its own that halts it there."""
    with ExitStack() as stack:
        made: dict[Proxy, Member] = {}
        for point in points:
            proxy = stack.enter_context(proxy_to(url))
            proxy.halt_at_next(point.statement, point.when, point.within)
            made[proxy] = scene.fleet.start(replace(scene.plan, url=proxy.url, bug=bug))
        yield made


async def _killed_at(scene: Scene, points: Sequence[_Point], url: str, bug: Bug | None = None) -> Timekeeping:
    """Judge schedules on which a worker has died at each of the points.

    All of them work on the same ones. Who gets to go on with them stands still in the midst of it, and the others pass
    its rows over until it is dead.
    """
    # One whose runs take longer than its rhythm, so that a look has something to release.
    queued = Entry("queued", "every 2s", group="occur-0", overlap="queue", nap=2.2)
    table = Timetable(scene, coded=[*mixed(20, groups=2), queued])
    await table.workers(1)
    scene.kill(scene.fleet.members.pop())
    with _trapped(scene, points, url, bug) as waiting:
        while waiting:
            await until(
                f"{len(waiting)} of {len(points)} workers to stand still",
                lambda: any(proxy.halted.is_set() for proxy in waiting),
                step=0.005,
            )
            for proxy in [each for each in waiting if each.halted.is_set()]:
                scene.kill(waiting[proxy])
                proxy.cut()
                scene.fleet.members.remove(waiting.pop(proxy))
    await table.workers(1)
    end = table.now()
    await table.passed(end)
    return table.judge(end, kills=len(points) + 1)


@pytest.mark.timeout(300)
async def test_a_worker_killed_at_any_statement_of_a_look_passes_no_occurrence_over(
    tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int, report: Report
) -> None:
    whens: tuple[Literal["before", "after"], ...] = ("before", "after")
    points = [_Point(name, when, statement, within) for name, statement, within in _LOOK for when in whens]
    with scene_on(tmp_path, seed, url=postgres_url, schema=postgres_schema) as scene:
        found = await _killed_at(scene, points, postgres_url)

    report("schedules, kill −9 at every statement of a look", f"seed={seed} points={len(points)}", found.line())
    assert found.flawless, found


async def test_a_look_whose_commit_reply_is_lost_fires_once(
    tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int, report: Report
) -> None:
    with (
        proxy_to(postgres_url) as proxy,
        scene_on(tmp_path, seed, url=proxy.url, schema=postgres_schema, direct=postgres_url) as scene,
    ):
        table = Timetable(scene, coded=mixed(20, groups=2))
        (worker,) = await table.workers(1)
        for lost in (1, 2, 3):
            proxy.lose_next_answer(r"^COMMIT", within=_MOVE)
            await until("the answer to be lost", lambda: proxy.lost == lost)  # noqa: B023
        end = table.now()
        await table.passed(end)

        found = table.judge(end, kills=proxy.lost)
        report("schedules, reply to COMMIT lost", f"replies-lost={proxy.lost}", found.line())
        assert worker.alive
        assert found.flawless, found


async def test_an_advance_that_commits_before_its_publish_is_reported_as_missing(
    tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int, report: Report
) -> None:
    before_publish = _Point("publish", "before", r"publish_(all|one)\(")
    with scene_on(tmp_path, seed, url=postgres_url, schema=postgres_schema) as scene:
        found = await _killed_at(scene, [before_publish], postgres_url, bug="apart")

    report("teeth: advance and publish apart", f"seed={seed} kills=1", found.line(), "(must be missing>0)")
    assert found.missing
    assert not found.flawless
