"""An action on everything that matches, in a process that is killed half way."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.app.admin.bulk import BATCH
from tests.services.unmeasured import unmeasured


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> tuple[str, str]:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db", "mainspring"
    return postgres_url, postgres_schema


async def test_what_was_done_before_the_process_was_killed_is_in_the_audit(place: tuple[str, str]) -> None:
    url, schema = place
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)

    @app.consumer("orders")
    def ship(order: int) -> None: ...

    async with app:
        await app.declare()
        await app.publish_many(("orders", number) for number in range(2 * BATCH + 1))

        command = [sys.executable, "-m", "tests.integration.app.sweeping", url, schema, "2"]
        killed = subprocess.run(command, env=unmeasured(), check=False)

        assert killed.returncode == -signal.SIGKILL
        assert len(await app.messages.list(limit=BATCH)) == 1
        (line,) = await app.audit()
        told = (line.by, line.action, line.subject, line.detail)
        assert told == ("ann", "cancel", "state ready, group ship", "1000 cancelled or asked to stop; goes on")
