"""Leases on SQLite: a transaction that has confirmed one has the write lock until it ends."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.storage.enlisted.sqlite import EnlistedSqlite
from mainspring.storage.script import run
from mainspring.storage.sqlite import SqliteStorage


async def test_nobody_writes_while_a_transaction_has_confirmed_it(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    storage = SqliteStorage(path)
    await storage.open()
    await storage.schema.migrate()
    granted = await storage.leases.acquire("reports", "one", timedelta(hours=1))
    assert granted is not None

    with closing(sqlite3.connect(path)) as holder, closing(sqlite3.connect(path, timeout=0)) as other:
        confirmed = run(
            EnlistedSqlite(holder), storage.enlisted().leases.confirm.script("reports", granted.epoch, "one")
        )
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        holder.commit()
        other.execute("BEGIN IMMEDIATE")

    assert confirmed
    await storage.close()


async def test_the_count_of_epochs_is_kept_in_the_file(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        storage = SqliteStorage(str(tmp_path / "shop.db"))
        await storage.open()
        await storage.schema.migrate()
        granted = await storage.leases.acquire("reports", "one", timedelta(hours=1))
        assert granted is not None
        epochs.append(granted.epoch)
        await storage.leases.release("reports", granted.epoch, "one")
        with closing(sqlite3.connect(tmp_path / "shop.db")) as client:
            client.execute("DELETE FROM mainspring_lease")
            client.commit()
        await storage.close()

    assert epochs == [1, 2, 3]
