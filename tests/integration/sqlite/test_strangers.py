"""A stranger has the file's one write lock for longer than anybody waits: a worker survives it, and goes on."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.model.errors import StorageUnavailable
from mainspring.model.message import Settled
from mainspring.model.verdict import Settlement
from mainspring.storage.sqlite import gateway


async def test_a_worker_keeps_its_verdicts_while_the_file_is_locked_and_writes_them_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "BUSY_TIMEOUT", 0.1)
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", keep="all")
    begun, gate = asyncio.Semaphore(0), asyncio.Event()
    runs: list[int] = []

    @app.consumer("orders", concurrency=5)
    async def orders(number: int) -> None:
        runs.append(number)
        begun.release()
        await gate.wait()

    stranger = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    async with asyncio.timeout(60), app, app.worker():
        for number in range(5):
            await app.publish("orders", number)
        for _ in range(5):
            await begun.acquire()

        refused = asyncio.Event()
        mailbox = (await app._connection.storage("a test")).mailbox
        settle = mailbox.settle

        async def watched(settlements: Sequence[Settlement], owner: str) -> Settled:
            try:
                return await settle(settlements, owner)
            except StorageUnavailable:
                refused.set()
                raise

        monkeypatch.setattr(mailbox, "settle", watched)
        stranger.execute("BEGIN IMMEDIATE")
        gate.set()
        await refused.wait()
        still_there = len(await app.messages.list("running"))
        stranger.execute("ROLLBACK")
        while await app.messages.list("live"):
            await asyncio.sleep(0.01)

        await app.publish("orders", 5)
        await begun.acquire()
    stranger.close()

    assert still_there == 5
    assert sorted(runs) == [0, 1, 2, 3, 4, 5]
