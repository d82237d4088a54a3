"""SQLite on a disk that is full: what was acknowledged is there, the error is clear, and it goes on with space."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.faults.ledger import read_ledger
from tests.faults.plan import NEVER_LAPSES
from tests.faults.report import Report
from tests.faults.scene import scene_on
from tests.faults.waiting import PATIENCE

_ROOT = Path(__file__).parents[2]
_LIMIT = 3_000_000


async def test_a_full_disk_loses_nothing_acknowledged_and_publishing_resumes(
    tmp_path: Path, seed: int, report: Report
) -> None:
    with scene_on(tmp_path, seed, url=f"sqlite:///{tmp_path}/queue.db", schema="mainspring") as scene:
        await scene.declared()
        plan = replace(scene.plan, file_limit=_LIMIT)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.filler", plan.written(), str(tmp_path / "filler"),
            cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said = output.decode()
        assert process.returncode == 0, said
        for id, outcome in read_ledger(tmp_path / "filler").items():
            scene.ledger.note(outcome, [id])

        await scene.workers(1, claim_time=NEVER_LAPSES)
        await scene.drained()

        found = scene.judge()
        report("SQLite, disk full", f"{said.splitlines()[0]!r}", found.line())
        assert "StorageUnavailable" in said or "StorageError" in said
        assert scene.ledger.ids("ok") <= set(scene.tables.messages())
        assert found.flawless, found
        assert found.unknown == 1
