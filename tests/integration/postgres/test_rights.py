"""A role with the documented rights can do all that an app does; one that lacks some is told which."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import NO_RETRY, Context, Mainspring, Slice, errors, every
from mainspring.app.observe.doctor import of_app
from mainspring.storage.postgres import PostgresStorage
from tests.integration.app.shop import eventually

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-in-production.md"
Grant = Callable[[str], None]


@pytest.fixture
async def role(postgres_url: str, postgres_schema: str) -> AsyncIterator[str]:
    """A role that may log in, and nothing else."""
    name = f"role_{postgres_schema}"
    with psycopg.connect(postgres_url, autocommit=True) as client:
        client.execute(f"CREATE ROLE {name} LOGIN".encode())
        storage = PostgresStorage(postgres_url, schema=postgres_schema)
        await storage.schema.migrate()
        await storage.close()
        yield name
        client.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


@pytest.fixture
def grant(postgres_url: str) -> Grant:
    def run(sql: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as client:
            client.execute(sql.encode())

    return run


@pytest.fixture
def documented(grant: Grant, role: str, postgres_schema: str) -> str:
    """The role, once the very block of the page was run for it."""
    (block,) = re.findall(r"```sql\n(GRANT USAGE ON SCHEMA mainspring .*?)```", PAGE.read_text(), re.DOTALL)
    grant(block.replace("SCHEMA mainspring", f"SCHEMA {postgres_schema}").replace("shop_app", role))
    return role


def made(postgres_url: str, role: str, schema: str) -> Mainspring:
    return Mainspring(postgres_url.replace("postgres@", f"{role}@"), name="shop", schema=schema, idle_poll="50ms")


async def test_the_documented_rights_are_enough_for_everything(  # noqa: PLR0915 - it is everything
    documented: str, postgres_url: str, postgres_schema: str
) -> None:
    app = made(postgres_url, documented, postgres_schema)
    ran: list[str] = []

    @app.consumer("orders.*", keep="all")
    async def ship(order: int, ctx: Context) -> None:
        ctx.progress("half")
        ran.append("ship")

    @app.consumer("orders.placed", transactional=True, ordered=True)
    async def bill(order: int, ctx: Context) -> None:
        ran.append("bill")

    @app.consumer("orders.placed", rate="100/1m", retry=NO_RETRY)
    async def fail(order: int) -> None:
        raise LookupError(order)

    @app.consumer("parts", batch=2)
    async def part(orders: list[int]) -> None: ...

    @app.recurring(every("1h"))
    async def report() -> None:
        ran.append("report")

    @app.fanout("etl", "payments", every="1h")
    async def tenants() -> list[str]:
        return ["a", "b"]

    @tenants.slices(transactional=True)
    async def load(each: Slice) -> None:
        ran.append("load")

    async with app.worker():
        await app.declare()
        first = await app.publish("orders.placed", 1, key="a", unique="key")
        await app.publish("orders.placed", 1, key="a", unique="key")
        await app.publish_many([("orders.placed", number) for number in range(3)], delay="1h")
        await app.join([(part, 1), (part, 2)], then=(ship, 3))
        await app.publish("nobody.listens", 1)
        await app.schedules.trigger("report")
        await app.schedules.put("daily", "0 9 * * *", topic="orders.daily", payload=1)
        await app.schedules.pause("daily")
        await app.schedules.delete("daily")
        await app.schedules.freeze()
        await app.schedules.thaw()
        await app.fanouts.edit("etl", "payments", every="2h")
        await app.fanouts.run("etl", "payments")

        async def all_ran() -> bool:
            dead = await app.dead.list()
            return {"ship", "bill", "report", "load"} <= set(ran) and ran.count("ship") > 1 and bool(dead)

        await eventually(all_ran)
        lease = await app.leases.acquire("import", "30s")
        assert lease is not None
        client = await asyncpg.connect(postgres_url.replace("postgres@", f"{documented}@"))
        async with client.transaction():
            await lease.confirm(tx=client)
            await app.publish("orders.placed", 9, tx=client)
            assert (await app.inbox.admit("m-1", "bank", group="bill", tx=client)).admitted
        await client.close()
        await lease.release()
        await app.leases.list()
        await app.inbox.admit("m-2", "bank", group="bill")
        await app.inbox.list()
        await app.inbox.release("m-2", "bank", group="bill")
        queue = app.queue("audit", "audited")
        await queue.declare()
        await app.publish_many([("audited", number) for number in range(3)])
        one, two, three = await queue.claim(3)
        await queue.extend(one)
        await queue.ack(one)
        await queue.abandon(two)
        await queue.fail(three, error="no")
        assert await queue.reap() is None
        await app.cancel("orders.placed", key="a")
        await app.dead.causes()
        assert await app.dead.revive(group="fail") >= 1
        await eventually(all_ran)
        await app.dead.discard(group="fail")
        await app.messages.search(text="1")
        await app.messages.get(first.id)
        await app.messages.chain(first.id)
        await app.messages.runs()
        await app.messages.failures()
        await app.messages.publish("orders.placed", 5, by="ann")
        await app.groups.pause("ship")
        await app.groups.resume("ship")
        await app.groups.release("ship")
        await app.groups.retire("audit")
        worker, *_ = await app.workers.list()
        await app.workers.drain(worker.name)
        await app.workers.resume(worker.name)
        await app.stats.measures()
        await app.stats.rates()
        await app.stats.tally()
        await app.stats.roster()
        assert await app.audit()
        await app.prune()
        metrics = await app.metrics()
        health = await app.health()

    assert "mainspring_database_up 1.0" in metrics
    assert "mainspring_deliveries{" in metrics
    assert [check for check in health.checks if check.status == "unhealthy" or check.name == "rights"] == []
    assert await lacking(postgres_url, documented, postgres_schema) == []


async def lacking(postgres_url: str, role: str, schema: str) -> list[str]:
    storage = PostgresStorage(postgres_url.replace("postgres@", f"{role}@"), schema=schema)
    try:
        return await storage.schema.lacking()
    finally:
        await storage.close()


async def test_later_migrations_are_covered_too(
    documented: str, grant: Grant, postgres_url: str, postgres_schema: str
) -> None:
    grant(f"CREATE TABLE {postgres_schema}.later (n integer); CREATE SEQUENCE {postgres_schema}.numbers")

    assert await lacking(postgres_url, documented, postgres_schema) == []


async def test_what_is_missing_is_told_as_what_grants_it(
    documented: str, grant: Grant, postgres_url: str, postgres_schema: str
) -> None:
    schema = postgres_schema
    grant(f"REVOKE USAGE ON SEQUENCE {schema}.lease_epoch FROM {documented}")
    grant(f"REVOKE DELETE, UPDATE ON {schema}.dead FROM {documented}")
    grant(f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC, {documented}")

    told = await lacking(postgres_url, documented, schema)

    assert f"GRANT USAGE ON SEQUENCE {schema}.lease_epoch TO {documented};" in told
    assert f"GRANT UPDATE, DELETE ON {schema}.dead TO {documented};" in told
    functions = {
        match[1] for each in told if (match := re.match(rf"GRANT EXECUTE ON FUNCTION {schema}\.(\w+)\(", each))
    }
    assert functions == {
        "publish_one", "ring", "inbox_admit", "likeness_enter", "likeness_prune", "next_lease_epoch", "searchable",
    }  # fmt: skip
    for each in told:
        grant(each)
    assert await lacking(postgres_url, documented, schema) == []


async def test_a_refusal_is_no_outage(documented: str, grant: Grant, postgres_url: str, postgres_schema: str) -> None:
    grant(f"REVOKE USAGE ON SEQUENCE {postgres_schema}.lease_epoch FROM {documented}")
    app = made(postgres_url, documented, postgres_schema)
    missing = f"GRANT USAGE ON SEQUENCE {postgres_schema}.lease_epoch TO {documented};"

    async with app:
        with pytest.raises(errors.NotGranted, match=r"permission denied for sequence lease_epoch .*mainspring doctor"):
            await app.leases.acquire("import", "30s")
        metrics, health = await app.metrics(), await app.health()
    findings = await of_app(app, None, "")

    assert "mainspring_database_up 1.0" in metrics
    (rights,) = [each for each in health.checks if each.name == "rights"]
    assert (rights.status, rights.summary) == ("degraded", f"this role lacks {missing}")
    assert [(each.grade, each.advice) for each in findings if each.about == "rights"] == [("error", missing)]


async def test_a_role_that_may_do_nothing_is_told_to_begin_with_the_schema(
    role: str, postgres_url: str, postgres_schema: str
) -> None:
    async with made(postgres_url, role, postgres_schema) as app:
        health = await app.health()

    (rights,) = [each for each in health.checks if each.name == "rights"]
    told: Any = rights.data["lacking"]
    assert rights.status == "unhealthy"
    assert f"GRANT USAGE ON SCHEMA {postgres_schema} TO {role};" in told
    assert f"GRANT SELECT ON {postgres_schema}.migration TO {role};" in told
