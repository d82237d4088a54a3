"""The database goes away and comes back: workers stay, carry on by themselves, and say so once a second."""

import asyncio
import time
from pathlib import Path

import psycopg
import pytest

from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.services.postgres import private_server

ENGINES = ("postgres",)
_RATE = 150
_RECOVERED_WITHIN = 10.0
_WINDOW = 4.0


class _Rates:
    """How many messages a second were handled before the fault, and after it in the window that is asked for."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.before = self.after = self.offered = 0.0

    async def baseline(self) -> None:
        await self._scene.begun(_RATE)
        since = time.monotonic()
        await asyncio.sleep(_WINDOW)
        self.before = self._handled(since)

    async def recovery(self, healed: float) -> None:
        since = healed + _RECOVERED_WITHIN - _WINDOW
        await asyncio.sleep(since + _WINDOW - time.monotonic())
        self.after = self._handled(since)
        self.offered = sum(since <= at < since + _WINDOW for at in self._scene.stored_at) / _WINDOW

    @property
    def recovered(self) -> bool:
        # This process offers the load and may itself be slowed down: more than is offered cannot be handled.
        return self.after >= 0.95 * min(self.before, self.offered)

    def __str__(self) -> str:
        return f"rate-before={self.before:.0f}/s rate-after={self.after:.0f}/s (offered {self.offered:.0f}/s)"

    def _handled(self, since: float) -> float:
        ended = [each.ended for each in self._scene.executions() if each.ended]
        return sum(since <= at < since + _WINDOW for at in ended) / _WINDOW


@pytest.mark.timeout(300)
async def test_a_killed_postgres_is_waited_for_and_nothing_is_lost(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    outages = 5 if large else 1
    with private_server(tmp_path) as server, scene_on(tmp_path, seed, url=server.url, schema="faults") as scene:
        workers = await scene.workers(2, concurrency=20)
        async with scene.publishing() as app, scene.load(app, _RATE):
            rates = _Rates(scene)
            await rates.baseline()
            began = time.monotonic()
            quiet = sum(len(worker.lines()) for worker in workers)
            for _ in range(outages):
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(scene.chance.uniform(0.5, 2.5))
                await asyncio.to_thread(server.start)
                await rates.recovery(time.monotonic())
            lasted = time.monotonic() - began
        await scene.drained(60)

        found = scene.judge(outages * len(workers), concurrency=20)
        lines = sum(len(worker.lines()) for worker in workers) - quiet
        report(
            "PostgreSQL killed −9 and restarted",
            f"seed={seed} outages={outages}",
            found.line(),
            f"{rates} log-lines={lines} in {lasted:.0f}s × {len(workers)}",
        )
        assert all(worker.alive for worker in workers)
        assert found.flawless, found
        assert rates.recovered, rates
        assert lines <= lasted * len(workers)


@pytest.mark.timeout(300)
async def test_terminated_backends_are_replaced_and_nothing_is_lost(scene: Scene, report: Report, large: bool) -> None:
    seconds, terminated = 60 if large else 4, 0
    workers = await scene.workers(2, concurrency=20)
    async with scene.publishing() as app, scene.load(app, _RATE):
        rates = _Rates(scene)
        await rates.baseline()
        began = time.monotonic()
        quiet = sum(len(worker.lines()) for worker in workers)
        with psycopg.connect(scene.plan.url, autocommit=True, application_name="judge") as connection:
            while time.monotonic() - began < seconds:
                row = connection.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name <> 'judge'"
                ).fetchone()
                assert row is not None
                terminated += row[0]
                await asyncio.sleep(0.2)
        await rates.recovery(time.monotonic())
        lasted = time.monotonic() - began
    await scene.drained(60)

    found = scene.judge(len(workers), concurrency=20)
    lines = sum(len(worker.lines()) for worker in workers) - quiet
    report(
        "backends terminated 5/s",
        f"seed={scene.seed} terminated={terminated} seconds={seconds}",
        found.line(),
        f"{rates} log-lines={lines} in {lasted:.0f}s × {len(workers)}",
    )
    assert all(worker.alive for worker in workers)
    assert terminated >= 5
    assert found.flawless, found
    assert rates.recovered, rates
    assert lines <= lasted * len(workers)
