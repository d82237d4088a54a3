"""Whatever a handler raises, however it runs: it ends in a verdict, and the next message is handled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring import Done, Mainspring, intervals
from mainspring.model.views import RunView
from tests.raising.explosives import KINDS, explode
from tests.raising.report import record

WAYS = ("async", "thread", "process", "batch", "transactional", "kit")


def consume(app: Mainspring, way: str) -> None:
    """A consumer of one hand that does as the message says, and is tried twice."""
    options: dict[str, Any] = {"group": "work", "concurrency": 1, "retry": intervals(0), "keep": "all"}
    match way:
        case "process":
            app.consumer("work", **options, cpu=True)(explode)
        case "thread":
            app.consumer("work", **options)(explode)
        case "batch":

            @app.consumer("work", **options, batch=1)
            async def work_together(kinds: list[str]) -> list[Done]:
                await asyncio.sleep(0)
                return [explode(kind) for kind in kinds]

        case _:
            if way == "transactional":
                options["transactional"] = True

            @app.consumer("work", **options)
            async def work(kind: str) -> Done:
                await asyncio.sleep(0)
                return explode(kind)


async def ended(app: Mainspring, kind: str) -> list[RunView]:
    """All runs in their order, when both messages are over and nothing is in hand."""
    async with app.worker() as worker:
        await app.publish("work", kind)
        await app.publish("work", "fine")
        async with asyncio.timeout(60):
            while len(runs := await app.messages.runs()) < 3 or worker.in_hand:
                await asyncio.sleep(0.01)
        assert not await app.messages.list("live")
    return sorted(runs, key=lambda run: run.id)


async def ended_in_kit(app: Mainspring, kind: str) -> list[RunView]:
    async with app.testing() as kit:
        with kit.expect_dead("work"):
            await app.publish("work", kind)
            await app.publish("work", "fine")
            await kit.drain()
        assert not kit.pending
        return sorted(await app.messages.runs(), key=lambda run: run.id)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_a_handler_raises_ends_in_a_verdict(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, way: str
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/work.db", name="work")
    consume(app, way)

    runs = await (ended_in_kit if way == "kit" else ended)(app, kind)

    record(request.node, ", ".join(run.status for run in runs))
    failed = [run for run in runs if run.status != "done"]
    assert sorted(run.status for run in runs) == ["dead", "done", "failed"]
    assert [(run.attempt, run.kind) for run in failed] == [(1, "error"), (2, "error")]
    assert [run.output for run in runs if run.status == "done"] == ["fine"]
    for run in failed:
        assert (run.error or "").startswith(KINDS[kind][1])
        assert len(run.error or "") + len(run.traceback or "") < 20_000
