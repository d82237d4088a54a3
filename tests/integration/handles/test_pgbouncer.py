"""Joining through a pooler that hands every transaction to another session: nothing of a session is relied on."""

from pathlib import Path
from uuid import uuid4

import asyncpg
import psycopg
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.services.pgbouncer import pgbouncer

ROUNDS = 12
"""More than a driver needs to begin preparing, had it not been told to leave that."""


async def test_every_driver_joins_through_pgbouncer(postgres_shop: Shop, tmp_path: Path) -> None:
    publish, key = postgres_shop.app.publish, uuid4().hex
    with pgbouncer(tmp_path, postgres_shop.address) as url:
        bare = await asyncpg.connect(url, statement_cache_size=0)
        plain = psycopg.connect(url, prepare_threshold=None)
        engine = create_async_engine(spelled(url, "asyncpg"), connect_args={"statement_cache_size": 0}, **ALONE)
        for _ in range(ROUNDS):
            async with bare.transaction():
                await publish("orders.placed", {}, key=key, tx=bare)
            postgres_shop.app.sync.publish("orders.placed", {}, key=key, tx=plain)
            plain.commit()
            async with AsyncSession(engine) as session, session.begin():
                await publish("orders.placed", {}, key=key, tx=session)
        await bare.close()
        plain.close()
        await engine.dispose()

    assert postgres_shop.count(key) == (3 * ROUNDS, 3 * ROUNDS)
