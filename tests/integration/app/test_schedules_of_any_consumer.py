"""One-time schedules of every kind of consumer, run by a real worker on a file, each with options of its own."""

import asyncio
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, Mainspring, RunView
from tests.integration.app.shop import eventually

PAST = datetime(2026, 1, 1, tzinfo=UTC)


def counts(number: int | None) -> int:
    """Sums up, in a process that finds this by its name."""
    return sum(range(number or 10))


def hangs(number: int | None) -> None:
    """Never returns."""
    threading.Event().wait()


async def run_of(app: Mainspring, consumer: object, **options: Any) -> RunView:
    """Let a schedule run it once, and wait for what it did."""
    async with app.worker():
        await app.schedules.once("now", PAST, consumer, past="run", retry="none", **options)

        async def over() -> bool:
            return bool(await app.schedules.runs("now"))

        await eventually(over)
        (run,) = await app.schedules.runs("now")
        return run


@pytest.fixture
def app(tmp_path: Path) -> Mainspring:
    return Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")


async def test_a_transactional_one_runs(app: Mainspring) -> None:
    seen: list[object] = []

    @app.consumer("mail", transactional=True)
    async def mail(to: str | None, ctx: Context) -> None:
        seen.append((ctx.tx is not None, dict(ctx.headers)))

    run = await run_of(app, "mail", headers={"a": "b"})

    assert run.status == "done"
    assert seen == [(True, {"a": "b"})]


async def test_one_in_a_process_runs(app: Mainspring) -> None:
    app.consumer("numbers", cpu=True, concurrency=1)(counts)

    assert (await run_of(app, counts)).status == "done"


async def test_one_in_a_process_is_killed_at_the_limit_of_its_schedule(app: Mainspring) -> None:
    app.consumer("trouble", cpu=True, concurrency=1)(hangs)

    killed = await run_of(app, "hangs", timeout="300ms")

    assert (killed.status, killed.kind) == ("dead", "timeout")
    assert killed.error is not None
    assert "its timeout of 0.3 s" in killed.error


async def test_a_batch_of_one_is_stopped_at_the_limit_of_its_schedule(app: Mainspring) -> None:
    @app.consumer("letters", batch=5, linger="0s")
    async def pack(letters: list[str | None]) -> None:
        await asyncio.Event().wait()

    run = await run_of(app, pack, timeout="100ms")

    assert (run.status, run.kind) == ("dead", "timeout")
