"""The scripts belong to no driver: the same texts and parameters run through psycopg, in blocking code."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Priority, Settled
from mainspring.model.verdict import DONE, Bury, Release, Retry, Settlement
from mainspring.model.verdict import Failure as Why
from mainspring.storage.contract import Keyed
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import Row, Statement, run
from tests.integration.postgres.acting import HOLD, declare, draft

FAILURE = Why("error", "boom", "trace")


class Psycopg:
    """A blocking connection of another driver."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._cursor = psycopg.RawCursor(connection)

    def execute(self, statement: Statement) -> Sequence[Row]:
        self._cursor.execute(statement.sql.encode(), statement.args)
        return self._cursor.fetchall() if self._cursor.description else []


@pytest.fixture
def psycopg_connection(postgres_url: str) -> Iterator[Psycopg]:
    with psycopg.connect(postgres_url) as connection:
        yield Psycopg(connection)


async def test_a_message_goes_all_the_way_through_another_driver(
    storage: PostgresStorage, psycopg_connection: Psycopg
) -> None:
    await declare(storage)
    scripts, other = storage.enlisted().mailbox, psycopg_connection
    full = draft(key="k", headers={"a": "1"}, priority=Priority.URGENT, expires_in=timedelta(hours=1))
    drafts = [draft(), full, draft(delay=timedelta(hours=1)), draft("nobody")]

    published = run(other, scripts.publish.script(drafts))
    first, second = run(other, scripts.claim.script([ClaimRequest("mail", 10, ALL_LEVELS)], "node", HOLD))
    extended = run(other, scripts.extend.script([first.claim, second.claim], "node", HOLD))
    mixed = [Settlement(first.claim, Retry(timedelta(), FAILURE)), Settlement(second.claim, Release())]
    settled = run(other, scripts.settle.script(mixed, "node"))
    again = run(other, scripts.claim.script([ClaimRequest("mail", 10, ALL_LEVELS)], "node", HOLD))
    ends = [Settlement(again[0].claim, Bury(FAILURE)), Settlement(again[1].claim, DONE, "all")]
    run(other, scripts.settle.script(ends, "node"))
    upcoming = run(other, scripts.upcoming.script(["mail"]))
    cancelled = run(other, scripts.cancel.script(Keyed("orders.placed", "k"), "why"))

    assert len(published.stored) == 4
    assert (first.message_id, first.headers, second.message_id) == (full.id, {"a": "1"}, drafts[0].id)
    assert (extended.lost, settled) == (frozenset(), Settled())
    assert upcoming is not None
    assert upcoming > timedelta(minutes=59)
    assert cancelled.cancelled == 0
    assert run(other, scripts.reap.script(["mail"], "node", HOLD)) is None


async def test_plain_successes_are_settled_through_another_driver(
    storage: PostgresStorage, psycopg_connection: Psycopg
) -> None:
    await declare(storage)
    run(psycopg_connection, storage.enlisted().mailbox.publish.script([draft() for _ in range(20)]))
    held = run(
        psycopg_connection,
        storage.enlisted().mailbox.claim.script([ClaimRequest("mail", 50, ALL_LEVELS)], "node", HOLD),
    )

    settled = run(
        psycopg_connection,
        storage.enlisted().mailbox.settle.script([Settlement(each.claim, DONE) for each in held], "node"),
    )

    assert (len(held), settled) == (20, Settled())
