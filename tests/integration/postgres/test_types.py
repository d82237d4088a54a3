"""asyncpg is told about the arrays that statements use, and need not ask the server on every connection."""

import asyncio
from typing import Any

import asyncpg
import pytest

from mainspring import Mainspring
from mainspring.storage.postgres.asyncpg_driver import _ARRAYS, AsyncpgConnection
from tests.services.introspection import ask


@pytest.mark.no_schema
async def test_arrays_are_described_as_the_server_describes_them(postgres_url: str) -> None:
    connection: Any = await asyncpg.connect(postgres_url, connection_class=AsyncpgConnection)
    rows, _ = await ask(connection, set(_ARRAYS), None)
    asked = {row["oid"]: dict(row) for row in rows if row["oid"] in _ARRAYS}

    described, statement = await connection._introspect_types(set(_ARRAYS), None)
    known = {row["oid"]: row for row in described}
    await connection.close()

    assert statement.name
    assert {id: {name: asked[id][name] for name in row} for id, row in known.items()} == known


async def test_no_statement_has_the_server_asked(
    postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[int]] = []

    async def introspect(self: Any, ids: set[int], timeout: float) -> Any:
        asked.append(ids)
        return await ask(self, ids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", introspect)
    app = Mainspring(postgres_url.replace("postgresql", "postgresql+asyncpg"), schema=postgres_schema, name="shop")
    done = asyncio.Event()

    @app.consumer("orders.placed", ordered=True, concurrency=2, retry="none")
    async def receipt(order: dict[str, int]) -> None:
        if order["id"]:
            raise ValueError(order)

    @app.consumer("orders.counted", global_concurrency=3)
    async def count(_: int) -> None: ...

    @app.recurring("@hourly")
    async def report() -> None:
        done.set()

    async with app.worker():
        await app.publish("orders.placed", {"id": 1}, key="a")
        await app.publish_many([("orders.placed", {"id": 0}), ("orders.counted", 7)], key="b")
        await app.join([(count, 1), (count, 2)], then=report)
        await done.wait()
        await app.schedules.trigger("report")
        async with app.leases.hold("leader"):
            await app.messages.list()
        await app.stats.tally()
        await app.cancel("orders.placed", key="b")

    assert asked == []
