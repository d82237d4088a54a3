"""Cancelling beside transactions that move what is cancelled."""

import asyncio

from mainspring.model.message import Cancelled
from mainspring.storage.contract import Keyed
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import TOPIC, Connection, blocked, claim, declare, publish


async def test_a_parked_message_on_its_way_to_its_groups_is_cancelled_there(
    storage: PostgresStorage, connection: Connection, another: Connection
) -> None:
    await publish(storage, key="order:42")
    await declare(storage, "mail")
    await declare(storage, "ledger")
    transaction = connection.transaction()
    await transaction.start()
    await run_async(EnlistedAsyncpg(connection), storage.enlisted().upkeep.reroute.script(10))
    cancelling = asyncio.create_task(storage.mailbox.cancel(Keyed(TOPIC, "order:42"), "paid"))
    await blocked(another)

    await transaction.commit()

    assert await cancelling == Cancelled(cancelled=2, asked=0)
    assert await claim(storage, group="mail") == await claim(storage, group="ledger") == []
    assert {(run.group, run.status) for run in await storage.ledger.runs(None, None, 10)} == {
        ("mail", "cancelled"),
        ("ledger", "cancelled"),
    }
