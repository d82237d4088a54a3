"""`messages list` and `show` of what runs: how far its handler says it is, printed by this very process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from mainspring import Context, Mainspring
from mainspring.cli.messages import list_, show
from mainspring.cli.target import Target
from tests.integration.app.shop import eventually


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[tuple[Target, UUID]]:
    """A worker in the midst of a message that has said how far it is, on a database with a namespace."""
    url = f"sqlite:///{path}/shop.db"
    app = Mainspring(url, namespace="staging")
    go_on = asyncio.Event()

    @app.consumer("reports.wanted")
    async def write_report(wanted: dict[str, int], ctx: Context) -> None:
        ctx.progress("page 42\nof \x1b[31m100")
        await go_on.wait()

    async with app, app.worker():
        receipt = await app.publish("reports.wanted", {"pages": 100})

        async def said() -> bool:
            return [each.progress for each in await app.messages.list("running")] == ["page 42\nof \x1b[31m100"]

        await eventually(said)
        yield Target(url=url, namespace="staging"), receipt.id
        go_on.set()


async def test_it_is_listed_with_its_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path) as (target, _):
        await list_(target=target)
        await list_(target=target, json=True)

    listed, as_json = capsys.readouterr().out.split("\n[", 1)
    assert "page 42 of [31m100 (" in listed
    (view,) = json.loads("[" + as_json)
    assert view["progress"] == "page 42\nof \x1b[31m100"
    assert view["progress_at"] >= view["published_at"]


async def test_it_is_shown_with_its_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path) as (target, id):
        await show(id, target=target)

    _, said = capsys.readouterr().out.split("progress of write_report\n")
    assert said.startswith("page 42 of [31m100 (")
