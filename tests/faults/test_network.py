"""Connections that go dead without a word, and answers that are lost after the deed was done."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.plan import NEVER_LAPSES
from tests.faults.proxy import Proxy, proxy_to
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.waiting import until

ENGINES = ("postgres",)
_NOTICED_WITHIN = 15.0


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with proxy_to(postgres_url) as made:
        yield made


@pytest.fixture(params=["asyncpg", "psycopg"])
def scene(
    tmp_path: Path, proxy: Proxy, postgres_url: str, postgres_schema: str, seed: int, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """Workers reach the database through the proxy, with either driver; the judge does not."""
    url = proxy.url.replace("://", f"+{request.param}://")
    with scene_on(tmp_path, seed, url=url, schema=postgres_schema, direct=postgres_url) as made:
        yield made


async def test_a_half_open_connection_is_noticed_and_replaced(
    scene: Scene, proxy: Proxy, postgres_url: str, report: Report, margin: float
) -> None:
    (worker,) = await scene.workers(1)
    async with scene.publishing(postgres_url) as app:
        await scene.publish(app, scene.jobs(5))
        await scene.drained()

        proxy.black_hole(also_new=False)
        since = time.monotonic()
        await scene.publish(app, scene.jobs(5))
        await scene.drained()

    found = scene.judge(1)
    noticed = max(each.began for each in scene.executions()) - since
    report("half-open connection", f"noticed={noticed:.1f}s≤{_NOTICED_WITHIN:g}s", found.line())
    assert worker.alive
    assert noticed <= _NOTICED_WITHIN + margin
    assert found.flawless, found


async def test_a_worker_that_cannot_reach_the_database_still_stops(
    scene: Scene, proxy: Proxy, postgres_url: str, report: Report, margin: float
) -> None:
    grace = 2.0
    (worker,) = await scene.workers(1, grace=grace)
    async with scene.publishing(postgres_url) as app:
        # Handlers that use up the grace, and verdicts that nobody will take: the longest way to the end.
        await scene.publish(app, scene.jobs(5, act="hang"))
        await scene.begun(5)

        proxy.black_hole(also_new=True)
        worker.ask_to_stop()
        took = await until("the worker to end", lambda: not worker.alive)

    proxy.cut()
    proxy.heal()
    scene.open_gate()
    await scene.workers(1)
    await scene.drained()
    found = scene.judge(1)
    report("SIGTERM while black-holed", f"exit-after={took:.1f}s≤{grace + 5:g}s", found.line())
    assert worker.process.returncode == 0, worker.said()
    assert took <= grace + 5 + margin
    assert found.flawless, found


async def test_a_publish_whose_commit_reply_is_lost_is_stored_once(scene: Scene, proxy: Proxy, report: Report) -> None:
    await scene.workers(1, claim_time=NEVER_LAPSES)
    async with scene.publishing() as app:
        for _ in range(5):
            proxy.lose_next_answer(r"insert into \S+\.?message\b|publish_one\(")
            receipt = await app.publish("work", scene.jobs(1)[0])
            scene.ledger.note("ok", [receipt.id])
            assert receipt.status == "stored"
    await scene.drained()

    found = scene.judge()
    stored = scene.tables.messages()
    report("reply to publish lost", f"replies-lost={proxy.lost} stored={len(stored)}", found.line())
    assert proxy.lost == 5
    assert len(stored) == 5
    assert found.flawless, found
    assert found.executed == 5


async def test_a_settle_whose_reply_is_lost_counts_as_settled(
    scene: Scene, proxy: Proxy, postgres_url: str, report: Report
) -> None:
    (worker,) = await scene.workers(1, claim_time=NEVER_LAPSES)
    async with scene.publishing(postgres_url) as app:
        for round in range(1, 4):
            proxy.lose_next_answer(r"delete from \S+\.?delivery\b")
            await scene.publish(app, scene.jobs(1))
            await until("the answer to be lost", lambda: proxy.lost == round)  # noqa: B023
            await scene.drained()
        await scene.publish(app, scene.jobs(1))
        await scene.drained()
    worker.ask_to_stop()
    assert await worker.ended() == 0

    found = scene.judge()
    complaints = [line for line in worker.lines() if "claim was lost" in line]
    report("reply to settle lost", f"replies-lost={proxy.lost} lost-claims-reported={len(complaints)}", found.line())
    assert found.flawless, found
    assert found.executed == 4
    assert complaints == []
