"""Uniqueness within the transaction of a test: asked and noted there, and rolled back with it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from mainspring import Mainspring, unique


def test_what_is_unique_is_so_in_the_tests_own_transaction(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    @app.consumer("mail.send")
    def mail(_: int) -> None: ...

    app.sync.migrate()
    app.sync.close()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        with app.testing(tx=connection) as kit:
            first = app.sync.publish("mail.send", 1, key="ann", unique="key")
            second = app.sync.publish("mail.send", 2, key="ann", unique="key", tx=connection)
            last = app.sync.publish("mail.send", 3, key="ann", unique=unique(keep="last"), tx=connection)
            noted = [each.payload for each in kit.published()]
            kit.sync.drain()
            ran = [each.payload for each in kit.runs]
        connection.rollback()

    assert [each.status for each in (first, second, last)] == ["stored", "duplicate", "replaced"]
    assert (noted, ran) == ([1, 3], [3])
    assert app.sync.publish("mail.send", 4, key="ann", unique="key").status == "stored"
    app.sync.close()
