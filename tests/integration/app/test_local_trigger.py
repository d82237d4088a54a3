"""A run by hand on this node: the worker of this process takes it, whoever else serves the consumer."""

import asyncio
import os
from pathlib import Path

import pytest

from mainspring import Context, Mainspring, errors, every


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else postgres_url


def shop(url: str, schema: str, ran: asyncio.Queue[str], where: str) -> Mainspring:
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)

    @app.recurring(every("30d"))
    async def report(ctx: Context) -> None:
        assert ctx.is_recurring
        ran.put_nowait(where)

    return app


async def test_it_runs_here_though_another_node_has_as_many_hands(url: str, postgres_schema: str) -> None:
    ran: asyncio.Queue[str] = asyncio.Queue()
    here, there = shop(url, postgres_schema, ran, "here"), shop(url, postgres_schema, ran, "there")

    async with here.worker(), there.worker():
        await asyncio.gather(here.declare(), there.declare())
        receipts = [await here.schedules.trigger("report", local=True, by="ann") for _ in range(10)]
        places = [await asyncio.wait_for(ran.get(), 60) for _ in receipts]

        assert places == ["here"] * 10
        assert len({receipt.id for receipt in receipts}) == 10
        assert (await here.audit())[0].detail == "local"


async def test_a_blocking_caller_has_it_run_here_too(url: str, postgres_schema: str) -> None:
    ran: asyncio.Queue[str] = asyncio.Queue()
    app = shop(url, postgres_schema, ran, f"process {os.getpid()}")

    async with app.worker():
        await app.declare()
        await asyncio.to_thread(app.sync.schedules.trigger, "report", local=True)

        assert await asyncio.wait_for(ran.get(), 60) == f"process {os.getpid()}"


async def test_without_a_worker_here_it_is_refused(url: str, postgres_schema: str) -> None:
    app = shop(url, postgres_schema, asyncio.Queue(), "here")
    await app.declare()

    async with app:
        with pytest.raises(errors.BadOption, match="no worker of this process serves 'report': leave out local=True"):
            await app.schedules.trigger("report", local=True)
        with pytest.raises(errors.BadOption, match="before tx= commits: leave out one of them"):
            await app.schedules.trigger("report", local=True, tx=object())
