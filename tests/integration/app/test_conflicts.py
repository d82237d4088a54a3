"""A known id with another topic or payload: the receipt says so, a warning names both, and nothing is stored."""

import asyncio
import logging
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, Receipt
from tests.integration.app.measuring import maker

ID = uuid.uuid5(uuid.NAMESPACE_URL, "order:42")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    return maker(request.param, tmp_path, postgres_url, postgres_schema)()


async def test_a_conflict_is_no_duplicate_and_is_warned_of(app: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    async with app:
        stored = await app.publish("orders.placed", {"total": 7}, message_id=ID)
        again = await app.publish("orders.placed", {"total": 7}, message_id=ID)
        assert (stored.status, again.status, caplog.records) == ("stored", "duplicate", [])

        payload = await app.publish("orders.placed", {"total": 8}, message_id=ID)
        topic = await app.publish("orders.paid", {"total": 7}, message_id=ID)
        found = await app.messages.get(ID)

    assert (payload.status, topic.status) == ("conflict", "conflict")
    assert found is not None
    assert (found.topic, found.payload) == ("orders.placed", b'{"total":7}')
    first, second = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    known = f"message {ID} on {{}} is not stored: its id is known as a message on orders.placed{{}}; "
    assert first.startswith(known.format("orders.placed", " with another payload"))
    assert second.startswith(known.format("orders.paid", ""))


async def test_publishes_that_travel_together_are_told_apart(app: Mainspring) -> None:
    async with app:
        receipts = await asyncio.gather(*(app.publish("orders.placed", each, message_id=ID) for each in (1, 2, 1, 3)))

    assert [each.status for each in receipts] == ["stored", "conflict", "duplicate", "conflict"]


async def test_what_is_sent_with_something_to_follow_is_told_apart(app: Mainspring) -> None:
    @app.consumer("orders.placed")
    def ship(value: Any) -> None: ...

    @app.consumer("orders.shipped")
    def bill(value: Any) -> None: ...

    async with app:
        await app.declare()
        receipts = [await ship.send(each, then=(bill, None), message_id=ID) for each in (1, 1, 2)]
        joins = await app.joins.list()

    assert [each.status for each in receipts] == ["stored", "duplicate", "conflict"]
    assert len(joins) == 1, "what was not stored is followed by nothing"


def test_a_caller_s_transaction_is_told_of_it_too(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")
    app.sync.publish("orders.placed", 1, message_id=ID)

    with sqlite3.connect(tmp_path / "shop.db") as tx:
        receipts = [app.sync.publish("orders.placed", each, message_id=ID, tx=tx) for each in (1, 2)]
    app.sync.close()

    assert [each.status for each in receipts] == ["duplicate", "conflict"]


async def test_the_kit_tells_them_apart_as_well() -> None:
    app = Mainspring("memory://")

    with app.testing() as kit:
        receipts = [await app.publish("orders.placed", each, message_id=ID) for each in (1, 1, 2)]

        assert [each.status for each in receipts] == ["stored", "duplicate", "conflict"]
        assert [each.status for each in kit.published("orders.placed")] == ["stored", "duplicate", "conflict"]
        assert receipts[2] == Receipt(ID, "conflict")
