"""The proxy does to connections what its methods say, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest

from tests.faults.proxy import Proxy, proxy_to
from tests.faults.waiting import PATIENCE

_TABLE = "proxied"


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"CREATE TABLE {_TABLE} (n int)")
        with proxy_to(postgres_url) as made:
            yield made
        direct.execute(f"DROP TABLE {_TABLE}")


@pytest.fixture
async def connection(proxy: Proxy) -> AsyncIterator[asyncpg.Connection]:
    made = await asyncpg.connect(proxy.url)
    yield made
    made.terminate()


def _stored(url: str) -> list[int]:
    with psycopg.connect(url) as direct:
        return [row[0] for row in direct.execute(f"SELECT n FROM {_TABLE}")]


async def test_a_lost_answer_is_lost_after_the_statement_was_committed(
    connection: asyncpg.Connection, proxy: Proxy, postgres_url: str
) -> None:
    await connection.execute(f"INSERT INTO {_TABLE} VALUES ($1)", 1)
    proxy.lose_next_answer("insert into")

    assert await connection.fetchval("SELECT 7") == 7
    with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError, asyncpg.InterfaceError)):
        await connection.execute(f"INSERT INTO {_TABLE} VALUES ($1)", 2)

    assert _stored(postgres_url) == [1, 2]
    assert proxy.lost == 1


async def test_a_black_hole_keeps_old_connections_open_and_silent_while_new_ones_work(
    connection: asyncpg.Connection, proxy: Proxy
) -> None:
    proxy.black_hole(also_new=False)

    with pytest.raises(TimeoutError):
        await connection.fetchval("SELECT 1", timeout=0.3)
    assert not connection.is_closed()
    other = await asyncpg.connect(proxy.url)
    assert await other.fetchval("SELECT 7") == 7
    await other.close()


async def test_a_black_hole_for_new_connections_is_healed(proxy: Proxy) -> None:
    proxy.black_hole(also_new=True)
    with pytest.raises(TimeoutError):
        await asyncpg.connect(proxy.url, timeout=0.3)

    proxy.heal()

    other = await asyncpg.connect(proxy.url)
    assert await other.fetchval("SELECT 7") == 7
    await other.close()


async def test_a_cut_resets_every_connection(connection: asyncpg.Connection, proxy: Proxy) -> None:
    proxy.cut()

    with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError, asyncpg.InterfaceError)):
        await asyncio.wait_for(connection.fetchval("SELECT 1"), PATIENCE)
