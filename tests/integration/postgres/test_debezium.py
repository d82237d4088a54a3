"""The page about Debezium: its configuration fits the message table, and its publication yields what it promises."""

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.app.broker.intake import Reader
from mainspring.brokers import Kafka
from mainspring.brokers.contract import Received
from mainspring.model.message import Draft
from tests.house.pages import blocks
from tests.house.tree import ROOT
from tests.services.postgres import private_server

PAGE = ROOT / "docs" / "how-to" / "debezium.md"
COLUMNS = """
SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = %s AND table_name = 'message'
"""
CHANGES = """
SELECT data FROM pg_logical_slot_get_binary_changes(
    %s, NULL, NULL, 'proto_version', '1', 'publication_names', %s
)
"""


class Change(NamedTuple):
    """A change as pgoutput writes it: what it is, and the new row."""

    kind: str
    row: dict[str, str | None]


def configuration() -> dict[str, str]:
    found = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    settings: dict[str, str] = json.loads(found[1])["config"]
    return settings


def publication() -> str:
    return next(block.code for block in blocks(PAGE) if "CREATE PUBLICATION" in block.code)


def placements(settings: dict[str, str]) -> list[list[str]]:
    return [each.split(":") for each in settings["transforms.outbox.table.fields.additional.placement"].split(",")]


def decoded(records: list[bytes]) -> Iterator[Change]:
    """Read the inserts, updates, deletes and truncates of the protocol of logical replication."""
    names: list[str] = []
    for data in records:
        kind = chr(data[0])
        if kind == "R":
            names = list(column_names(data))
        elif kind == "I":
            yield Change(kind, dict(zip(names, values(data, 6), strict=True)))
        elif kind in "UDT":
            yield Change(kind, {})


def column_names(relation: bytes) -> Iterator[str]:
    at = relation.index(b"\0", relation.index(b"\0", 5) + 1) + 2  # behind schema, table and replica identity
    (count,) = struct.unpack_from("!h", relation, at)
    at += 2
    for _ in range(count):
        end = relation.index(b"\0", at + 1)
        yield relation[at + 1 : end].decode()
        at = end + 9


def values(insert: bytes, at: int) -> Iterator[str | None]:
    (count,) = struct.unpack_from("!h", insert, at)
    at += 2
    for _ in range(count):
        kind = insert[at : at + 1]
        at += 1
        if kind == b"n":
            yield None
            continue
        assert kind == b"t", f"a value of an insert is text or missing, not {kind!r}"
        (size,) = struct.unpack_from("!i", insert, at)
        yield insert[at + 4 : at + 4 + size].decode()
        at += 4 + size


def test_every_column_that_the_configuration_names_is_in_the_message_table(
    postgres_url: str, postgres_schema: str
) -> None:
    settings = configuration()
    router = {name.removeprefix("transforms.outbox."): value for name, value in settings.items()}
    fields = {value for name, value in router.items() if name.startswith("table.field.event.")}
    named = fields | {router["route.by.field"]} | {each[0] for each in placements(settings)}

    with psycopg.connect(postgres_url) as connection:
        columns: dict[str, str] = dict(connection.execute(COLUMNS.encode(), (postgres_schema,)).fetchall())

    assert named <= set(columns)
    assert fields == {"id", "key", "payload"}
    assert (columns["id"], columns["payload"], columns["topic"]) == ("uuid", "bytea", "text")
    # The router takes no other columns for the time of a record than those without a zone.
    assert columns["published_at"] == "timestamp with time zone"
    assert "table.field.event.timestamp" not in router
    assert settings["table.include.list"] == "mainspring.message"
    assert f"CREATE PUBLICATION {settings['publication.name']} " in publication()


async def test_the_publication_yields_the_messages_of_its_topics_once_and_nothing_else(tmp_path: Path) -> None:
    settings = configuration()
    with (
        private_server(tmp_path, wal_level="logical") as server,
        psycopg.connect(server.url, autocommit=True) as client,
    ):
        app = Mainspring(server.url, name="shop")

        @app.consumer("orders.placed", "parcels.sent")
        async def handle(order: dict[str, Any]) -> None: ...

        await app.migrate()
        await app.declare()
        client.execute(publication().encode())
        client.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (settings["slot.name"],))

        async with app:
            placed = await app.publish("orders.placed", {"n": 1}, key="order:1", headers={"tenant": "acme"})
            delayed = await app.publish("orders.placed", {"n": 2}, delay="1d")
            await app.cancel(delayed)
            await app.publish("parcels.sent", {"n": 3})
            await app.publish("ordersx.placed", {"n": 4})
            parked = await app.publish("orders.paid", b"\x00\xff", correlation_id="cart")
            await app.publish("orders.placed", {"n": 1}, message_id=placed.id)
            direct = await handle.send({"n": 5})
        client.execute("UPDATE mainspring.message SET copies = copies")
        client.execute("DELETE FROM mainspring.message")  # as retention does
        found = client.execute(CHANGES.encode(), (settings["slot.name"], settings["publication.name"]))
        changes = list(decoded([bytes(data) for (data,) in found]))
        client.execute(
            publication().replace("mainspring_orders", "careless").replace("WITH (publish = 'insert')", "").encode()
        )
        with pytest.raises(psycopg.errors.InvalidColumnReference, match="cannot delete from table"):
            client.execute("DELETE FROM mainspring.message")

    sent = [placed, delayed, parked, direct]
    assert [change.kind for change in changes] == ["I", "I", "I", "I"]
    assert [change.row["id"] for change in changes] == [str(each.id) for each in sent]
    assert changes[0].row["payload"] == r"\x" + b'{"n":1}'.hex()
    assert json.loads(changes[0].row["headers"] or "")["tenant"] == "acme"
    read = [routed(change.row, settings) for change in changes]
    assert [(id, draft.topic, draft.payload, draft.key) for id, draft in read] == [
        (str(placed.id), "orders.placed", b'{"n":1}', "order:1"),
        (str(delayed.id), "orders.placed", b'{"n":2}', None),
        (str(parked.id), "orders.paid", b"\x00\xff", None),
        (str(direct.id), "orders.placed", b'{"n":5}', None),
    ]
    assert [draft.content_type for _, draft in read[1:3]] == ["application/json", "application/octet-stream"]
    assert read[2][1].correlation_id == "cart"


def routed(row: dict[str, str | None], settings: dict[str, str]) -> tuple[str, Draft]:
    """What an intake makes of a row, if the router does as its documentation says."""
    router = {name.removeprefix("transforms.outbox."): value for name, value in settings.items()}
    headers = {"id": row[router["table.field.event.id"]]}
    headers |= {alias: row[column] for column, _, alias in placements(settings)}
    content_type = headers.pop("content-type")
    payload = bytes.fromhex((row[router["table.field.event.payload"]] or "").removeprefix(r"\x"))
    key, topic = row[router["table.field.event.key"]], row[router["route.by.field"]]
    # A header without a value is empty text, as the adapter of Kafka reads it.
    texts = {name: value or "" for name, value in headers.items()}
    received = Received(payload, texts, content_type, topic or "", f"{topic}/0/0", key=key)
    return Reader(Kafka("localhost", topics=["orders"], group_id="x"), None, None, None, 1000).draft(received)
