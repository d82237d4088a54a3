"""Callers whose connections read and write values in ways of their own: what they are told is true all the same."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest
from psycopg.rows import class_row, dict_row
from psycopg.types.string import TextLoader
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from mainspring import Mainspring
from mainspring.storage.enlisted import sqlite as joined  # noqa: F401 - so that its import is no part of a transaction
from tests.integration.handles.alchemists import spelled

Handle = Callable[[str], Any]
HANDLES: dict[str, tuple[str, bool, Handle]] = {}
"""By name: the database, whether calls are awaited, and what opens a transaction on it."""


def handle(database: str, *, awaited: bool) -> Callable[[Handle], Handle]:
    def known(opened: Handle) -> Handle:
        HANDLES[opened.__name__] = (database, awaited, asynccontextmanager(opened))
        return opened

    return known


async def _as_text(connection: Any) -> None:
    for name in ("uuid", "json", "jsonb", "timestamptz"):
        await connection.set_type_codec(name, encoder=str, decoder=str, schema="pg_catalog", format="text")


@handle("postgresql", awaited=True)
async def asyncpg_with_text_for_ids(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    await connection.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog", format="text")
    async with connection.transaction():
        yield connection
    await connection.close()


@handle("postgresql", awaited=True)
async def asyncpg_with_bytes_for_ids(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    await connection.set_type_codec(
        "uuid", encoder=lambda given: given.bytes, decoder=bytes, schema="pg_catalog", format="binary"
    )
    async with connection.transaction():
        yield connection
    await connection.close()


@handle("postgresql", awaited=True)
async def asyncpg_with_text_for_much(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    await _as_text(connection)
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    async with connection.transaction():
        yield connection
    await connection.close()


def _strange(adapters: Any) -> None:
    for name in ("uuid", "timestamptz", "interval", "json", "jsonb", "int4", "int8", "bool"):
        adapters.register_loader(name, TextLoader)


@handle("postgresql", awaited=False)
async def psycopg_with_rows_as_dicts(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        yield connection


@handle("postgresql", awaited=False)
async def psycopg_with_rows_of_a_class(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url, row_factory=class_row(dict)) as connection:
        yield connection


@handle("postgresql", awaited=False)
async def psycopg_with_text_for_everything(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url) as connection:
        _strange(connection.adapters)
        yield connection


@handle("postgresql", awaited=True)
async def async_psycopg_with_text_for_everything(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        _strange(connection.adapters)
        yield connection


@handle("postgresql", awaited=False)
async def sqlalchemy_over_psycopg_with_text_for_ids(url: str) -> AsyncIterator[Any]:
    engine = create_engine(spelled(url, "psycopg"), poolclass=NullPool)
    event.listen(engine, "connect", lambda raw, _: raw.adapters.register_loader("uuid", TextLoader))
    with engine.begin() as connection:
        yield connection


@handle("postgresql", awaited=True)
async def sqlalchemy_over_asyncpg_with_text_for_ids(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(spelled(url, "asyncpg"), poolclass=NullPool)

    def told(raw: Any, _: object) -> None:
        raw.run_async(
            lambda driver: driver.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog", format="text")
        )

    event.listen(engine.sync_engine, "connect", told)
    async with engine.begin() as connection:
        yield connection
    await engine.dispose()


@handle("sqlite", awaited=False)
async def sqlite3_with_rows(path: str) -> AsyncIterator[Any]:
    with closing(sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection
        connection.commit()


@handle("sqlite", awaited=False)
async def sqlite3_with_dicts_of_bytes(path: str) -> AsyncIterator[Any]:
    with closing(sqlite3.connect(path, isolation_level="EXCLUSIVE")) as connection:
        connection.row_factory = lambda cursor, row: dict(
            zip([each[0] for each in cursor.description], row, strict=True)
        )
        connection.text_factory = bytes
        yield connection
        connection.commit()


@pytest.mark.parametrize("name", list(HANDLES))
async def test_what_a_caller_is_told_is_true_however_its_connection_reads(
    name: str, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    database, awaited, opened = HANDLES[name]
    place = str(tmp_path / "shop.db") if database == "sqlite" else postgres_url
    url = f"sqlite:///{place}" if database == "sqlite" else place
    app = Mainspring(url, name="shop", schema=postgres_schema, auto_migrate=True)

    @app.consumer("parts")
    async def part(order: int) -> None: ...

    async def call(path: str, *args: Any, **options: Any) -> Any:
        """Of the app, or of its blocking twin for a handle that blocks."""
        found: Any = app if awaited else app.sync
        for each in path.split("."):
            found = getattr(found, each)
        return await found(*args, **options) if awaited else found(*args, **options)

    async with app:
        await app.declare()
        queue = app.queue("billing", "billed")
        await queue.declare()
        await app.publish("billed", 1)
        (item,) = await queue.claim(1)
        lease = await app.leases.acquire("import", "1m")
        assert lease is not None
        id = uuid4()
        await app.inbox.admit("m-0", "bank", group="billing")
        async with opened(place) as tx:
            answers = [
                await call("publish", "orders.placed", 1, message_id=id, tx=tx),
                await call("publish", "orders.placed", 1, message_id=id, tx=tx),
            ]
            many = await call("publish_many", [("orders.placed", 1), ("orders.placed", 2)], tx=tx)
            unique = [await call("publish", "orders.placed", 1, key="k", unique="key", tx=tx) for _ in range(2)]
            cancelled = await call("cancel", id, tx=tx)
            admitted = [await call("inbox.admit", "m-1", "bank", group="billing", tx=tx) for _ in range(2)]
            known = await call("inbox.admit", "m-0", "bank", group="billing", tx=tx)
            joined = await call("join", [(part, 1), (part, 2)], then=(part, 3), tx=tx)
            if awaited:
                await lease.confirm(tx=tx)
                settled = await queue.ack(item, tx=tx)
            else:
                settled = app.sync.queue("billing", "billed").ack(item, tx=tx)
        found = [await app.messages.get(each) for each in (unique[0].id, *(each.id for each in many), *joined.members)]
        seen = await app.inbox.get("m-0", "bank", group="billing")

    assert [(each.id, each.status) for each in answers] == [(id, "stored"), (id, "duplicate")]
    assert [(each.id, each.status) for each in unique] == [(unique[0].id, "stored"), (unique[0].id, "duplicate")]
    assert all(type(each.id) is UUID for each in (*answers, *many, *unique))
    assert [each.status for each in many] == ["stored", "stored"]
    assert (cancelled.cancelled, cancelled.asked) == (1, 0)
    assert [each.admitted for each in (*admitted, known)] == [True, False, False]
    assert seen is not None
    assert known.first_seen_at == seen.first_seen_at
    assert len(joined.members) == 2
    assert settled is not None
    assert all(each is not None for each in found)
