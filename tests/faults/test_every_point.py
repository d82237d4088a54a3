"""A worker killed −9 at every statement of claim → handle → settle, before the server has it and after it is done."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from tests.faults.judge import Judgement
from tests.faults.proxy import proxy_to
from tests.faults.report import Report
from tests.faults.scene import scene_on
from tests.faults.waiting import until

_STATEMENTS = {
    "claim": r"LIMIT want\.quota",
    "extend": r"'asked'",
    "settle": r"DELETE FROM \S+\.delivery\b",
}
_POINTS: list[tuple[str, Literal["before", "after"]]] = [
    (statement, when) for statement in _STATEMENTS for when in ("before", "after")
]


async def _killed_at(
    folder: Path, seed: int, url: str, schema: str, statement: str, when: Literal["before", "after"]
) -> Judgement:
    folder.mkdir()
    with proxy_to(url) as proxy, scene_on(folder, seed, url=proxy.url, schema=schema, direct=url) as scene:
        await scene.declared()
        scene.open_gate()
        async with scene.publishing(url) as app:
            # They last until their claims are extended, if that is what is waited for; once taken over they are short.
            await scene.publish(app, scene.jobs(3, act="hang" if statement == "extend" else "nap"))
        proxy.halt_at_next(_STATEMENTS[statement], when)
        worker = scene.fleet.start(scene.plan)
        await until(f"the worker to stand still {when} {statement}", proxy.halted.is_set)
        scene.kill(worker)
        proxy.cut()
        await scene.workers(1)
        await scene.drained()
        return scene.judge(kills=1)


@pytest.mark.timeout(300)
async def test_a_worker_killed_at_any_statement_loses_nothing(
    tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int, report: Report
) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                _killed_at(
                    tmp_path / f"{statement}-{when}", seed, postgres_url, f"{postgres_schema}_{n}", statement, when
                )
            )
            for n, (statement, when) in enumerate(_POINTS)
        ]

    for (statement, when), task in zip(_POINTS, tasks, strict=True):
        judgement = task.result()
        report(f"kill −9 {when} {statement}", judgement.line())
        assert judgement.flawless, (statement, when, judgement)
        assert judgement.messages == 3
