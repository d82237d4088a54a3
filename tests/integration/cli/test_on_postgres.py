"""The same commands on PostgreSQL, where nothing is migrated unasked."""

import psycopg
import pytest

from mainspring.storage.portable.statements import statements
from tests.integration.cli.conftest import PLACED
from tests.integration.cli.shell import PATIENCE, Shell, line_with, stop
from tests.integration.cli.test_schema import named

pytestmark = pytest.mark.no_schema

APP = ("--app", "shop:app")


@pytest.fixture
def server(shell: Shell, postgres_url: str, postgres_schema: str) -> Shell:
    """Commands on a schema of this test's own, in which there is nothing yet."""
    shell.environment |= {"SHOP_URL": postgres_url, "SHOP_SCHEMA": postgres_schema, "MAINSPRING_URL": postgres_url}
    return shell


def test_without_a_schema_every_command_names_the_one_to_run(server: Shell, postgres_schema: str) -> None:
    listed, published, declared, health = server.several(
        ("messages", "list", *APP),
        ("publish", "orders.placed", "{}", *APP),
        ("declare", "shop:app"),
        ("health", "shop:app", "--json"),
    )

    for refused in (listed, published, declared):
        assert refused.complaint.endswith(
            "no Mainspring schema, or an older one: run `mainspring migrate --app shop:app`"
        )
    told = f"the database has no Mainspring schema '{postgres_schema}': run `mainspring migrate --app shop:app`, or"
    assert (health.code, told in health.out) == (2, True)


def test_migrate_creates_the_schema_that_is_named(server: Shell, postgres_schema: str) -> None:
    first, again, listed = server.several(
        ("migrate", "--schema", postgres_schema, "--json"),
        ("migrate", "--schema", postgres_schema),
        ("messages", "list", *APP, "--json"),
    )

    assert first.json["applied"][0].startswith("0001_")
    assert again.out == "the schema is up to date\n"
    assert listed.json == []


def test_printed_sql_makes_a_schema_that_is_recognised(server: Shell, postgres_url: str, postgres_schema: str) -> None:
    script = server("sql", "--dialect", "postgres", "--schema", postgres_schema).out
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(script.encode())

    ended = server("migrate", *APP)

    assert ended.out == "the schema is up to date\n"


def test_statements_are_printed_as_they_are_sent(server: Shell, postgres_url: str, postgres_schema: str) -> None:
    server("migrate", *APP)
    said = server("sql", "--statements", "--url", postgres_url, "--schema", postgres_schema)
    printed = dict(named(said.out))

    assert printed.keys() == statements("mainspring.storage.postgres").keys()
    with psycopg.connect(postgres_url) as connection:
        for name, text in printed.items():
            parsed = connection.pgconn.prepare(b"", text.encode())
            assert parsed.status == psycopg.pq.ExecStatus.COMMAND_OK, (name, parsed.error_message)


def test_a_worker_waits_for_the_schema_and_names_the_command(server: Shell) -> None:
    with server.started("worker", "shop:app") as worker:
        assert worker.stderr is not None
        while "mainspring migrate" not in worker.stderr.readline():
            pass
        server("migrate", *APP)
        line_with(worker, "ready")

        assert stop(worker).code == 0


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_from_dev_worker_to_dead_letters(server: Shell, postgres_url: str, driver: str) -> None:
    server.environment["SHOP_URL"] = postgres_url.replace("://", f"+{driver}://")
    with server.started("worker", "shop:app", "--dev") as worker:
        line_with(worker, "ready")
        published = server.several(*(("publish", *message, *APP) for message in PLACED))
        line_with(worker, "receipt 1")
        while len(dead := server("dead", "list", *APP, "--json").json) < 2:
            pass
        ended = stop(worker)

    shown, messages, groups, paused, revived, cancelled, discarded, retired = server.several(
        ("dead", "show", dead[0]["message_id"], *APP),
        ("messages", "list", *APP, "--json"),
        ("groups", "list", *APP, "--json"),
        ("groups", "pause", "expire", *APP, "--reason", "a test"),
        ("dead", "revive", dead[0]["message_id"], *APP, "--json"),
        ("messages", "cancel", "--topic", "payments.timeout", "--key", "order:1", *APP, "--json"),
        ("dead", "discard", "--all", "--yes", *APP, "--json"),
        ("groups", "retire", "send_receipt", "--yes", *APP, "--json"),
    )
    assert {each.code for each in published} == {ended.code, paused.code} == {0}
    assert "the printer is jammed by" in shown.out
    assert [(each["state"], each["key"]) for each in messages.json] == [("scheduled", "order:1")]
    assert {each["name"]: each["dead"] for each in groups.json} == {"analytics": 0, "expire": 0, "send_receipt": 2}
    assert (revived.json, discarded.json) == ({"revived": 1}, {"discarded": 1})
    assert cancelled.json == {"cancelled": 1, "asked": 0}
    assert retired.json == {"group": "send_receipt", "dropped": 1}


def test_a_worker_that_finds_a_schema_too_new_ends_by_itself(
    server: Shell, postgres_url: str, postgres_schema: str
) -> None:
    with server.started("worker", "shop:app") as worker:
        assert worker.stderr is not None
        while "mainspring migrate" not in worker.stderr.readline():
            pass
        with psycopg.connect(postgres_url) as connection:
            script = server("sql", "--schema", postgres_schema).out.replace("COMMIT;", "").replace("BEGIN;", "")
            connection.execute(script.encode())
            connection.execute(
                f"INSERT INTO {postgres_schema}.migration VALUES (9999, '9999_future', 'x', true, now())".encode()
            )
        _, err = worker.communicate(timeout=PATIENCE)

    assert worker.returncode == 2
    assert err.splitlines()[-1] == "error: the worker of shop:app stopped after an error; see the log"
    assert "upgrade mainspring on this node" in err
