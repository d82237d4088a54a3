"""Claims under limits on PostgreSQL: whose turn it is, and what becomes of it if they never end it."""

from datetime import timedelta

import pytest

from mainspring.model.limits import Limits
from mainspring.model.message import ALL_LEVELS, Want
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.names import Names
from tests.integration.postgres.acting import Connection, draft

WANT = Want("mail", 10, ALL_LEVELS)
HOLD = timedelta(seconds=30)


async def test_who_stands_still_during_its_turn_is_ended_by_the_server(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await storage.mailbox.publish([draft(group="mail", key="k")])
    turn = Names(postgres_schema).sql("limited_turn")
    assert "'5000'" in turn
    stopped = connection.transaction()
    await stopped.start()
    await connection.fetch(turn.replace("'5000'", "'300'"), "mail")

    ration = await storage.mailbox.claim_limited(WANT, Limits(ordered=True), None, "node", HOLD)

    assert len(ration.deliveries) == 1
    assert connection.is_closed()


async def test_the_setting_that_ends_it_is_gone_with_the_turn(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    before = await connection.fetchval("SHOW idle_in_transaction_session_timeout")
    async with connection.transaction():
        await connection.fetch(Names(postgres_schema).sql("limited_turn"), "mail")
        during = await connection.fetchval("SHOW idle_in_transaction_session_timeout")

    assert during == "5s"
    assert await connection.fetchval("SHOW idle_in_transaction_session_timeout") == before


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_in_a_snapshot_that_is_too_old_a_turn_fails_instead_of_counting_wrongly(
    storage: PostgresStorage, connection: Connection, postgres_schema: str, isolation: str
) -> None:
    # Behind a pooler nobody sets our isolation: a role may have been given another.
    turn = Names(postgres_schema).sql("limited_turn")
    await storage.mailbox.publish([draft(group="mail", key="k")])
    await storage.mailbox.claim_limited(WANT, Limits(ordered=True), None, "node", HOLD)
    await connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    await connection.fetchval("SELECT 1 FROM pg_class LIMIT 1")  # the snapshot is taken here

    await storage.mailbox.claim_limited(WANT, Limits(ordered=True), None, "node", HOLD)

    with pytest.raises(Exception, match="could not serialize"):
        await connection.fetch(turn, "mail")
    await connection.execute("ROLLBACK")
