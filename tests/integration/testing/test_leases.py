"""Leases within the transaction of a test: held, confirmed and lost there, and rolled back with it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mainspring import Mainspring, errors


def test_a_lease_is_held_confirmed_and_lost_in_the_tests_own_transaction(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")
    app.sync.migrate()
    app.sync.close()

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        with app.testing(tx=connection) as kit:
            with app.sync.leases.hold("reports", "30s") as lease:
                lease.confirm(tx=connection)
            kept = app.sync.leases.acquire("reports", "30s")
            assert kept is not None
            kit.elapse("30s")
            with pytest.raises(errors.LeaseLost):
                kept.confirm(tx=connection)
            states = [view.state for view in app.sync.leases.list()]
        connection.rollback()

    assert states == ["expired"]
    assert app.sync.leases.list() == []
    app.sync.close()
