"""Two-phase commit: what a caller has published can be prepared, whether a worker sleeps or not."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from mainspring import Mainspring
from mainspring.storage.postgres import PostgresStorage
from tests.services.postgres import new_database, private_server

Publish = Callable[[Mainspring, str, str], Awaitable[None]]
ARMED = "SELECT count(*) FROM mainspring.bell WHERE armed_until > now()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on which transactions can be prepared, as they cannot by default."""
    home: Path = tmp_path_factory.mktemp("two-phase")
    with private_server(home, max_prepared_transactions="10", fsync="off") as cluster:
        yield cluster.url


@pytest.fixture(scope="module")
def migrated(server: str) -> Iterator[str]:
    """The name of a database with the tables, to be copied."""
    with new_database(server, "migrated") as address:
        asyncio.run(PostgresStorage(address).schema.migrate())
        yield "migrated"


@pytest.fixture
def url(server: str, migrated: str) -> Iterator[str]:
    name = f"two_phase_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(migrated)))
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


async def by_statements(app: Mainspring, url: str, payload: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        await app.publish("orders", payload, tx=connection)
        await connection.execute("PREPARE TRANSACTION 'ours'")
        await connection.execute("COMMIT PREPARED 'ours'")
    finally:
        await connection.close()


async def by_psycopg(app: Mainspring, url: str, payload: str) -> None:
    def commit() -> None:
        with psycopg.connect(url) as connection:
            connection.tpc_begin(connection.xid(1, "ours", "here"))
            app.sync.publish("orders", payload, tx=connection)
            connection.tpc_prepare()
            connection.tpc_commit()

    await asyncio.to_thread(commit)


async def by_sqlalchemy(app: Mainspring, url: str, payload: str) -> None:
    def commit() -> None:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        with Session(engine, twophase=True) as session:
            app.sync.publish("orders", payload, tx=session)
            session.prepare()
            session.commit()
        engine.dispose()

    await asyncio.to_thread(commit)


async def by_sql(_: Mainspring, url: str, payload: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        await connection.execute("SELECT mainspring.publish('orders', to_jsonb($1::text))", payload)
        await connection.execute("PREPARE TRANSACTION 'ours'")
        await connection.execute("COMMIT PREPARED 'ours'")
    finally:
        await connection.close()


@pytest.mark.parametrize("asleep", [True, False], ids=["a worker sleeps", "no worker sleeps"])
@pytest.mark.parametrize("publish", [by_statements, by_psycopg, by_sqlalchemy, by_sql])
async def test_a_prepared_transaction_delivers_when_it_is_committed(url: str, publish: Publish, asleep: bool) -> None:
    app = Mainspring(url, idle_poll="500ms")
    heard: asyncio.Queue[str] = asyncio.Queue()

    @app.consumer("orders")
    async def orders(payload: str) -> None:
        heard.put_nowait(payload)

    async with asyncio.timeout(60), AsyncExitStack() as stack:
        await stack.enter_async_context(app)
        await app.declare()
        if asleep:
            await stack.enter_async_context(app.worker())
            await armed(url)

        await publish(app, url, "first")
        await publish(app, url, "second")

        if not asleep:
            await stack.enter_async_context(app.worker())
        assert sorted([await heard.get(), await heard.get()]) == ["first", "second"]
    assert heard.empty()


@pytest.mark.parametrize(("setting", "rings"), [("off", True), ("on", False), ("", False)])
async def test_a_database_that_prepares_nothing_may_have_its_bell_rung(url: str, setting: str, rings: bool) -> None:
    app = Mainspring(url)
    rung = asyncio.Event()
    async with asyncio.timeout(60), app:
        connection, ear = await asyncpg.connect(url), await asyncpg.connect(url)
        try:
            await ear.add_listener("mainspring_mainspring", lambda *_: rung.set())
            await ear.execute("INSERT INTO mainspring.bell VALUES (now() + interval '1 hour', 'mail', 'ear')")
            async with connection.transaction():
                await connection.execute(f"SET LOCAL mainspring.two_phase = '{setting}'")
                await connection.execute("SELECT mainspring.publish('orders', '1', to_group => 'mail')")
            # One that is certain to come, after whatever came before it.
            after = asyncio.Event()
            await ear.add_listener("after", lambda *_: after.set())
            await connection.execute("SELECT pg_notify('after', '')")
            await after.wait()
        finally:
            await connection.close()
            await ear.close()

    assert rung.is_set() == rings


async def armed(url: str) -> None:
    """Wait until a worker sleeps, and has asked to be woken."""
    connection = await asyncpg.connect(url)
    try:
        while not await connection.fetchval(ARMED):
            await asyncio.sleep(0.02)
    finally:
        await connection.close()
