"""What an application writes itself does not restart it for ever; what a user writes restarts it, whenever it is."""

import asyncio
import os
from pathlib import Path

from mainspring.app.process.reloader import Reloader, watched


async def _started(reloader: Reloader, folder: Path, *names: str) -> asyncio.Task[str | None]:
    """A worker that has started, and has written these files while it did."""
    seen, started = watched(folder), asyncio.Event()
    for name in names:
        _write(folder / name)
    started.set()
    return asyncio.create_task(reloader._until_changed(seen, started))


def _write(path: Path) -> None:
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.touch()
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


async def test_a_file_that_changes_at_every_start_restarts_it_twice_at_most(tmp_path: Path) -> None:
    reloader = Reloader([], tmp_path)
    stamp, module = str(tmp_path / "stamp.py"), str(tmp_path / "shop.py")

    assert await (await _started(reloader, tmp_path, "stamp.py")) == stamp
    assert await (await _started(reloader, tmp_path, "stamp.py")) == stamp
    running = await _started(reloader, tmp_path, "stamp.py")
    await asyncio.wait([running], timeout=0.2)
    assert not running.done()

    _write(tmp_path / "shop.py")
    assert await running == module
    assert await (await _started(reloader, tmp_path, "shop.py")) == module


async def test_a_file_that_is_written_while_a_worker_runs_restarts_it_each_time(tmp_path: Path) -> None:
    reloader = Reloader([], tmp_path)
    for _ in range(4):
        running = await _started(reloader, tmp_path)
        await asyncio.wait([running], timeout=0.1)
        _write(tmp_path / "shop.py")
        assert await running == str(tmp_path / "shop.py")
