"""Through a pooler that hands every transaction to another session, and as a role with another isolation of its own."""

from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from mainspring import Context, Mainspring
from tests.integration.transactional.acting import consume, heard_by, until
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import WAYS, Way
from tests.services.pgbouncer import pgbouncer

OURS = [way for way in WAYS if way.name in ("True, asyncpg", "True, psycopg", "True, plain function")]
ways = pytest.mark.parametrize("way", OURS, ids=repr)


@ways
async def test_handlers_are_lent_connections_of_a_pooler(way: Way, place: Place, tmp_path: Path) -> None:
    with pgbouncer(tmp_path, place.address) as url:
        app = Mainspring(
            url.replace("postgresql://", way.scheme or "postgresql://"), schema=place.schema, auto_migrate=True
        )
        heard = heard_by(app)
        consume(app, way, given=True, concurrency=4)
        async with app.worker():
            await app.publish_many([("deposit", n) for n in range(12)])
            await until(lambda: len(heard) == 12)

    assert place.effects() == sorted(heard) == list(range(12))


@ways
async def test_a_transaction_of_ours_is_read_committed_whatever_the_role_has(way: Way, place: Place) -> None:
    levels: list[str] = []
    app = place.app(way)

    def look(_n: int, ctx: Context) -> object:
        if way.threaded:
            levels.append(ctx.tx.execute("SHOW transaction_isolation").fetchone()[0])
        return None

    consume(app, way, given=True, then=look)

    @app.consumer("deposited", group="auditor", transactional=True)
    async def audit(n: int, ctx: Context) -> None:
        if way.scheme:
            levels.append((await (await ctx.tx.execute("SHOW transaction_isolation")).fetchone())[0])
        else:
            levels.append(await ctx.tx.fetchval("SHOW transaction_isolation"))

    with psycopg.connect(place.address, autocommit=True) as client:
        database = sql.Identifier(client.info.dbname)
        client.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = 'serializable'").format(database))
        try:
            async with app.worker():
                await app.publish("deposit", 1)
                await until(lambda: len(levels) == (2 if way.threaded else 1))
        finally:
            client.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_isolation").format(database))

    assert set(levels) == {"read committed"}
