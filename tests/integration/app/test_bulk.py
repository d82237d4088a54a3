"""An action on everything that matches, in a process that is killed half way."""

import json
import signal
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.app.admin.bulk import BATCH
from tests.faults.nursery import nursery


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> tuple[str, str]:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db", "mainspring"
    return postgres_url, postgres_schema


async def test_what_was_done_before_the_process_was_killed_is_in_the_audit(
    place: tuple[str, str], tmp_path: Path
) -> None:
    url, schema = place
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)

    @app.consumer("orders")
    def ship(order: int) -> None: ...

    async with app:
        await app.declare()
        await app.publish_many(("orders", number) for number in range(2 * BATCH + 1))

        with (tmp_path / "log").open("wb") as log:
            killed = nursery().start("tests.integration.app.sweeping", json.dumps([url, schema, 2]), log)

        assert killed.wait(100) == -signal.SIGKILL, (tmp_path / "log").read_text()
        assert len(await app.messages.list(limit=BATCH)) == 1
        (line,) = await app.audit()
        told = (line.by, line.action, line.subject, line.detail)
        assert told == ("ann", "cancel", "state ready, group ship", "1000 cancelled or asked to stop; goes on")
