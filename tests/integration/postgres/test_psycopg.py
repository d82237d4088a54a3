"""What psycopg would do in its own way, and the storage needs done in this one."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.driver import DriverName
from mainspring.storage.postgres.gateway import RESERVED_SETTINGS
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.postgres.psycopg_driver import PsycopgConnection, PsycopgDriver
from mainspring.storage.script import Script
from tests.integration.postgres.acting import HOLD, Connection, draft, until
from tests.services.postgres import end_session

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PREPARED = "SELECT parameter_types::text FROM pg_prepared_statements WHERE statement LIKE $1"


@pytest.fixture
def driver() -> DriverName:
    return "psycopg"


@pytest.fixture
async def reserved(storage: PostgresStorage) -> AsyncIterator[PsycopgConnection]:
    """A connection as the engine uses it for claiming and settling."""
    connection = await storage._gateway.dial(RESERVED_SETTINGS)
    assert isinstance(connection, PsycopgConnection)
    yield connection
    connection.terminate()


async def test_a_statement_is_prepared_once_whatever_it_is_given(
    reserved: PsycopgConnection, connection: Connection, postgres_schema: str
) -> None:
    names = Names(postgres_schema)
    scripts = PostgresMailbox(names, Nowhere(), HandSet())
    full = draft(key="k", headers={"a": "b"}, expires_in=HOLD, correlation_id="c", causation_id=uuid4(), at=NOON)
    given: list[Script[Any]] = [
        *(
            scripts.publish.script(drafts)
            for drafts in ([draft()], [full, draft(delay=HOLD)], [draft() for _ in range(3)])
        ),
        *(scripts.claim.script([ClaimRequest("mail", limit, ALL_LEVELS)], "n", HOLD) for limit in (1, 1_000, 100_000)),
    ]

    for script in given:
        statement = next(script)
        await reserved.fetch(statement.sql, *statement.args)

    for name in ("publish", "claim"):
        text = names.sql(name)
        # What the server takes the parameters for where nobody tells it.
        await connection.execute(f"PREPARE {name} AS {text}")
        [(expected,)] = await connection.fetch(PREPARED, f"PREPARE {name} AS %")
        assert await reserved.fetch(PREPARED, f"{text[:30]}%") == [(expected,)]


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("text", 'a "quoted" {text}, \\ with NULL'),
        ("text", ""),
        ("bytea", b"\x00\xff"),
        ("bytea", b""),
        ("uuid", uuid4()),
        ("boolean", False),
        ("smallint", -3),
        ("bigint", 2**62),
        ("interval", timedelta(days=-3, microseconds=1)),
        ("interval", timedelta(days=36_500)),
        ("timestamptz", datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
        ("timestamptz", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
async def test_a_value_comes_back_as_it_was_alone_and_in_arrays(
    reserved: PsycopgConnection, type: str, value: object
) -> None:
    arrays: tuple[list[object], ...] = ([value], [None, value], [None, None], [])

    for given in (value, None):
        assert await reserved.fetch(f"SELECT $1::{type}", given) == [(given,)]
    for each in arrays:
        assert await reserved.fetch(f"SELECT $1::{type}[]", each) == [(each,)]


async def test_instants_are_in_utc_whatever_the_zone_of_the_session(postgres_url: str) -> None:
    # Without settings, as behind a pooler: the zone is that of the role, or as here of the environment.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PGTZ", "Asia/Kathmandu")
        connection = await PsycopgDriver().connect(postgres_url, None, 5)

    [(zone, instant)] = await connection.fetch("SELECT current_setting('TimeZone'), $1::timestamptz", NOON)
    connection.terminate()

    assert zone == "Asia/Kathmandu"
    assert (instant, instant.tzinfo) == (NOON, UTC)


async def test_settings_of_the_url_are_kept_beside_ours(postgres_url: str) -> None:
    theirs = f"{postgres_url}?options=-c%20work_mem%3D5MB&application_name=theirs"

    connection = await PsycopgDriver().connect(theirs, {"default_transaction_isolation": "read committed"}, 5)
    shown = [
        (await connection.fetch(f"SHOW {name}"))[0][0]
        for name in ("work_mem", "default_transaction_isolation", "application_name", "client_encoding")
    ]
    connection.terminate()

    assert shown == ["5MB", "read committed", "mainspring", "UTF8"]


async def test_a_terminated_connection_keeps_its_socket_for_as_long_as_the_loop_watches_it(
    reserved: PsycopgConnection,
) -> None:
    waiting = asyncio.create_task(reserved.fetch("SELECT pg_sleep(5)"))
    await until(lambda: reserved._wire.waits)

    reserved.terminate()
    os.fstat(reserved._socket)
    with pytest.raises(psycopg.OperationalError):
        await waiting

    assert reserved.is_closed()


async def test_a_connection_that_the_server_has_ended_is_known_to_be_closed(
    reserved: PsycopgConnection, postgres_url: str
) -> None:
    [(pid,)] = await reserved.fetch("SELECT pg_backend_pid()")
    before = reserved.is_closed()

    end_session(postgres_url, pid)

    assert (before, reserved.is_closed()) == (False, True)
