"""A role that may work and operate can do all that an app does; one that lacks some is told which."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import NO_RETRY, Context, Mainspring, Slice, errors, every
from mainspring.app.observe.doctor import of_app
from mainspring.model.roles import Lacking
from mainspring.storage.postgres import PostgresStorage
from tests.integration.app.shop import Seen, eventually
from tests.integration.postgres.grants import execute, grant, login

Run = Callable[[str], None]


@pytest.fixture
def role(postgres_url: str, postgres_schema: str) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    with login(postgres_url, name := f"role_{postgres_schema}"):
        yield name


@pytest.fixture
def run(postgres_url: str) -> Run:
    return partial(execute, postgres_url)


@pytest.fixture
def granted(role: str, postgres_url: str, postgres_schema: str) -> str:
    """The role, once it may work and operate."""
    grant(postgres_url, postgres_schema, "work", role)
    grant(postgres_url, postgres_schema, "operate", role)
    return role


def made(postgres_url: str, role: str, schema: str) -> Mainspring:
    return Mainspring(postgres_url.replace("postgres@", f"{role}@"), name="shop", schema=schema, idle_poll="50ms")


async def test_the_documented_rights_are_enough_for_everything(  # noqa: PLR0915 - it is everything
    granted: str, postgres_url: str, postgres_schema: str
) -> None:
    app = made(postgres_url, granted, postgres_schema)
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
        client = await asyncpg.connect(postgres_url.replace("postgres@", f"{granted}@"))
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
    assert not any((await lacking(postgres_url, granted, postgres_schema)).values())


async def lacking(postgres_url: str, role: str, schema: str) -> Lacking:
    storage = PostgresStorage(postgres_url.replace("postgres@", f"{role}@"), schema=schema)
    try:
        return await storage.schema.lacking()
    finally:
        await storage.close()


async def test_tables_and_sequences_that_another_creates_are_covered_too(
    granted: str, run: Run, postgres_url: str, postgres_schema: str
) -> None:
    schema = postgres_schema
    run(f"CREATE TABLE {schema}.later (n integer); CREATE SEQUENCE {schema}.numbers")

    with psycopg.connect(postgres_url.replace("postgres@", f"{granted}@")) as client:
        client.execute(f"INSERT INTO {schema}.later SELECT nextval('{schema}.numbers')".encode())


async def test_what_is_missing_is_told_as_what_grants_it(
    granted: str, run: Run, postgres_url: str, postgres_schema: str
) -> None:
    schema = postgres_schema
    run(f"REVOKE USAGE ON SEQUENCE {schema}.lease_epoch FROM {granted}")
    run(f"REVOKE DELETE, UPDATE ON {schema}.dead FROM {granted}")
    run(f"REVOKE INSERT ON {schema}.message FROM {granted}")
    run(f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC, {granted}")

    told = await lacking(postgres_url, granted, schema)

    message = f'GRANT INSERT ON "{schema}".message TO "{granted}";'
    functions = f'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "{schema}" TO "{granted}";'
    assert told == {
        "publish": [message, functions],
        "work": [
            f'GRANT UPDATE, DELETE ON "{schema}".dead TO "{granted}";',
            message,
            f'GRANT USAGE ON SEQUENCE "{schema}".lease_epoch TO "{granted}";',
            functions,
        ],
        "read": [functions],
        "operate": [f'GRANT UPDATE (priority), DELETE ON "{schema}".dead TO "{granted}";', message, functions],
    }
    for each in told.values():
        for statement in each:
            run(statement)
    assert not any((await lacking(postgres_url, granted, schema)).values())


async def test_a_refusal_is_no_outage(granted: str, run: Run, postgres_url: str, postgres_schema: str) -> None:
    run(f"REVOKE USAGE ON SEQUENCE {postgres_schema}.lease_epoch FROM {granted}")
    app = made(postgres_url, granted, postgres_schema)
    missing = f'GRANT USAGE ON SEQUENCE "{postgres_schema}".lease_epoch TO "{granted}";'

    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    async with app.worker():
        with pytest.raises(errors.NotGranted) as caught:
            await app.leases.acquire("import", "30s")
        metrics, health = await app.metrics(), await app.health()
    findings = await of_app(app, None, "")

    refused = caught.value
    assert (refused.role, refused.object, refused.operation) == (granted, "sequence lease_epoch", "acquire")
    assert "in acquire: run `mainspring doctor` as this role, it prints the GRANT that is missing" in str(refused)
    assert f"`mainspring grants --role work {granted}` prints all of them" in str(refused)
    assert "mainspring_database_up 1.0" in metrics
    (rights,) = [each for each in health.checks if each.name == "rights"]
    assert (rights.status, rights.summary) == ("degraded", f"this role lacks {missing}")
    assert [(each.grade, each.summary, each.advice) for each in findings if each.about == "rights"] == [
        ("ok", "this role may publish, read, operate", ""),
        ("note", "this role cannot run workers", missing),
    ]


async def test_a_role_that_may_do_nothing_is_told_to_begin_with_the_schema(
    role: str, postgres_url: str, postgres_schema: str
) -> None:
    async with made(postgres_url, role, postgres_schema) as app:
        health = await app.health()
    findings = await of_app(app, None, "")

    (rights,) = [each for each in health.checks if each.name == "rights"]
    told: Any = rights.data["lacking"]
    assert rights.status == "unhealthy"
    assert told[0] == f'GRANT USAGE ON SCHEMA "{postgres_schema}" TO "{role}";'
    assert f'GRANT SELECT ON "{postgres_schema}".migration TO "{role}";' in told
    assert [each.advice for each in findings if (each.about, each.grade) == ("rights", "error")] == told


async def test_a_process_that_only_publishes_is_healthy_without_the_rights_of_a_worker(
    role: str, postgres_url: str, postgres_schema: str
) -> None:
    grant(postgres_url, postgres_schema, "publish", role)
    async with made(postgres_url, role, postgres_schema) as app:
        await app.publish("orders.placed", 1)
        health, metrics = await app.health(), await app.metrics()
    findings = await of_app(app, None, "")

    (rights,) = [each for each in health.checks if each.name == "rights"]
    assert health.status == "healthy"
    assert rights.summary == "this role may publish; not read, for want of rights: deliveries, inbox, schedules"
    assert "mainspring_database_up 1.0" in metrics
    assert [each.summary for each in findings if each.about == "rights"] == [
        "this role may publish",
        "a role that may publish reads no more",
    ]
    assert [each for each in findings if each.grade == "error"] == []


async def test_a_process_with_workers_needs_the_rights_of_one(
    role: str, postgres_url: str, postgres_schema: str
) -> None:
    grant(postgres_url, postgres_schema, "publish", role)
    app = made(postgres_url, role, postgres_schema)

    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    async with app.worker():
        health = await app.health()

    (rights,) = [each for each in health.checks if each.name == "rights"]
    assert rights.status == "unhealthy"
    assert "this role lacks GRANT" in rights.summary


async def test_a_worker_waits_for_its_rights_logs_once_and_starts_when_they_are_granted(
    role: str, postgres_url: str, postgres_schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    grant(postgres_url, postgres_schema, "publish", role)
    app = made(postgres_url, role, postgres_schema)
    seen: Seen[int] = Seen()

    @app.consumer("orders.placed")
    async def ship(order: int) -> None:
        seen.add(order)

    async with app.worker() as worker:
        await app.publish("orders.placed", 1)
        await eventually(lambda: told(caplog, "permission denied for table groups", 1))
        assert not worker.ready
        grant(postgres_url, postgres_schema, "work", role)
        await seen.count(1)

    denied = [each for each in caplog.records if "permission denied" in each.message]
    assert [(each.levelname, each.exc_info) for each in denied] == [("WARNING", None)]
    assert "in declare: run `mainspring doctor` as this role" in denied[0].message


async def told(caplog: pytest.LogCaptureFixture, text: str, times: int) -> bool:
    return sum(text in each.message for each in caplog.records) >= times


async def test_a_verdict_that_lacks_a_right_is_kept_others_are_written_and_it_is_written_once_it_is_granted(
    granted: str, run: Run, postgres_url: str, postgres_schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = made(postgres_url, granted, postgres_schema)
    ran: Seen[str] = Seen()

    @app.consumer("orders.placed", retry=NO_RETRY)
    async def fail(order: int) -> None:
        ran.add("fail")
        raise LookupError(order)

    @app.consumer("orders.paid")
    async def pay(order: int) -> None:
        ran.add("pay")

    async def settled() -> bool:
        return [each.topic for each in await app.messages.list("running")] == ["orders.placed"]

    async with app.worker():
        run(f"REVOKE INSERT ON {postgres_schema}.dead FROM {granted}")
        await app.publish("orders.placed", 1)
        await eventually(lambda: told(caplog, "permission denied for table dead", 1))
        await app.publish_many([("orders.paid", number) for number in range(3)])
        await ran.count(4)
        await eventually(settled)
        (rights,) = [each for each in (await app.health()).checks if each.name == "rights"]
        run(rights.summary.removeprefix("this role lacks "))

        async def buried() -> bool:
            return bool(await app.dead.list())

        await eventually(buried)

    assert sorted(ran.items) == ["fail", "pay", "pay", "pay"]
    assert sum("permission denied" in each.message for each in caplog.records) == 1


async def test_a_publish_that_lacks_a_right_fails_at_once_and_one_by_one(
    role: str, postgres_url: str, postgres_schema: str
) -> None:
    grant(postgres_url, postgres_schema, "read", role)
    async with made(postgres_url, role, postgres_schema) as app:
        answers = await asyncio.gather(
            *(app.publish("orders.placed", number) for number in range(20)), return_exceptions=True
        )

    assert {type(each) for each in answers} == {errors.NotGranted}


async def test_the_metrics_of_a_role_that_may_not_read_them_are_logged_once(
    role: str, postgres_url: str, postgres_schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    grant(postgres_url, postgres_schema, "publish", role)
    async with made(postgres_url, role, postgres_schema) as app:
        for _ in range(3):
            assert "mainspring_database_up 1.0" in await app.metrics()

    assert sum("may not read the database's metrics" in each.message for each in caplog.records) == 1


async def test_a_transaction_that_cannot_settle_for_want_of_a_right_is_no_failed_attempt(
    granted: str, run: Run, postgres_url: str, postgres_schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = made(postgres_url, granted, postgres_schema)
    ran: Seen[int] = Seen()

    @app.consumer("orders.placed", transactional=True, retry=NO_RETRY)
    async def ship(order: int, ctx: Context) -> None:
        ran.add(ctx.attempt)

    async def settled() -> bool:
        return not await app.messages.list("live")

    async with app.worker():
        run(f"REVOKE INSERT ON {postgres_schema}.ended FROM {granted}")
        await app.publish("orders.placed", 1)
        await eventually(lambda: told(caplog, "no attempt counted", 1))
        run(f"GRANT INSERT ON {postgres_schema}.ended TO {granted}")
        await eventually(settled)
        dead = await app.dead.list()

    assert list(dead) == []
    assert set(ran.items) == {1}
