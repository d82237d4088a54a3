"""A thousand databases on one worker: few connections, few queries, little memory, and work is found where it is."""

import gc
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from mainspring import Context, Fleet, Mainspring
from tests.integration.fleet.conftest import until

COUNT, BUSY = 1_000, 50
LOOKS = 300
"""How many looks at idle databases are counted."""


class Counted(sqlite3.Connection):
    """A connection that counts what is done with it, over all of them."""

    files: ClassVar[set[str]] = set()
    """Those that were ever opened."""
    counts: ClassVar[Counter[str]] = Counter()
    open: ClassVar[dict[int, str]] = {}
    most: int = 0

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(path, *args, **options)
        Counted.open[id(self)] = Path(path).stem
        Counted.files.add(Path(path).stem)
        Counted.most = max(Counted.most, len(Counted.open))

    def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
        Counted.counts["looks" if "One row: when there is something to do" in statement else "others"] += 1
        return super().execute(statement, *args)

    def close(self) -> None:
        Counted.open.pop(id(self), None)
        super().close()


@pytest.mark.timeout(300)
async def test_a_thousand_databases_are_served_by_one_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tmp_path / "template.db"
    await Mainspring(f"sqlite:///{template}", name="shop").migrate()
    names = [f"t{n:03}" for n in range(COUNT)]
    for name in names:
        shutil.copy(template, tmp_path / f"{name}.db")
    connect = sqlite3.connect
    # But for those that are lent to handlers, which have a class of their own.
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **{"factory": Counted, **options}))
    app = Mainspring("fleet://", name="shop")
    handled: Counter[str] = Counter()

    @app.consumer("orders.placed", transactional=True)
    async def receipts(tenant: str, ctx: Context) -> None:
        ((_, _, file),) = await ctx.tx.execute("PRAGMA database_list")
        handled[f"{tenant} in {Path(file).stem}"] += 1

    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    fleet = Fleet(app, {name: f"sqlite:///{tmp_path}/{name}.db" for name in names})
    busy = names[:: COUNT // BUSY]
    async with fleet.worker(longest_pause="1h", idle="1s") as worker:
        for name in busy:
            await fleet.publish("orders.placed", name, database=name)
        await until(lambda: len(Counted.files) >= COUNT and handled.total() == BUSY, 240.0)
        await until(lambda: not worker.open, 240.0)
        assert worker.troubles == {}

        Counted.counts.clear()
        await until(lambda: Counted.counts["looks"] >= LOOKS, 240.0)
        looks, others = Counted.counts["looks"], Counted.counts["others"]
        grown = (process.memory_info().rss - before) / 2**20

    print(
        f"{COUNT} databases: {grown:.0f} MB, at most {Counted.most} connections, {others / looks:.0f} others per look"
    )
    assert Counted.files >= set(names)
    assert handled == {f"{name} in {name}": 1 for name in busy}
    assert grown < 300
    assert Counted.most <= 400
    # It opens the file twice and checks its tables; it declares nothing each time.
    assert others <= 30 * looks
    assert not set(names) & set(Counted.open.values())
