"""The database goes away and comes back: workers stay, carry on by themselves, and say so once a second."""

import asyncio
import time
from datetime import datetime
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tests.faults.fleet import Member
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.waiting import until
from tests.services.postgres import private_server

ENGINES = ("postgres",)
_RATE = 150
_RECOVERED_WITHIN = 10.0
_WINDOW = 4.0


class _Rates:
    """Whether workers keep up with the load again after a fault, and in a large run with how many messages a second.

    Speed is a matter of the machine too: in every run it is asked that they catch up while the load goes on.
    """

    def __init__(self, scene: Scene, large: bool) -> None:
        self._scene = scene
        self._large = large
        self.before = self.after = self.offered = self.caught_up = 0.0

    async def baseline(self) -> None:
        await self._scene.begun(_RATE)
        if not self._large:
            return
        since = time.monotonic()
        await asyncio.sleep(_WINDOW)
        self.before = self._handled(since)

    async def recovery(self) -> None:
        healed = time.monotonic()
        # What had gathered by then, and what came in the meantime.
        for _ in range(2):
            await self._handle(self._scene.ledger.ids("ok"))
        self.caught_up = time.monotonic() - healed
        if not self._large:
            return
        since = healed + _RECOVERED_WITHIN - _WINDOW
        await asyncio.sleep(max(0.0, since + _WINDOW - time.monotonic()))
        self.after = self._handled(since)
        self.offered = sum(since <= at < since + _WINDOW for at in self._scene.stored_at) / _WINDOW

    @property
    def recovered(self) -> bool:
        # This process offers the load and may itself be slowed down: more than is offered cannot be handled.
        return self.after >= 0.95 * min(self.before, self.offered)

    def __str__(self) -> str:
        said = f"caught-up-after={self.caught_up:.1f}s"
        if self._large:
            said += f" rate-before={self.before:.0f}/s rate-after={self.after:.0f}/s (offered {self.offered:.0f}/s)"
        return said

    async def _handle(self, ids: set[UUID]) -> None:
        def handled() -> bool:
            return ids <= {each.id for each in self._scene.executions() if each.ended}

        await until("the workers to catch up", handled, step=0.1)

    def _handled(self, since: float) -> float:
        ended = [each.ended for each in self._scene.executions() if each.ended]
        return sum(since <= at < since + _WINDOW for at in ended) / _WINDOW


class _Chatter:
    """How much workers log, counted from here on."""

    def __init__(self, workers: list[Member]) -> None:
        self._before = {worker: len(worker.lines()) for worker in workers}

    def __str__(self) -> str:
        return "log-lines=" + ",".join(f"{count} in {span:.0f}s" for count, span in self._spans())

    @property
    def bounded(self) -> bool:
        """At most a line a second from the first to the last; the bell has one more of its own every ten seconds."""
        return all(count <= span * 1.1 + 2 for count, span in self._spans())

    def _spans(self) -> list[tuple[int, float]]:
        spans: list[tuple[int, float]] = []
        for worker, before in self._before.items():
            # A traceback is a line that is no line: what is expected of a database needs none.
            stamps = [datetime.fromisoformat(line[:23].replace(",", ".")) for line in worker.lines()[before:]]
            spans.append((len(stamps), (stamps[-1] - stamps[0]).total_seconds() if stamps else 0.0))
        return spans


@pytest.mark.timeout(300)
async def test_a_killed_postgres_is_waited_for_and_nothing_is_lost(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    outages = 5 if large else 1
    with private_server(tmp_path) as server, scene_on(tmp_path, seed, url=server.url, schema="faults") as scene:
        workers = await scene.workers(2, concurrency=20)
        async with scene.publishing() as app, scene.load(app, _RATE):
            rates = _Rates(scene, large)
            await rates.baseline()
            chatter = _Chatter(workers)
            for _ in range(outages):
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(scene.chance.uniform(0.5, 2.5))
                await asyncio.to_thread(server.start)
                await rates.recovery()
        await scene.drained()

        found = scene.judge(outages * len(workers), concurrency=20)
        report(
            "PostgreSQL killed −9 and restarted",
            f"seed={seed} outages={outages}",
            found.line(),
            f"{rates} {chatter}",
        )
        assert all(worker.alive for worker in workers)
        assert found.flawless, found
        assert rates.recovered or not large, rates
        assert chatter.bounded, chatter


@pytest.mark.timeout(300)
async def test_terminated_backends_are_replaced_and_nothing_is_lost(scene: Scene, report: Report, large: bool) -> None:
    seconds, terminated = 60 if large else 4, 0
    workers = await scene.workers(2, concurrency=20)
    async with scene.publishing() as app, scene.load(app, _RATE):
        rates = _Rates(scene, large)
        await rates.baseline()
        chatter, began = _Chatter(workers), time.monotonic()
        with psycopg.connect(scene.plan.url, autocommit=True, application_name="judge") as connection:
            while time.monotonic() - began < seconds:
                row = connection.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name <> 'judge'"
                ).fetchone()
                assert row is not None
                terminated += row[0]
                await asyncio.sleep(0.2)
        await rates.recovery()
    await scene.drained()

    found = scene.judge(len(workers), concurrency=20)
    report(
        "backends terminated 5/s",
        f"seed={scene.seed} terminated={terminated} seconds={seconds}",
        found.line(),
        f"{rates} {chatter}",
    )
    assert all(worker.alive for worker in workers)
    assert terminated >= 5
    assert found.flawless, found
    assert rates.recovered or not large, rates
    assert chatter.bounded, chatter
