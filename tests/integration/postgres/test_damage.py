"""Objects that were dropped after their migration: health and doctor name them, migrate restores what holds no data."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring, errors
from mainspring.app.observe.doctor import of_app
from mainspring.storage.migrations import migrations, objects
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import PACKAGE

Run = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def run(postgres_url: str, postgres_schema: str) -> Run:
    def run(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgres_url, autocommit=True) as client:
            found = client.execute(sql.replace("mainspring.", f"{postgres_schema}.").encode())
            return found.fetchall() if found.description else []

    return run


@pytest.fixture
def app(postgres_url: str, postgres_schema: str) -> Mainspring:
    return Mainspring(postgres_url, name="shop", schema=postgres_schema)


def test_every_table_view_and_function_of_the_schema_is_known(run: Run, postgres_schema: str) -> None:
    kinds = "CASE relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END"
    where = f"'{postgres_schema}'::regnamespace"
    relations = run(
        f"SELECT {kinds}, relname FROM pg_class c WHERE relnamespace = {where} AND relkind IN ('r', 'p', 'v', 'S') "
        "AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i')"
    )
    functions = run(f"SELECT 'function', proname FROM pg_proc WHERE pronamespace = {where}")

    known = [key for key, each in objects(migrations(PACKAGE)).items() for _ in each]

    assert sorted(known) == sorted([*({*relations} - {("table", "migration")}), *functions])


async def health_of(app: Mainspring, name: str) -> tuple[str, str]:
    [check] = [check for check in (await app.health()).checks if check.name == name]
    return check.status, check.summary


async def test_a_dropped_function_is_named_and_migrate_creates_it_again(
    app: Mainspring, run: Run, postgres_schema: str
) -> None:
    name = f"function {postgres_schema}.publish_one"
    run(f"DROP FUNCTION {name.removeprefix('function ')}")

    async with app:
        told = await health_of(app, "schema")
        findings = await of_app(app, None, " --app MODULE:APP")
        with pytest.raises(errors.SchemaMissing, match=r"publish_one.*run `mainspring migrate --app MODULE:APP`"):
            await app.publish("orders.placed", 1)
        restored = await app.migrate()
        assert (await app.health()).ok
        await app.publish("orders.placed", 1)

    remedy = "run `mainspring migrate --app MODULE:APP`, which creates it again"
    problem = f"{name} is missing, although the migration that creates it was applied"
    assert told == ("unhealthy", f"{problem}: {remedy}")
    assert [(each.summary, each.advice) for each in findings if each.grade == "error"] == [(problem, remedy)]
    assert restored == [name]


async def test_one_lost_form_of_a_function_is_noticed(app: Mainspring, run: Run, postgres_schema: str) -> None:
    [(forms,)] = run(f"SELECT count(*) FROM pg_proc WHERE pronamespace = '{postgres_schema}'::regnamespace "
                     "AND proname = 'publish'")  # fmt: skip
    [(signature,)] = run(f"SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = "
                         f"'{postgres_schema}'::regnamespace AND proname = 'publish' LIMIT 1")  # fmt: skip
    run(f"DROP FUNCTION {signature}")

    restored = await app.migrate()

    assert (forms, restored) == (4, [f"function {postgres_schema}.publish"])
    assert run(f"SELECT '{signature}'::regprocedure::text") == [(signature,)]
    assert await app.migrate() == []


async def test_a_view_comes_back_with_the_functions_it_needs(app: Mainspring, run: Run, postgres_schema: str) -> None:
    run("DROP FUNCTION mainspring.legible CASCADE")

    restored = await app.migrate()

    assert restored == [f"function {postgres_schema}.legible", f"view {postgres_schema}.readable"]
    assert run("SELECT * FROM mainspring.readable") == []


async def test_a_dropped_table_is_named_by_health_and_doctor_and_refused_by_migrate(
    app: Mainspring, run: Run, postgres_schema: str
) -> None:
    run("DROP TABLE mainspring.inbox")
    name = f"table {postgres_schema}.inbox"

    async with app:
        status, summary = await health_of(app, "schema")
        checks = {check.name: check.status for check in (await app.health()).checks}
        findings = await of_app(app, None, "")
        with pytest.raises(errors.SchemaDamaged, match=re.escape(name)):
            await app.migrate()

    assert status == "unhealthy"
    assert summary.startswith(f"{name} is missing, although the migration that creates it was applied: its content")
    assert checks["storage"] == checks["schedules"] == "healthy"
    assert [each.summary.partition(",")[0] for each in findings if each.grade == "error"] == [f"{name} is missing"]
    assert [each for each in findings if each.about == "indexes"] == []


async def test_a_lost_sequence_of_epochs_is_not_started_again(app: Mainspring, run: Run, postgres_schema: str) -> None:
    run("DROP SEQUENCE mainspring.lease_epoch CASCADE")

    with pytest.raises(errors.SchemaDamaged, match=r"sequence .*lease_epoch"):
        await app.migrate()


async def test_a_schema_that_is_newer_than_this_release_is_not_judged(
    run: Run, postgres_url: str, postgres_schema: str
) -> None:
    run("DROP TABLE mainspring.inbox")
    run("INSERT INTO mainspring.migration VALUES (9999, '9999_later', 'x', false, now())")
    storage = PostgresStorage(postgres_url, schema=postgres_schema)

    try:
        assert await storage.schema.missing() == []
    finally:
        await storage.close()


async def test_what_only_other_programs_use_degrades_and_takes_nothing_out_of_service(
    app: Mainspring, run: Run
) -> None:
    run("DROP VIEW mainspring.readable")
    degraded = await health_of(app, "schema")
    run("DROP FUNCTION mainspring.ring")
    unhealthy = await health_of(app, "schema")

    assert (degraded[0], unhealthy[0]) == ("degraded", "unhealthy")
    assert "ring, view " in unhealthy[1]
